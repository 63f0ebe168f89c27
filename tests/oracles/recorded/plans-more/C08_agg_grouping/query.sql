CREATE TABLE s (
  id INT, k STRING, v INT, s STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
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
INSERT INTO snk SELECT k, s, COUNT(v), GROUPING(k) FROM s GROUP BY GROUPING SETS ((k), (s));
