CREATE TABLE l (
  id INT NOT NULL, k STRING NOT NULL, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/l.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE r (
  id INT NOT NULL, k STRING NOT NULL, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/r.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  a INT, k STRING, b INT, v INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT /*+ STATE_TTL('l' = '3750 ms', 'r' = '0 ms') */ l.id, l.k, r.id, r.v FROM l FULL JOIN r ON l.id = r.id;
