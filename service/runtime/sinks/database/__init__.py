"""`jdbc` sinks: a table of a database has what its pipeline has, exactly once (docs/adr/0013).

options   Flink's options of the table, checked without a database
values    what of our values databases have at all
columns   what a column of a table can hold, and how values are handed to it
fence     the table `tailrace_epochs`: who writes a table, and which epoch it holds
catalog   how a database compares texts, and other things of its own catalogue
target    one table: found, checked, and the statements that change it
session   connections, and what errors of a database become
sink      what a writer task stages
commit    claimed at a run's start, written before an epoch's close, taken over at a restore
"""
