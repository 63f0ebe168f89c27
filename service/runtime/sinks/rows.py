"""Changes as a sink takes them: kinds held against its mode, the last change of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from service.runtime.dataflow_errors import SinkRefused

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


def take(columns: Sequence[pa.Array], positions: np.ndarray) -> list[pa.Array]:
    """The columns' values at these positions."""
    indices = pa.array(positions)
    return [each.take(indices) for each in columns]
