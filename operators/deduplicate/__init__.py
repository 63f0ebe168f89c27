"""Keep one row of each key: the first or the last, by arrival or by event time.

spec        which row is kept, and what is emitted of it
arrival     by processing time, of input that only grows
event       by event time, of input that only grows
columnar    both, over all changes of an epoch at once
retracting  any input: all rows are kept, so that another one can take a row's place
"""
