"""Sinks by connector: where a writer task leaves an epoch's rows until the epoch is closed.

    filesystem   hidden files, renamed by the commit
    redis        a hash: canonical primary key -> the row as a JSON object
    jdbc         a table of a database, written in one transaction an epoch (`sinks.database`)
    kafka        a topic, written in one transaction an epoch; so is upsert-kafka (`sinks.kafka`)
    print        a bounded stream of the newest changes, one JSON line each
    blackhole    counted only

What goes to Redis is staged: each attempt of a task leaves its writes under a name of its own, and
its message tells the name. Closing the epoch carries out those that Spark counted, no others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from service.runtime.files import path_below
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.ledgers import ledger_of
from service.runtime.sinks.database.sink import DatabaseSink
from service.runtime.sinks.filesystem import FileSink, Share
from service.runtime.sinks.kafka.sink import KafkaSink
from service.runtime.sinks.rows import last_of_each, take
from service.runtime.slot_keys import print_name, stage_name, table_name
from state.backends.interface import HashDelete, HashPut, StreamAppend
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import pyarrow as pa

    from service.runtime.sinks.spec import SinkSpec, WriterSpec
    from state.backends.interface import Write

STAGED_CONNECTORS = frozenset({"redis", "print"})
CONNECTORS = STAGED_CONNECTORS | KAFKA | {"filesystem", "jdbc", "blackhole"}


class Blackhole:
    """Takes everything, keeps nothing."""

    def stage(
        self,
        epoch: int,
        partition: int,
        attempt: str,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
    ) -> dict[str, Any]:
        """Nothing to keep."""
        return {}


class StagedSink(ABC):
    """A sink whose rows become writes in the pipeline's slot."""

    def __init__(self, writer: WriterSpec, spec: SinkSpec) -> None:
        self._writer = writer
        self._spec = spec
        self._codec = RowCodec([parse_type(each) for each in spec.types], spec.names)

    def stage(
        self,
        epoch: int,
        partition: int,
        attempt: str,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
    ) -> dict[str, Any]:
        """Leave the writes; the name and number of their chunks is for the commit."""
        name = stage_name(epoch, self._spec.node, partition, attempt)
        return {
            "name": name,
            "chunks": ledger_of(self._writer).stage(name, self.writes(columns, kinds)),
        }

    @abstractmethod
    def writes(self, columns: Sequence[pa.Array], kinds: np.ndarray) -> list[Write]:
        """The writes that apply the changes."""


class RedisTable(StagedSink):
    """The table as of the last closed epoch; only the last change of each key is written."""

    def writes(self, columns: Sequence[pa.Array], kinds: np.ndarray) -> list[Write]:
        """Rows that are, put; rows that are gone, deleted.

        A -U whose +U follows says nothing; one that stands alone is a row that is gone: a filter
        took its +U away. Flink's own upsert sinks (Kafka, JDBC) take it so, too.
        """
        spec = self._spec
        key_codec = RowCodec(
            [parse_type(spec.types[each]) for each in spec.primary_key],
            [spec.names[each] for each in spec.primary_key],
        )
        keys = key_codec.encode_columns([columns[each] for each in spec.primary_key])
        last = last_of_each(keys)
        # Kinds 1 and 3 retract.
        gone = (kinds[last] & 1) == 1
        present = last[~gone]
        pairs: list[bytes] = [b""] * (2 * len(present))
        pairs[0::2] = take([keys], present)[0].to_pylist()
        pairs[1::2] = self._codec.encode_json_lines(None, take(columns, present))
        name = table_name(spec.table).encode()
        return [HashPut(name, pairs), HashDelete(name, take([keys], last[gone])[0].to_pylist())]


class PrintSink(StagedSink):
    """The newest changes as JSON lines."""

    def writes(self, columns: Sequence[pa.Array], kinds: np.ndarray) -> list[Write]:
        """One entry a change; those that trimming would remove at once are left out."""
        most = self._writer.print_rows_max
        lines = self._codec.encode_json_lines(kinds[-most:], [each[-most:] for each in columns])
        entries = [[b"change", line] for line in lines]
        return [StreamAppend(print_name(self._spec.table).encode(), entries, most)]


def sinks_by_folder(writer: WriterSpec) -> list[list[int]]:
    """The numbers of the `filesystem` sinks that write one folder, for each folder."""
    found: dict[Path, list[int]] = {}
    for number, sink in enumerate(writer.sinks):
        if sink.connector == "filesystem":
            folder = path_below(writer.files_root, sink.options["path"])
            found.setdefault(folder, []).append(number)
    return list(found.values())


def open_sink(
    writer: WriterSpec, number: int
) -> FileSink | StagedSink | DatabaseSink | KafkaSink | Blackhole:
    """The sink of this number."""
    spec = writer.sinks[number]
    match spec.connector:
        case "filesystem":
            beside = next(each for each in sinks_by_folder(writer) if number in each)
            share = Share(beside.index(number), len(beside))
            return FileSink(spec, writer.files_root, writer.run, writer.pipeline_id, share)
        case "jdbc":
            return DatabaseSink(writer, spec)
        case "kafka" | "upsert-kafka":
            return KafkaSink(writer, spec)
        case "redis":
            return RedisTable(writer, spec)
        case "print":
            return PrintSink(writer, spec)
        case _:
            return Blackhole()
