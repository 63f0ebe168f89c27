SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '5 s';
SET 'table.exec.mini-batch.size' = '1000';
SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';
CREATE TABLE s (
  k STRING, i TINYINT, b BIGINT, d DECIMAL(5, 2), f FLOAT, g DOUBLE, o BOOLEAN, t TIMESTAMP(3), da DATE, s STRING, id INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  k STRING, i TINYINT, b BIGINT, d DECIMAL(38, 6), f FLOAT, g DOUBLE
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, AVG(i), AVG(b), AVG(d), AVG(f), AVG(g) FROM s GROUP BY k;
