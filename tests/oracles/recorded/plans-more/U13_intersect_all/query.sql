CREATE TABLE a (
  id INT NOT NULL, k STRING, x INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/a.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE b (
  id INT NOT NULL, k STRING, x INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/b.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, x INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, x FROM a INTERSECT ALL SELECT k, x FROM b;
