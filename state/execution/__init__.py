"""How operations on state are carried out: at once, or gathered into batches (FLIP-425).

requests.py         what a suspended operation waits for
sync.py             drive one coroutine, or several side by side, without a controller
controller.py       many records in flight, in order within each key: what a task uses
engine.py           the way of a record through it
limits.py           bounds of its queues and waits, with Flink's option names
record_context.py   a record in flight
key_context.py      whose key is current
key_accounting.py   which record holds which key
buffers.py          where records wait: active and blocking buffer
channels.py         how batches leave and come back
stretches.py        what lies between two non-records (FLIP-425's epochs), and their order
combined.py         `combine_all`: several operations of one record side by side
sync_point.py       `hold_key`: go on once the key is held
timers.py           what the controller asks of a service of timers
processes.py        processes in declared blocks, which can be kept as data
keeping.py          taking records out of flight
lookups.py          keyed, ordered look-ups on the same core, without state (FLIP-519);
                    no operator of ours uses it: look-up joins ask in batches
lookup_channel.py   their sources, deadlines and retries
site.py             where errors say that they happened
statistics.py       gauges
"""
