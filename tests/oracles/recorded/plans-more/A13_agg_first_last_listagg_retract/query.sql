CREATE TABLE s (
  id INT, k STRING, v INT, s STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/s.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);

CREATE TABLE snk (
  k STRING, a INT, b INT, c STRING, d STRING, e STRING, f STRING
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);

COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, FIRST_VALUE(v), LAST_VALUE(v), FIRST_VALUE(s), LAST_VALUE(s), LISTAGG(s), LISTAGG(s, '|') FROM s GROUP BY k;
