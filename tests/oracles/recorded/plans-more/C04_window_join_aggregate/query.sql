CREATE TABLE s (
  k STRING, v INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE r2 (
  k STRING, w INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r2.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, we TIMESTAMP(3), c BIGINT, m INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT l.k, l.window_end, COUNT(*), MAX(r.w) FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) l JOIN TABLE(CUMULATE(TABLE r2, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end GROUP BY l.k, l.window_start, l.window_end;
