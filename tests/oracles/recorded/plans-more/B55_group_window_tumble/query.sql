CREATE TABLE s (
  k STRING, v INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, ws TIMESTAMP(3), c BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, TUMBLE_START(ts, INTERVAL '10' SECOND), COUNT(*) FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
