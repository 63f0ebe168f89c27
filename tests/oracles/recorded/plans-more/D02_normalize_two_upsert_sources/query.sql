CREATE TABLE s (
  id BIGINT NOT NULL, name STRING, d DECIMAL(10, 2), ts TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE r (
  id BIGINT NOT NULL, v INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE snk (
  id BIGINT, name STRING, v INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT s.id, name, v FROM s JOIN r ON s.id = r.id;
