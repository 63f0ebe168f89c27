"""From the algebra to the nodes of a plan.

nodes, window_specs       what a node is before it is JSON
convert, calc, correlate, lookup, windows, attached      nodes for relations
keys, monotonicity, ranks, value_intervals      what is known of a node's rows
changelog                 what each node sends: change_kinds, updates, deletes
phases, accumulators      mini-batches, local and global aggregation
serializers               Flink's serializers, which some of its plans write down
over                      which OVER windows are planned
sinks, determined         what is kept so that changes can be taken back
connectors                what sources send and sinks take
node_json                 the JSON of nodes: aggregate_json, join_json, window_json
schema_json, descriptions the JSON of tables; nodes in words (expression_text)
"""
