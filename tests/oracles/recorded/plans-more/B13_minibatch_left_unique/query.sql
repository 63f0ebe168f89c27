SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '600 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE l (
  k STRING NOT NULL, lv INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/l.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE r (
  k STRING NOT NULL, rv INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, lv INT, k2 STRING, rv INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT l.k, lv, r.k, rv FROM l LEFT JOIN r ON l.k = r.k;
