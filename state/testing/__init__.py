"""Suites that every state backend passes, and connections that fail where a test says so.

    stand.py                what the suites drive
    conformance.py          attempts and runs; with the two below, a state backend
    structure_conformance.py, lex_conformance.py
                            hashes, sorted sets, streams; sorted sets by their bytes
    ledger_conformance.py   the marker, sinks' effects, the end of a pipeline
    sessions.py             epochs of state sessions, for tests of the primitives
    primitive_models.py     what value, list, map, reducing and aggregating state mean
    multiset_model.py       what a sequenced multiset means
    primitive_machine.py    a Hypothesis machine that holds the handles to the models
    sorted_machine.py, multiset_machine.py, timers_machine.py
                            the same for sorted maps, sequenced multisets and timers
    sorted_epochs.py        epochs of one sorted map, for tests
    attempts.py             epochs that die anywhere and are tried again, as Spark does
    stragglers.py           calls that stand still, and go on when they are let
    faults.py               transports and backends that die before, during or after a command
    execution.py            a clock, answers and cells that the controller's tests move by hand
    proxy.py                a wire with a round-trip time, which fails as it is told

pytest and Hypothesis are needed here and only here; nothing that runs in production imports this
package.
"""
