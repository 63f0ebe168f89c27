CREATE TABLE b (
  id INT NOT NULL, k STRING NOT NULL, x INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/b.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, id INT, x INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT s.k, l.id, l.x FROM (SELECT DISTINCT k FROM b) s, LATERAL (SELECT id, x FROM b WHERE k = s.k ORDER BY x DESC LIMIT 2) l;
