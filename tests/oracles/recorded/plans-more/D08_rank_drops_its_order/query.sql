CREATE TABLE s (
  id INT, cat STRING, p INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  cat STRING, rn BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT cat, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cat ORDER BY p DESC) AS rn FROM s) WHERE rn <= 2;
