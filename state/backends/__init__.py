"""Where keyed state is, behind one interface, and the epoch protocol that keeps it exactly once.

interface.py        what a backend and a ledger promise
accesses.py         reads, writes and effects: what they are asked for
heap.py             dictionaries (with heap_structures.py): tests, what-if, benchmarks
redis.py            Redis: transactions; what `redis-cli` shows
tailrace.lua        the protocol inside Redis
transport.py        round trips, limits, incarnations, loading of functions
wire.py             commands and replies on one connection
reads.py chunks.py  reads as commands and replies as values; writes as chunks
byte_client.py      the one typed border to redis-py's own client, whose replies are bytes
names.py rules.py   names of keys; decisions that both backends take in the same words
"""
