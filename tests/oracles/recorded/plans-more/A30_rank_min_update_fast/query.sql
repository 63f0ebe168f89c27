CREATE TABLE s (
  id INT, k STRING, v INT, s STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  k STRING, s STRING, sm INT, rn BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, s, sm, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY sm) AS rn FROM (SELECT k, s, MIN(v) AS sm FROM s GROUP BY k, s)) WHERE rn <= 2;
