"""Changes in, changes out: what stateful nodes mean, apart from HTTP and from Spark.

changelog, batch          what a change is; a batch of them on columns
keyed, spec, kinds        how an operator is written, told what to do, and found by its JSON
keyed_runner              an epoch of a keyed operator: controller, emissions, one commit
running_epoch, gathering  one on its way; a partition's rows as they arrive
keyed_columns, kept_rows  the columnar path; of operators that keep one row of each key
worker, wire              a partition's epoch in Spark's worker; what crosses between nodes
upsert_materializer       out-of-order changelogs for sinks with a key (FLIP-544); keyed_epoch,
                          columnar and net_changes: the same on columns
compacting_materializer   ON CONFLICT DO ERROR, DO NOTHING (FLIP-558)
changelog_normalize, deduplicate/, rank/, temporal_sort, lag_lead; columnar_normalize: the first
                          on columns; neighbour_rows: what the last keeps
aggregate/, over/, windows/, join/
process_function          operators of users
expressions/              conditions and projections inside of operators, in Python
orphans                   retractions that matched nothing
unavailable               values that a change does not carry (TOAST)
event_time, processing_time, watermarks     times that rows carry, and how far they came
ordering, stored_rows     orders of rows; rows as operators keep them
idle_cleanup              forgetting keys that nothing came for
codes, sort_codes         rows as numbers, to group and to order them; arrow_columns
time_zones                zones by their names in Java
errors                    the tree of what can be wrong
testing/                  harnesses, and what each operator means as a plain function
"""
