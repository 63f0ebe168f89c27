"""Where a line of outside JSON has its rows, and what kinds of change they are.

    PLAIN       {column: value, ...}                            the row, +I
    CHANGES     {"op": "+I", "data": {...}}                     a row of that kind
    Debezium    {"op": "u", "before": {...}, "after": {...}}    what a database says of a change

Each shape is written down twice: for one parsed line, and for the columns that Arrow reads of a
block of lines. The second may give up; the first then says what is wrong with which line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.values import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KINDS = ("+I", "-U", "+U", "-D")
"""The `op` of a change, at the index that is its `RowKind`."""
_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = range(4)
_KIND_CODES = {name: code for code, name in enumerate(KINDS)}


class BadLine(Exception):
    """A line that is no change at all, whatever the columns are."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ShapedRows:
    """The rows of a block, in columns."""

    kinds: NDArray[np.int8]
    columns: Sequence[pa.Array]
    lines: NDArray[np.int64]
    """The line of each row; those of one line stand together."""


class LineShape(ABC):
    """A shape of lines."""

    rows_max: int = 1
    """Rows of a line at most."""

    @abstractmethod
    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """What Arrow is to read of a line, where the row's columns are these."""

    @abstractmethod
    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """The rows of a block, out of the columns read; None if a line may be no change."""

    @abstractmethod
    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """Kind and row of each change of a parsed line, one at least.

        Raises:
            BadLine: it is no change.
        """


class _Plain(LineShape):
    """The line is the row."""

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        return list(row)

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        count = len(columns[0])
        return ShapedRows(np.zeros(count, np.int8), columns, np.arange(count))

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        return [(_INSERT, document)]


class _Changes(LineShape):
    """Each line says its kind."""

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        return [pa.field("op", pa.string()), pa.field("data", pa.struct(list(row)))]

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        op, data = columns
        codes = pc.index_in(op, pa.array(KINDS))
        if codes.null_count or data.null_count:
            return None
        kinds = codes.to_numpy().astype(np.int8)
        return ShapedRows(kinds, data.flatten(), np.arange(kinds.size))

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        op = document.get("op")
        kind = _KIND_CODES.get(op) if isinstance(op, str) else None
        if kind is None:
            raise BadLine('"op" must be one of +I -U +U -D')
        return [(kind, _object_in(document, "data"))]


class DebeziumLines(LineShape):
    """Events of Debezium's connectors: `c` and `r` are a +I, `u` a -U and a +U, `d` a -D.

    What else an event has (its source, transaction and times) is passed over.

    Source: Debezium's "change event structure"; Flink `DebeziumJsonDeserializationSchema`.
    """

    rows_max = 2
    _OPS = ("c", "r", "u", "d")
    _WITHOUT_BEFORE = (
        "; PostgreSQL sends it whole with REPLICA IDENTITY FULL, "
        'and changelog-mode "I,UA,D" asks for the key of deletes alone'
    )

    def __init__(self, *, with_before: bool = True, in_payload: bool = False) -> None:
        """Say how the lines are to be read.

        Args:
            with_before: Whether an update gives its -U; else nobody asks what the row was.
            in_payload: Whether the event is the member `payload` of the line, beside its schema.
        """
        self._with_before = with_before
        self._in_payload = in_payload

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """See `LineShape`."""
        image = pa.struct(list(row))
        event = [pa.field("op", pa.string()), pa.field("before", image), pa.field("after", image)]
        return [pa.field("payload", pa.struct(event))] if self._in_payload else event

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """See `LineShape`."""
        op, before, after = columns[0].flatten() if self._in_payload else columns
        codes = pc.index_in(op, pa.array(self._OPS))
        if codes.null_count:
            return None
        code = codes.to_numpy()
        is_update, is_delete = code == 2, code == 3
        given = np.column_stack((is_delete | (is_update & self._with_before), ~is_delete))
        kinds = np.column_stack(
            (
                np.where(is_delete, _DELETE, _UPDATE_BEFORE),
                np.where(is_update, _UPDATE_AFTER, _INSERT),
            )
        )
        images = np.arange(given.size).reshape(2, -1).T[given]
        rows = pa.concat_arrays([before, after]).take(pa.array(images))
        if rows.null_count:
            return None
        return ShapedRows(kinds[given].astype(np.int8), rows.flatten(), np.nonzero(given)[0])

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """See `LineShape`."""
        event = _object_in(document, "payload") if self._in_payload else document
        match event.get("op"):
            case "c" | "r":
                return [(_INSERT, _object_in(event, "after"))]
            case "u" if self._with_before:
                before = _object_in(event, "before", self._WITHOUT_BEFORE)
                return [(_UPDATE_BEFORE, before), (_UPDATE_AFTER, _object_in(event, "after"))]
            case "u":
                return [(_UPDATE_AFTER, _object_in(event, "after"))]
            case "d":
                return [(_DELETE, _object_in(event, "before", self._WITHOUT_BEFORE))]
            case _:
                raise BadLine('"op" must be one of c r u d')


PLAIN: LineShape = _Plain()
CHANGES: LineShape = _Changes()


def _object_in(document: dict[str, Any], name: str, advice: str = "") -> dict[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise BadLine(f'"{name}" must be an object, found {kind_of(found)}{advice}')
    return found
