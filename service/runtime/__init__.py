"""Plans as streaming queries on Spark Connect, and their pipelines, kept running.

What is wanted, and what is done about it:
    registry, records         the pipelines that exist; registry_notes, transactions, pipeline_names
    supervision, lease        which of several services supervises
    supervisor, keeper        brings each pipeline's query to what is wanted; keeper_ports, status
    query_starter             what keepers work with; admission: what may become a pipeline
    gateway                   our session of Spark Connect; spark_errors, spark_configuration
    savepoints                state, slot, checkpoint in one folder; savepoint_store, checkpoints;
                              restore_fit: what of it another plan goes on with
    sql_sessions              named sessions of SQL
    redis_health, collector   whether Redis may hold state; progress for `/metrics`

A plan as a query:
    dataflow, lowering        checked, built, started; from nodes to one DataFrame
    shared_rows               a part that goes several ways: one stream, made once
    operators, specs/         stateful nodes, and the specs of their operators
                              materializer_options, terms; togetherness: what needs no exchange
    frames, expressions/      nodes without state, and expressions, as columns on the JVM;
                              correlate, place_bits, unions; node_errors: which node
    map_tasks, wire_columns   stages that run in Python; what crosses between them
    quiet_epochs              epochs in which nothing is read; ticks_apart, planned_offsets
    event_time                where operators have their event time from
    sources/, sinks/          tables read and written; kafka_stream, connectors,
                              connections, ledgers; databases, topics, folders: claimed;
                              looked_up: tables of other pipelines
    table_options, node_options     options known by name; csv_dialect, constraints, files,
                                    kafka_fields, part_files

What is kept, for people:
    contents                  operators, sources and sinks of a pipeline, by name
    inspection                histories; state_inspection: any state; explanation: in words;
                              what_if: under another TTL
    key_listing, key_text     keys a page at a time, and as clients write them
    table_reader, slot_keys   tables, dead letters, progress; intake: changes over HTTP

launcher, guard, daemon, helpers    servers of our own; Spark's Python processes, which
                                    worker_python.sh starts; worker_view: the folders they see
errors, dataflow_errors, inspection_errors
"""
