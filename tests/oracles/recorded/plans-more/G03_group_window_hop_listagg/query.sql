CREATE TABLE s (
  id INT NOT NULL, k STRING, v INT, x STRING, ts TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), a0 STRING, a1 BIGINT, a2 INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), LISTAGG(x), COUNT(DISTINCT x), SUM(v) FROM s GROUP BY k, HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);
