"""Stands in for Spark's Kafka source, whose jar is not here: its options, columns and offsets.

Records lie below the folder that `kafka.bootstrap.servers` names, one file a partition:
`<topic>/<partition>.jsonl`, one record a line, `[offset, value or null]`, and behind them the
key of a record that has one. Offsets may have gaps, as
those of compacted topics have. A record is of as many seconds after 2023-11-14 22:13:20 UTC as its
offset says, and has it as a header, twice, where that is even. Workers load this module by its
name: keep it light.

What it has of the real one: `subscribe`, `subscribePattern`, `startingOffsets` (earliest, latest,
JSON), `maxOffsetsPerTrigger`, `includeHeaders`, one task for each Kafka partition with news,
offsets as `{topic: {partition: next}}`, new partitions found in every epoch and read from their
start.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

Offsets = dict[str, dict[str, int]]


class KafkaStandIn(DataSource):
    """Spark takes no Python source of the name `kafka`, with or without the jar."""

    @classmethod
    def name(cls) -> str:
        return "kafka_stand_in"

    def schema(self) -> str:
        columns = (
            "key binary, value binary, topic string, partition int, offset bigint, "
            "timestamp timestamp, timestampType int"
        )
        headers = ", headers array<struct<key: string, value: binary>>"
        return columns + (headers if self.options.get("includeHeaders") == "true" else "")

    def streamReader(self, schema: StructType) -> KafkaStandInReader:
        return KafkaStandInReader(dict(self.options))


class Range(InputPartition):
    """The offsets of one Kafka partition that an epoch reads."""

    def __init__(self, topic: str, partition: str, start: int, end: int) -> None:
        super().__init__((topic, partition, start, end))


class KafkaStandInReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._folder = Path(self._options["kafka.bootstrap.servers"])
        self._has_headers = self._options.get("includeheaders") == "true"

    def initialOffset(self) -> Offsets:
        match self._options["startingoffsets"]:
            case "earliest":
                return {topic: dict.fromkeys(each, 0) for topic, each in self._ends().items()}
            case "latest":
                return self._ends()
            case text:
                offsets: Offsets = json.loads(text)
                return offsets

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(int(self._options["maxoffsetspertrigger"]))

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else 1 << 62
        ends: Offsets = {}
        for topic, partitions in self._ends().items():
            for partition, end in partitions.items():
                at = start.get(topic, {}).get(partition, 0)
                taken = min(end - at, room)
                room -= taken
                ends.setdefault(topic, {})[partition] = at + taken
        return ends

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return [
            Range(topic, partition, at, until)
            for topic, partitions in end.items()
            for partition, until in partitions.items()
            if (at := start.get(topic, {}).get(partition, 0)) < until
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        topic, number, start, end = partition.value
        for offset, *texts in self._records(self._folder / topic / f"{number}.jsonl"):
            if start <= offset < end:
                held, key = (each and each.encode() for each in (*texts, None)[:2])
                time = datetime.fromtimestamp(1_700_000_000 + offset, UTC)
                row = (key, held, topic, int(number), offset, time, 0)
                yield (*row, self._headers(offset)) if self._has_headers else row

    @staticmethod
    def _headers(offset: int) -> list[tuple[str, bytes]] | None:
        """As Spark's source gives them: of a record that has none, NULL."""
        return None if offset % 2 else [("at", b"-"), ("at", b"%d" % offset)]

    def _ends(self) -> Offsets:
        found: Offsets = {}
        for path in sorted(self._folder.glob("*/*.jsonl")):
            if self._is_subscribed(path.parent.name):
                last = max((each[0] for each in self._records(path)), default=-1)
                found.setdefault(path.parent.name, {})[path.stem] = last + 1
        return found

    def _is_subscribed(self, topic: str) -> bool:
        pattern = self._options.get("subscribepattern")
        if pattern is not None:
            return re.fullmatch(pattern, topic) is not None
        return topic in self._options["subscribe"].split(",")

    @staticmethod
    def _records(path: Path) -> list[list[Any]]:
        return [*map(json.loads, path.open("rb"))]


def write_records(broker: Path, topic: str, partition: int, records: Mapping[int, Any]) -> None:
    """Put all records of a partition in place at once: values, or pairs of key and value."""
    path = broker / topic / f"{partition}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_suffix(".new")
    lines = [
        json.dumps([offset, *(each and each.decode() for each in _parts(record))])
        for offset, record in sorted(records.items())
    ]
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(path)


def _parts(record: Any) -> list[bytes | None]:
    return [record[1], record[0]] if isinstance(record, tuple) else [record]
