CREATE TABLE s (
  id INT, k STRING, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);

CREATE TABLE snk (
  a DECIMAL(38, 2), b DECIMAL(38, 6), c DECIMAL(10, 2), d BIGINT, e DOUBLE
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT SUM(CAST(v AS DECIMAL(10, 2))), AVG(CAST(v AS DECIMAL(10, 2))), MAX(CAST(v AS DECIMAL(10, 2))), SUM(CAST(v AS BIGINT)), AVG(CAST(v AS DOUBLE)) FROM s;
