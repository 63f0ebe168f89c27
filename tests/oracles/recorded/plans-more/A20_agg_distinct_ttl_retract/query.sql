SET 'table.exec.state.ttl' = '1500 ms';
CREATE TABLE s (
  id INT, k STRING, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);

CREATE TABLE snk (
  k STRING, a BIGINT, b BIGINT, c INT, d INT, e INT, f BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT s), SUM(DISTINCT v), AVG(DISTINCT v), MIN(DISTINCT v), COUNT(*) FROM s GROUP BY k;
