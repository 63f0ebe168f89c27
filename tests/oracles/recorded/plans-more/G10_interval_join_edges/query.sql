CREATE TABLE a (
  id INT, k STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/a.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE b (
  id INT, k STRING, bts TIMESTAMP(3),
  WATERMARK FOR bts AS bts
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
INSERT INTO snk SELECT a.id, b.id FROM a RIGHT JOIN b ON a.k = b.k AND b.bts > a.ts - INTERVAL '0' SECOND AND b.bts < a.ts + INTERVAL '5' SECOND;
