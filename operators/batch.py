"""A batch of changes on columns: what operators take and give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.codes import is_ascending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes of one epoch, a row each."""

    columns: tuple[pa.Array, ...]
    """Typed columns, whole arrays of one length."""
    kinds: NDArray[np.int8]
    """`RowKind` of each change."""
    order: NDArray[np.int64]
    """Place of each change in its epoch. Rows need not be sorted by it."""
    key_groups: NDArray[np.int32]
    """Key group of each change's key, by the operator that gets the batch."""

    def __post_init__(self) -> None:
        lengths = {len(self.kinds), len(self.order), len(self.key_groups)}
        lengths.update(len(column) for column in self.columns)
        if len(lengths) != 1:
            raise ValueError(f"columns of a batch differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.kinds)

    def in_order(self) -> ChangeBatch:
        """These changes with rows sorted by order number; itself if they are."""
        if is_ascending(self.order):
            return self
        by_order = np.argsort(self.order, kind="stable")
        rows = pa.array(by_order)
        return ChangeBatch(
            columns=tuple(column.take(rows) for column in self.columns),
            kinds=self.kinds[by_order],
            order=self.order[by_order],
            key_groups=self.key_groups[by_order],
        )

    def after(self, first: ChangeBatch) -> ChangeBatch:
        """These changes behind those of another batch, with the order numbers that both have."""
        return ChangeBatch(
            columns=tuple(map(_joined, first.columns, self.columns)),
            kinds=np.concatenate([first.kinds, self.kinds]),
            order=np.concatenate([first.order, self.order]),
            key_groups=np.concatenate([first.key_groups, self.key_groups]),
        )

    @classmethod
    def of(
        cls,
        columns: Sequence[pa.Array],
        kinds: Sequence[int] | NDArray[np.int8],
        order: Sequence[int] | NDArray[np.int64] | None = None,
        key_groups: Sequence[int] | NDArray[np.int32] | None = None,
    ) -> ChangeBatch:
        """A batch from plain sequences; in order of its rows and in key group 0 if not said."""
        count = len(kinds)
        return cls(
            columns=tuple(columns),
            kinds=np.asarray(kinds, np.int8),
            order=np.arange(count) if order is None else np.asarray(order, np.int64),
            key_groups=np.zeros(count, np.int32)
            if key_groups is None
            else np.asarray(key_groups, np.int32),
        )


@dataclass(frozen=True, slots=True)
class SetAside:
    """A change that an operator cannot do anything with."""

    order: int
    key: bytes
    """Canonical."""
    reason: str


@dataclass(frozen=True, slots=True)
class EpochOutput:
    """What an epoch of an operator emits."""

    batch: ChangeBatch
    """Emitted changes, by order; each has the order of the change that caused it."""
    statistics: dict[str, int]
    """rows_in, rows_out, orphans, keys (touched), expired (entries dropped), migrations (layouts
    changed), reads, writes, commands, round_trips, commit_ns, epoch_ns (all of it); where the
    controller ran: in_flight_peak, active_peak, blocking_peak, blocking_keys_peak, batches,
    requests, cache_hits (changes that never waited)."""
    set_aside: tuple[SetAside, ...] = ()
    """Changes that were dropped, and become dead letters."""


def _joined(first: pa.Array, second: pa.Array) -> pa.Array:
    return pa.concat_arrays([first, second])
