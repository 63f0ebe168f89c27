CREATE TABLE s (
  id INT, cat STRING, p INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  cat STRING, id INT, c INT, rn BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT cat, id, c, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cat ORDER BY c DESC) AS rn FROM (SELECT cat, id, SUM(p) AS c FROM s GROUP BY cat, id)) WHERE rn <= 2;
