SET 'table.optimizer.non-deterministic-update.strategy' = 'TRY_RESOLVE';
CREATE TABLE o (
  id INT NOT NULL, pid INT, q INT, pt AS PROCTIME(),
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/o.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
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
INSERT INTO snk SELECT o.id, d.nm, d.lvl FROM o JOIN d FOR SYSTEM_TIME AS OF o.pt ON o.pid = d.pid AND d.lvl < 4;
