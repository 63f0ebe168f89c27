SET 'table.exec.sink.upsert-materialize-strategy.type' = 'LEGACY';
CREATE TABLE s (
  id INT NOT NULL, k STRING NOT NULL, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  k STRING NOT NULL, v INT,
  PRIMARY KEY (k) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'upsert'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, v FROM s ON CONFLICT DO DEDUPLICATE;
