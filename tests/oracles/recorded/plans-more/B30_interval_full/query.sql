CREATE TABLE a (
  id INT, k STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/a.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE b (
  id INT, k STRING, bts TIMESTAMP(3),
  WATERMARK FOR bts AS bts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/b.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  a INT, b INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND b.bts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts + INTERVAL '4' SECOND;
