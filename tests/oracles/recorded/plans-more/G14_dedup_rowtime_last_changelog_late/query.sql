SET 'table.exec.deduplicate.insert-update-after-sensitive-enabled' = 'false';
CREATE TABLE s (
  id INT NOT NULL, k STRING, v INT, x STRING, ts TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, v INT, x STRING, ts TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, v, x, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY ts DESC) AS rn FROM s) WHERE rn <= 1;
