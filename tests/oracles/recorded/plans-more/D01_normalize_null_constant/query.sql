CREATE TABLE s (
  id BIGINT NOT NULL, name STRING, d DECIMAL(10, 2), ts TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE snk (
  id BIGINT, name STRING, d DECIMAL(10, 2), ts TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT * FROM s WHERE name IS NULL;
