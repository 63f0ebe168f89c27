CREATE FUNCTION CustomWindow AS 'functions.CustomWindow';

CREATE TABLE s (
  k STRING, v INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  k STRING, total BIGINT, ts TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, total, rowtime FROM CustomWindow(TABLE s PARTITION BY k, 'v', 10000, DESCRIPTOR(ts));
