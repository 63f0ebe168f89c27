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
  k STRING, c BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, COUNT(*) FROM (SELECT k FROM a EXCEPT ALL SELECT k FROM b) GROUP BY k;
