CREATE TABLE s (
  id INT NOT NULL, k STRING, v INT, x STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE snk (
  id INT, k STRING, v INT, x STRING, a0 INT, a1 INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT id, k, v, x, AVG(v) OVER w, SUM(v) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);
