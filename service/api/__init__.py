"""The HTTP API, one resource a file; bodies and answers in `models` and `*_models`.

pipelines, savepoints     what is wanted to run, and what is kept of it
plans, statements         plans looked at without storing anything; scripts of SQL, sessions
operators, keys, states   what operators keep; operator_ttl and ttl_extension: for how long;
                          what_if: what another TTL would make of it
ingress, tables, progress what goes in, what came out, what was done
health, info, docs        whether it lives, what it offers, how it is used

deps, paging, etags, head what routes are given; pages; entity tags
idempotency, body_guard   a request that is sent twice; limits on bodies
observe, errors, times    a request's id and log line; what this layer refuses; times as text
validation_words          what is wrong with a value of a request
addresses, openapi        what addresses take; the OpenAPI document
representations           a pipeline as the API shows it
planning                  the share of threads and time that planning has
plan_documents            from a request to a plan's document; plan_locations: where plans lie
statement_runner          a script, statement by statement; session_options: what SET says of runs
"""
