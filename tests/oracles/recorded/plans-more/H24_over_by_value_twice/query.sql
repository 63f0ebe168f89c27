CREATE TABLE s (
  id INT NOT NULL, k STRING NOT NULL, v INT, x STRING, PRIMARY KEY (id, k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  id INT, k STRING, c BIGINT, d BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT id, k, c, SUM(c) OVER (PARTITION BY k ORDER BY id) FROM (SELECT id, k, COUNT(*) OVER (PARTITION BY k ORDER BY v) AS c FROM s);
