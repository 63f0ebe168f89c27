"""Aggregation: functions and their accumulators, and the operators that group rows.

call.py             one call of a plan
functions.py        functions whose accumulator is of a fixed size; sums.py, bits.py, numbers.py
remembering.py      functions that remember every value, in memory
aggregates.py       several calls over rows, with filters and DISTINCT, in memory
stored.py           the same with values and distinct sets in states of their own
                    (stored_functions.py, stored_sequences.py, stored_ends.py); beside.py: these
                    beside accumulators that have all in them
group_aggregate.py  the operators; columnar_aggregate.py, running.py: on columns
"""

from operators.aggregate.aggregates import AccumulatorCodec, Accumulators, Aggregates, aggregator
from operators.aggregate.call import AggregateCall
from operators.aggregate.functions import Aggregator

__all__ = [
    "AccumulatorCodec",
    "Accumulators",
    "AggregateCall",
    "Aggregates",
    "Aggregator",
    "aggregator",
]
