CREATE TABLE s (
  id INT, cat STRING, p INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);

CREATE TABLE snk (
  id INT, cat STRING, p INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT * FROM s LIMIT 0;
