CREATE TABLE s (
  k STRING, i TINYINT, b BIGINT, d DECIMAL(5, 2), f FLOAT, g DOUBLE, o BOOLEAN, t TIMESTAMP(3), da DATE, s STRING, id INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);

CREATE TABLE snk (
  k STRING, i TINYINT, b BIGINT, d DECIMAL(38, 2), f FLOAT, g DOUBLE
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, SUM(i), SUM(b), SUM(d), SUM(f), SUM(g) FROM s GROUP BY k;
