"""OVER aggregation: a value for each row, over the rows before it.

positions.py        ROW_NUMBER, RANK, DENSE_RANK and LAG, which only OVER has
spec.py             what every OVER is to do
calls.py            all calls of a node, over rows and constants
over_aggregate.py   the operator in the order of time; frame_calls.py, the calls over its frames
ordered_over.py     the operator in the order of other columns, over any changelog
sort_places.py      where rows stand in such an order, as keys of sorted state
idle_rows.py        forgetting partitions that nothing comes for

LAG and LEAD in such an order are `operators.lag_lead`.
"""
