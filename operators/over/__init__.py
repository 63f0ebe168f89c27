"""OVER aggregation: a value for each row, over the rows before it.

positions.py        ROW_NUMBER, RANK, DENSE_RANK and LAG, which only OVER has
calls.py            all calls of a node, over rows and constants
over_aggregate.py   the operator
"""
