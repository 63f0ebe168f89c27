"""Sinks: the one writer of a pipeline's query, and where it leaves the rows of each table.

data_source    the classes that Spark knows: they call what follows
spec, message  what the writer is told, and what its tasks tell the commit
writer         a task: rows sorted, checked against the sink's mode, staged
commit         the close of an epoch, beside the driver
tables         sinks by connector; filesystem has files, rows what they share
disk           what a disk refuses, told by the sink
items          what tasks stage for sinks that lie elsewhere
owner, written who writes what lies elsewhere; the input that an epoch of it was written of
database       tables of databases: connector jdbc
kafka          topics: connectors kafka and upsert-kafka
"""
