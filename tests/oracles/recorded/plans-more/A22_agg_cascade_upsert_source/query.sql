CREATE TABLE s (
  id INT, k STRING, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);

CREATE TABLE snk (
  c BIGINT, n BIGINT, m INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT c, COUNT(*), MAX(sm) FROM (SELECT k, COUNT(*) AS c, SUM(v) AS sm FROM s GROUP BY k) GROUP BY c;
