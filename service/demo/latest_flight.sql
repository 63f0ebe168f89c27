-- The query of the demo. Flink 2.3 compiled it into latest_flight.plan.json (with connectors that it has;
-- the connector options below were put in afterwards, which is all that was changed).
SET 'table.exec.sink.upsert-materialize-strategy.type' = 'ADAPTIVE';

CREATE TABLE flights (
  flight_id STRING NOT NULL, tailnum STRING, carrier STRING, origin STRING, dest STRING, status STRING,
  scheduled TIMESTAMP(3), changed_at TIMESTAMP(3), dep_delay INT, arr_delay INT,
  PRIMARY KEY (flight_id) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'flights', 'changelog-mode' = 'I,UB,UA,D');

CREATE TABLE latest_flight (
  flight_id STRING NOT NULL, tailnum STRING NOT NULL, carrier STRING, origin STRING, dest STRING, status STRING,
  scheduled TIMESTAMP(3), changed_at TIMESTAMP(3), dep_delay INT, arr_delay INT,
  PRIMARY KEY (tailnum) NOT ENFORCED
) WITH ('connector' = 'redis', 'changelog-mode' = 'upsert');

COMPILE PLAN 'latest_flight.plan.json' FOR
INSERT INTO latest_flight SELECT * FROM flights WHERE tailnum IS NOT NULL ON CONFLICT DO DEDUPLICATE;
