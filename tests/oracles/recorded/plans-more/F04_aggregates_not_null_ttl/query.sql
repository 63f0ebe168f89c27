SET 'table.exec.state.ttl' = '2500 ms';
CREATE TABLE s (
  id INT NOT NULL, k STRING, b_ BIGINT, l_ SMALLINT, d_ DOUBLE NOT NULL, x INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, n BIGINT, a0 BIGINT, a1 SMALLINT, a2 DOUBLE
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, COUNT(*), MAX(b_), MAX(l_), MIN(d_) FROM s GROUP BY k;
