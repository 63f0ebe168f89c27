CREATE TABLE s (
  id INT NOT NULL, k STRING NOT NULL, v INT, x STRING, PRIMARY KEY (id, k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  id INT NOT NULL, k STRING NOT NULL, c BIGINT, PRIMARY KEY (id, k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'upsert'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT id, k, COUNT(*) OVER (PARTITION BY k ORDER BY v) FROM s WHERE v > 0;
