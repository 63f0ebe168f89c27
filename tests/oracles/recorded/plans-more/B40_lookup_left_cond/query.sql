CREATE TABLE o (
  id INT, pid INT, q INT, pt AS PROCTIME()
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/o.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE d (
  pid INT, nm STRING, lvl INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/d.jsonl',
  'changelog-mode' = 'I',
  'lookup' = 'true'
);
CREATE TABLE snk (
  id INT, nm STRING, lvl INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT o.id, d.nm, d.lvl FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF o.pt ON o.pid = d.pid AND d.lvl < 3 AND o.q > 1;
