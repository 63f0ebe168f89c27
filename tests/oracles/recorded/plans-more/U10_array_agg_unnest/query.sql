CREATE TABLE s (
  id INT NOT NULL, x INT, arr ARRAY<INT>, nn ARRAY<INT NOT NULL>, m MAP<STRING, INT>, ms MULTISET<STRING>, ar ARRAY<ROW<a INT, b STRING>>, rr ROW<p ARRAY<STRING>, q INT>, aa ARRAY<ARRAY<INT>>,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  id INT, e INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT x, e FROM (SELECT x, ARRAY_AGG(id) AS ids FROM s GROUP BY x) CROSS JOIN UNNEST(ids) AS t (e);
