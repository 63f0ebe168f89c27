SET 'table.local-time-zone' = 'Asia/Shanghai';
SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';
CREATE TABLE s (
  k STRING, v INT, x STRING, ts TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), a0 BIGINT, a1 STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, window_start, window_end, COUNT(*), LISTAGG(x) FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '2' HOUR)) GROUP BY k, window_start, window_end;
