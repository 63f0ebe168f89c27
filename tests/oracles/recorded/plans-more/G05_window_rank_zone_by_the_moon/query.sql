SET 'table.local-time-zone' = 'Africa/Casablanca';
SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
CREATE TABLE s (
  k STRING, v INT, x STRING, ts TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, v INT, x STRING, we TIMESTAMP(3), rn BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, v, x, window_end, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC) AS rn FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '30' MINUTE))) WHERE rn <= 2;
