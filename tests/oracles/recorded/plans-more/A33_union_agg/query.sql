CREATE TABLE s (
  id INT, k STRING, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);

CREATE TABLE t (
  id INT, k STRING, v INT, s STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/t.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  k STRING, c BIGINT, sm INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, COUNT(*), SUM(v) FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM t) GROUP BY k;
