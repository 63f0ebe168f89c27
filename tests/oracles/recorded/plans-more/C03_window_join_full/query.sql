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
  lk STRING, v INT, rk STRING, w INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT l.k, l.v, r.k, r.w FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) l FULL JOIN TABLE(TUMBLE(TABLE r2, DESCRIPTOR(ts), INTERVAL '10' SECOND)) r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end;
