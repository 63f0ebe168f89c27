CREATE TABLE s (
  k STRING, v INT, pt AS PROCTIME()
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, v INT, sm INT, c BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, v, SUM(v) OVER w, COUNT(*) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY pt RANGE BETWEEN INTERVAL '1.4' SECOND(1,1) PRECEDING AND CURRENT ROW);
