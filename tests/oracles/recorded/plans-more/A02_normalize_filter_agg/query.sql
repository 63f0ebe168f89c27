CREATE TABLE s (
  id INT, name STRING, score INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);

CREATE TABLE snk (
  name STRING, c BIGINT, sm INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT name, COUNT(*), SUM(score) FROM s WHERE score > 5 GROUP BY name;
