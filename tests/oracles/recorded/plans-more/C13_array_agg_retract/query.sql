CREATE TABLE l (
  id INT NOT NULL, k STRING, lv INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/l.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, a ARRAY<INT>, b ARRAY<INT>
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, ARRAY_AGG(lv), ARRAY_AGG(DISTINCT id IGNORE NULLS) FROM l GROUP BY k;
