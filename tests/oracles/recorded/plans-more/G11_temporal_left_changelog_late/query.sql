CREATE TABLE o (
  id INT NOT NULL, cur STRING, amt INT, ts TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/o.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE rates (
  cur STRING, rate INT, ts TIMESTAMP(3),
  PRIMARY KEY (cur) NOT ENFORCED,
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'inputs/rates.jsonl',
  'changelog-mode' = 'I,UB,UA,D'
);
CREATE TABLE snk (
  id INT, amt INT, rate INT
) WITH (
  'connector' = 'filesystem',
  'format' = 'changelog-json',
  'path' = 'output.jsonl',
  'changelog-mode' = 'retract'
);
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT o.id, o.amt, r.rate FROM o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.cur = r.cur AND r.rate > 10;
