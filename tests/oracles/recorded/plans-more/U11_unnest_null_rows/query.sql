CREATE TABLE s (
  id INT NOT NULL, x INT, arr ARRAY<INT>, nn ARRAY<INT NOT NULL>, m MAP<STRING, INT>, ms MULTISET<STRING>, ar ARRAY<ROW<a INT, b STRING>>, rr ROW<p ARRAY<STRING>, q INT>, aa ARRAY<ARRAY<INT>>
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I'
);
CREATE TABLE snk (
  id INT, a INT, b STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT id, a, b FROM s CROSS JOIN UNNEST(ar) AS t (a, b);
