"""`kafka` and `upsert-kafka` sinks: a topic has its pipeline's changes exactly once (ADR 16).

options      Flink's options of the table, checked without a broker
properties   its `properties.*`, as librdkafka takes them
shape        which columns are a record's key and its value
fence        the committed offset of a group: who writes a topic, and which epoch it holds
session      a client of one topic: its transactions, and what errors of Kafka become
told         metadata of a record: its time and headers
sink         what a writer task stages
commit       claimed at a run's start, written before an epoch's close, taken over at a restore
"""
