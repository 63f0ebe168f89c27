CREATE TABLE s (
  id INT NOT NULL, k STRING NOT NULL, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UA,D'
);
CREATE TABLE snk (
  k STRING, a BIGINT, b INT, c BIGINT, d INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT /*+ STATE_TTL('s' = '1500 ms') */ k, COUNT(*), SUM(v), COUNT(DISTINCT s), MAX(v) FROM s GROUP BY k;
