"""Changes as a sink takes them: kinds held against its mode, the last change of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from service.runtime.dataflow_errors import SinkRefused
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.sinks.spec import SinkSpec


def check_kinds(spec: SinkSpec, kinds: np.ndarray) -> None:
    """See that a sink of inserts gets nothing else.

    Raises:
        SinkRefused: it does.
    """
    if spec.mode == "append":
        others = np.flatnonzero(kinds != RowKind.INSERT)
        if others.size:
            short = RowKind(int(kinds[others[0]])).short
            raise SinkRefused(f"sink {spec.table} takes inserts only and got {short}")


def last_of_each(keys: pa.Array) -> np.ndarray:
    """The position of the last occurrence of each key, in the order of these positions."""
    codes = np.asarray(keys.dictionary_encode().indices)
    last = np.empty(int(codes.max()) + 1 if codes.size else 0, np.int64)
    # The later of two assignments to one place stays: numpy promises it for repeated indices.
    last[codes] = np.arange(codes.size)
    return np.sort(last)


def net_of_keys(
    spec: SinkSpec, columns: Sequence[pa.Array], kinds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where each key's last change stands: of rows that are gone, and of rows that are.

    A -U whose +U follows says nothing; one that stands alone is a row that is gone: a filter took
    its +U away. Flink's own upsert sinks (Kafka, JDBC) take it so, too.
    """
    key = spec.primary_key
    codec = RowCodec([parse_type(spec.types[at]) for at in key], [spec.names[at] for at in key])
    last = last_of_each(codec.encode_columns([columns[at] for at in key]))
    # Kinds 1 and 3 retract.
    is_gone = (kinds[last] & 1) == 1
    return last[is_gone], last[~is_gone]


def take(columns: Sequence[pa.Array], positions: np.ndarray) -> list[pa.Array]:
    """The columns' values at these positions."""
    indices = pa.array(positions)
    return [each.take(indices) for each in columns]
