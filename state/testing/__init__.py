"""Suites that every state backend passes, and connections that fail where a test says so.

    stand.py                what the suites drive
    conformance.py          structures, attempts and runs
    ledger_conformance.py   the marker, sinks' effects, the end of a pipeline
    faults.py               transports and backends that die before, during or after a command

pytest is needed here and only here; nothing that runs in production imports this package.
"""
