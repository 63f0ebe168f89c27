"""Names of the keys in a pipeline's own Redis slot that the dataflow and the HTTP API share.

All carry the hash tag `{pipeline}`, so that closing an epoch is one function call in one slot.

    tailrace:{pipeline}:files:<table>      list    discovered files, in the order of their reading
    tailrace:{pipeline}:places:<table>     list    partitions of a topic pattern, by first sight
    tailrace:{pipeline}:ingress:<table>    stream  changes that came over HTTP, not yet committed
    tailrace:{pipeline}:stage:<epoch>:...  list    a sink's writes that wait for the epoch's close
    tailrace:{pipeline}:table:<sink>       hash    a Redis table: canonical primary key -> row
    tailrace:{pipeline}:print:<sink>       stream  the newest lines of a print sink
    tailrace:{pipeline}:kafka              hash    by a topic's group: the last epoch begun
    tailrace:{pipeline}:terms              hash    by run, the last: what its epochs come out by
    tailrace:{pipeline}:written            hash    by sink elsewhere: epoch and offsets last written
    tailrace:{pipeline}:dead[:ingress]     stream  dead letters of sources, and of ingress; bounded
    tailrace:{pipeline}:dead:count         string  how many of both there ever were
    tailrace:{pipeline}:progress           stream  one entry an epoch, bounded
    tailrace:{pipeline}:closes             stream  how long each epoch's close took, bounded
"""

from __future__ import annotations

from state.backends.names import slot_prefix


def slot_key(pipeline: str, name: str) -> str:
    """A key in the pipeline's slot, from its name as in the list above."""
    return slot_prefix(pipeline).decode() + name


def files_key(pipeline: str, table: str) -> str:
    """The discovered-file log of a table."""
    return slot_key(pipeline, f"files:{table}")


def places_key(pipeline: str, table: str) -> str:
    """The Kafka partitions of a table with a topic pattern, `<topic>/<partition>`."""
    return slot_key(pipeline, f"places:{table}")


def ingress_key(pipeline: str, table: str) -> str:
    """The stream that ingress over HTTP fills: entries `{"n": rows, "d": NDJSON lines}`."""
    return slot_key(pipeline, f"ingress:{table}")


SOURCE_NAMES = ("files", "places", "ingress")
"""What the names of a source's structures begin with, before a colon and the table."""


def table_name(sink: str) -> str:
    """The hash of a Redis table."""
    return f"table:{sink}"


def print_name(sink: str) -> str:
    """The stream of a print sink."""
    return f"print:{sink}"


def stage_name(epoch: int, node: int, partition: int, attempt: str) -> str:
    """Where one attempt of one writer task leaves a sink's writes: by node, not by table.

    Several sinks may write one table, and a task writes all of them.
    """
    return f"stage:{epoch}:{node}:{partition}:{attempt}"


DEAD_NAME = "dead"
"""The stream of dead letters that sources left."""
INGRESS_DEAD_NAME = "dead:ingress"
"""The stream of lines that were rejected at the door."""
DEAD_COUNT_NAME = "dead:count"
"""The counter of dead letters, whatever the way in, which loses none to trimming."""
PROGRESS_NAME = "progress"
"""The stream of progress records, one an epoch, with id `<epoch>-0`."""
CLOSES_NAME = "closes"
"""The stream of `ms`, what closing an epoch took, with id `<epoch>-0`. Written once the epoch is
closed, and lost where that fails: its progress record is part of what is measured."""
KAFKA_NAME = "kafka"
"""The hash of epochs for which a Kafka transaction may have been begun, by group."""
WRITTEN_NAME = "written"
"""The hash of the epoch that tables and topics elsewhere were written last, and its offsets."""
TERMS_NAME = "terms"
"""The hash of the terms of the last run that claimed tables or topics elsewhere (`terms`)."""
TOTALS_NAME = "totals"
"""The hash of sums over all closed epochs: `rows_in`, `rows_out`."""
