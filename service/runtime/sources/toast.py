"""Values that an event of Debezium's does not carry, before anything is kept of its row.

Where the event tells the row before, the value is there. Else it is left to the ChangelogNormalize
behind the source, which has the last row of each key; and without one the line is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from operators.unavailable import Unavailable, unavailable_reason
from service.runtime.sources.key_moves import ChangeRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.types import LogicalType

Rejected = list[tuple[int, str]]
"""Numbers of lines, and why they give no row."""


class Toast:
    """Fills in what events leave out.

    Args:
        placeholder: What stands for such a value.
        types: Of the columns.
        names: Of the columns.
        is_left: Whether a ChangelogNormalize behind the source knows the values.
    """

    def __init__(
        self,
        placeholder: str,
        types: Sequence[LogicalType],
        names: Sequence[str],
        *,
        is_left: bool,
    ) -> None:
        self._unavailable = Unavailable(placeholder, types)
        self._names = names
        self._is_left = is_left

    def settled(self, block: bytes, rows: ChangeRows) -> tuple[ChangeRows, Rejected]:
        """The rows of a block of lines, with values as they were; and lines that are refused."""
        missing = (
            self._unavailable.in_columns(rows.columns) if self._unavailable.is_in(block) else {}
        )
        if not missing:
            return rows, []
        kinds, lines = rows.kinds, rows.lines
        follows = np.zeros(kinds.size, np.bool_)
        follows[1:] = (
            (kinds[1:] == RowKind.UPDATE_AFTER)
            & (kinds[:-1] == RowKind.UPDATE_BEFORE)
            & (lines[1:] == lines[:-1])
        )
        columns = list(rows.columns)
        left: dict[int, NDArray[Any]] = {}
        for at, mask in missing.items():
            is_missing = mask.to_numpy(zero_copy_only=False)
            was_missing = np.concatenate(([True], is_missing[:-1]))
            taken = is_missing & follows & ~was_missing
            columns[at] = columns[at].take(pa.array(np.arange(kinds.size) - taken))
            left[at] = is_missing & ~taken
        found = ChangeRows(kinds, lines, columns)
        return (found, []) if self._is_left else self._refused(found, left)

    def _refused(
        self, rows: ChangeRows, left: dict[int, NDArray[Any]]
    ) -> tuple[ChangeRows, Rejected]:
        reasons: dict[int, list[str]] = {}
        for at, is_missing in left.items():
            for line in np.unique(rows.lines[is_missing]).tolist():
                reasons.setdefault(line, []).append(self._names[at])
        keep = ~np.isin(rows.lines, [*reasons])
        kept = [each.filter(pa.array(keep)) for each in rows.columns]
        rejected = [(line, unavailable_reason(names)) for line, names in reasons.items()]
        return ChangeRows(rows.kinds[keep], rows.lines[keep], kept), rejected
