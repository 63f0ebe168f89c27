SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '5 s';
SET 'table.exec.mini-batch.size' = '1000';
SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';
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
  k STRING, a BIGINT, b INT, c BIGINT, d BIGINT, e INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, COUNT(*) FILTER (WHERE v > 4), SUM(v) FILTER (WHERE s = 'x'), COUNT(DISTINCT s) FILTER (WHERE v > 4), COUNT(DISTINCT s), MAX(v) FILTER (WHERE s <> 'x') FROM s GROUP BY k;
