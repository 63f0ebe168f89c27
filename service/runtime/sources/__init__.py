"""Sources: tables as streams of changes, read by Spark as Python data sources.

data_source    the one class that Spark knows; makes the reader that its spec names
spec           what a source task is told, as JSON
base           ticks, notes, dead letters and batches: what all readers share
filesystem     files below the files root; file_log, lines, file_formats and
               parquet_files belong to it
ingress        changes that came over HTTP and wait in a Redis stream
datagen        made-up rows, a function of their position
values         the rows of a VALUES node
ticks          ticks alone, beside a stream of Spark's own that has none
kafka          records of Spark's Kafka source into changes; kafka_options and
               record_decoder belong to it
formats        names of formats; decoding, csv_lines, timed_lines: lines into columns
key_moves      updates that move a row to another key, apart from others
toast          values that an event does not carry
capture        what options say of the formats of change data capture
"""
