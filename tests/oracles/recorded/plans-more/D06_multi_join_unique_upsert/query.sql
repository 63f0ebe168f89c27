SET 'table.optimizer.multi-join.enabled' = 'true';
CREATE TABLE l (
  k STRING NOT NULL, a INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/l.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE r (
  k STRING NOT NULL, b INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE m (
  k STRING NOT NULL, c INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/m.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE snk (
  k STRING, a INT, b INT, c INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'upsert'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT l.k, a, b, c FROM l JOIN r ON l.k = r.k JOIN m ON l.k = m.k;
