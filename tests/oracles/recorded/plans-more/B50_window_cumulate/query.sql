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
  k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, sm INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, window_start, window_end, COUNT(*), SUM(v) FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY k, window_start, window_end;
