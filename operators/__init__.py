"""Changes in, changes out: what stateful nodes mean, apart from HTTP and from Spark.

changelog, batch          what a change is; a batch of them on columns
keyed, spec, kinds        how an operator is written, told what to do, and found by its JSON
keyed_runner              an epoch of a keyed operator: controller, emissions, one commit
worker, wire              a partition's epoch in Spark's worker; what crosses between nodes
upsert_materializer       out-of-order changelogs for sinks with a key (FLIP-544); keyed_epoch,
                          columnar and net_changes: the same on columns
compacting_materializer   ON CONFLICT DO ERROR, DO NOTHING (FLIP-558)
changelog_normalize, deduplicate/, rank/, temporal_sort, lag_lead
aggregate/, over/, windows/, join/
process_function          operators of users
expressions/              conditions and projections inside of operators, in Python
orphans                   retractions that matched nothing
event_time, processing_time, watermarks     times that rows carry, and how far they came
ordering, stored_rows     orders of rows; rows as operators keep them
errors                    the tree of what can be wrong
testing/                  harnesses, and what each operator means as a plain function
"""
