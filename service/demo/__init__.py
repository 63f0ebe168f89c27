"""The demo of `make run`: real flights, and the proof that their final table is right.

run        from nothing to the history of a key
flights    the changelog, and what its result must be
client     the few requests that it makes
"""
