"""Windows of time: rows that belong together because of when they happened.

shapes.py                 tumbling, hopping, cumulating and session windows: which contain a time
zones.py                  windows of local time: days begin at midnight of a zone
spec.py, windowed.py      what operators share whose windows come out when their time has come
slice_aggregates.py       what the two below keep of a slice or session, and what of it grows
window_aggregate.py       aggregates of windows that are cut into slices
session_aggregate.py      aggregates of sessions
window_join.py            rows of two tables in the same window
window_rank.py            the first rows of each window
window_table_function.py  rows with the windows that they are in
"""
