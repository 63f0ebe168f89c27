"""The first rows of each partition by an order: top-n, and LIMIT.

spec        what is ranked, by what, which ranks are shown
ranking     which changes follow when ranks shift; no state
buffer      what the operators share: the rows in order, the end of the range
retract     any input: all rows are kept
arrival     the same by arrival: LIMIT
aging       any input with a TTL: expired rows keep their ranks for a while
aging_newest    the same by arrival, the newest first
append      input that only grows: what is shown is kept
update      input whose rows only rise: what is shown is kept, with an index by unique key
first       the first rows by arrival (a counter), and top-1 (one row)

columnar        append and top-1 over all changes of an epoch at once, out of
tops            the first rows of many partitions while rows come to them
shifts          `ranking` on columns
kept_lines      rows of many keys as state has them
columnar_first  the first rows by arrival over all changes of an epoch at once
"""
