CREATE TABLE s (
  k STRING, v INT, x STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), a0 BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, HOP_START(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND), HOP_END(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND), COUNT(*) FILTER (WHERE v > 1) FROM s GROUP BY k, HOP(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND);
