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
  k STRING, s STRING, c BIGINT, g BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, s, COUNT(v), GROUPING_ID(k, s) FROM s GROUP BY CUBE (k, s);
