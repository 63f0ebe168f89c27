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
  k STRING, id INT, g BIGINT, h BIGINT, c BIGINT, ck BIGINT, s INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, id, GROUPING(k), GROUPING_ID(k, id), COUNT(*), COUNT(k), SUM(lv) FROM l GROUP BY CUBE (id, k);
