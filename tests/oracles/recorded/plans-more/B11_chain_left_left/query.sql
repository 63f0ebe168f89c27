CREATE TABLE l (
  id INT NOT NULL, k STRING, lv INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/l.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE r (
  id INT NOT NULL, k STRING, rv INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE m (
  id INT NOT NULL, k STRING, mv INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/m.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  a INT, b INT, c INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT l.id, r.id, m.id FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN m ON r.k = m.k;
