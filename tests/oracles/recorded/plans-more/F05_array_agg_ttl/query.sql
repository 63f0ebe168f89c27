SET 'table.exec.state.ttl' = '3500 ms';
CREATE TABLE s (
  id INT NOT NULL, e_ DECIMAL(6, 2) NOT NULL, b_ BIGINT NOT NULL, d_ DOUBLE, x INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  n BIGINT, a0 DECIMAL(6, 2), a1 BIGINT, a2 DOUBLE, ar ARRAY<INT>, cd BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT COUNT(*), MIN(e_), MIN(b_), MAX(d_), ARRAY_AGG(x), COUNT(DISTINCT x) FROM s;
