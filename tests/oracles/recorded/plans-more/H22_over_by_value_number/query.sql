CREATE TABLE s (
  id INT NOT NULL, k STRING, v INT, x STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  id INT, k STRING, v INT, x STRING, a0 BIGINT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT id, k, v, x, ROW_NUMBER() OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY v NULLS LAST );
