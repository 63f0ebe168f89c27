"""What a writer task leaves of a topic's records: staged in Redis, as keys and values.

A task takes no part in the transaction by which an epoch's records appear: those of an attempt that
is tried again would stay. So it encodes and stages them, and the commit sends those that Spark
counted. Of `upsert-kafka` only the last change of each key is staged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.runtime.sinks.items import stage_rows
from service.runtime.sinks.kafka.options import EPOCH_HEADER
from service.runtime.sinks.kafka.shape import RecordShape
from service.runtime.sinks.kafka.told import told_columns
from service.runtime.sinks.rows import net_of_keys, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa

    from service.runtime.sinks.spec import SinkSpec, WriterSpec


class KafkaSink:
    """A topic, as writer tasks know it."""

    def __init__(self, writer: WriterSpec, spec: SinkSpec) -> None:
        self._writer = writer
        self._spec = spec
        self._shape = RecordShape.of(spec)

    def stage(
        self,
        epoch: int,
        partition: int,
        attempt: str,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
    ) -> dict[str, Any]:
        """Leave the records; where, and how many items of each kind, is for the commit."""
        gone: list[pa.Array] = []
        if self._shape.is_upsert:
            removed, there = net_of_keys(self._spec, columns, kinds)
            taken = take(columns, removed)
            gone = [self._shape.keys(taken), *told_columns(self._spec, taken)]
            columns, kinds = take(columns, there), kinds[there]
        rows = [
            self._shape.keys(columns),
            self._shape.values(columns, kinds),
            *told_columns(self._spec, columns),
        ]
        place = (epoch, partition, attempt)
        return {
            **stage_rows(self._writer, self._spec, place, gone, rows),
            "partition": partition,
            "told": self._spec.metadata,
            "epoch_header": self._spec.options.get(EPOCH_HEADER),
        }
