SET 'table.exec.state.ttl' = '3500 ms';
CREATE TABLE s (
  id INT NOT NULL, k STRING, s_ STRING, d_ DOUBLE NOT NULL, f_ FLOAT, x INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE snk (
  k STRING, n BIGINT, a0 STRING, a1 DOUBLE, a2 FLOAT, l STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, COUNT(*), FIRST_VALUE(s_), MIN(d_), FIRST_VALUE(f_), LISTAGG(s_) FROM s GROUP BY k;
