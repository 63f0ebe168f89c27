CREATE TABLE s (
  k STRING, v INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, SESSION_START(ts, INTERVAL '4' SECOND), SESSION_END(ts, INTERVAL '4' SECOND), COUNT(*) FROM s GROUP BY k, SESSION(ts, INTERVAL '4' SECOND);
