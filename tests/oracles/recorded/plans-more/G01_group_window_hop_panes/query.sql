CREATE TABLE s (
  k STRING, v INT, x STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), a0 INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, HOP_START(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND), HOP_END(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND), AVG(v) FROM s GROUP BY k, HOP(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND);
