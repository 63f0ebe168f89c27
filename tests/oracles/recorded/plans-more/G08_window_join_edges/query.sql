CREATE TABLE s (
  k STRING, v INT, x STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE r (
  k STRING, v INT, x STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  k STRING, v INT, k2 STRING, v2 INT, we TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT l.k, l.v, r.k, r.v, COALESCE(l.window_end, r.window_end) FROM (SELECT * FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND, INTERVAL '10' SECOND))) l JOIN (SELECT * FROM TABLE(HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND, INTERVAL '10' SECOND))) r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end;
