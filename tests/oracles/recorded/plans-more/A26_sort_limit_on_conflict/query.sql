CREATE TABLE s (
  id INT, cat STRING, p INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);

CREATE TABLE snk (
  id INT, cat STRING, p INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'upsert'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT * FROM s ORDER BY p LIMIT 3 ON CONFLICT DO DEDUPLICATE;
