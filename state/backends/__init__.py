"""Where keyed state is, behind one interface, and the epoch protocol that keeps it exactly once.

interface.py        what a backend and a ledger promise; reads, writes, effects
heap.py             dictionaries (with heap_structures.py): tests, what-if, benchmarks
redis.py            Redis: transactions; what `redis-cli` shows
tailrace.lua        the protocol inside Redis
transport.py        round trips, limits, incarnations, loading of functions
reads.py chunks.py  reads as commands and replies as values; writes as chunks
names.py rules.py   names of keys; decisions that both backends take in the same words
"""
