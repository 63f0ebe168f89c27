CREATE TABLE s (
  id INT, k STRING, v INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING, id INT, v INT, w STRING,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'upsert'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk (k, v) SELECT k, v FROM s ON CONFLICT DO DEDUPLICATE;
