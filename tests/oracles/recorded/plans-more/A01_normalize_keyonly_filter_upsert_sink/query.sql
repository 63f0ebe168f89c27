CREATE TABLE s (
  id INT, name STRING, score INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D',
  'key-only-deletes' = 'true'
);

CREATE TABLE snk (
  id INT, name STRING, score INT,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'upsert'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT * FROM s WHERE score > 5 OR name = 'd';
