"""The order of rows by some of their columns, as specs name it and as sorted state keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from state.lexicographic import LexicographicCodec, Order, lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.spec import RowSpec

_NUMBER: Final = parse_type("BIGINT NOT NULL")


class SortColumn(BaseModel):
    """One column of ORDER BY. Where it says nothing of nulls, null is the lowest value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: NonNegativeInt
    descending: bool = False
    nulls_last: bool = False
    """Where nulls go, whichever way the values go."""


class SortKeys:
    """The sort key of a row, and the codec that keeps such keys in order.

    Without columns all rows have the same key, so sorted state keeps them as they arrive.

    Args:
        row: The rows' columns.
        columns: Those of the order, the most significant one first.
        newest_first: Without columns: keys are numbers of arrivals, the highest one first.

    Raises:
        UnsupportedType: Values of a column have no order.
    """

    __slots__ = ("_columns", "codec")

    def __init__(
        self, row: RowSpec, columns: Sequence[SortColumn], *, newest_first: bool = False
    ) -> None:
        self._columns = tuple(each.column for each in columns)
        types = [row.types[at] for at in self._columns] or [_NUMBER]
        orders = [
            Order(descending=each.descending, nulls_last=each.nulls_last) for each in columns
        ] or [Order(descending=newest_first)]
        self.codec: LexicographicCodec = lexicographic_codec(types, orders)

    def of(self, row: Row) -> tuple[Any, ...]:
        """The sort key of a row."""
        return tuple([row[at] for at in self._columns]) or (0,)

    def text(self, row: Row) -> bytes:
        """The sort key as bytes that order as the keys do."""
        return self.codec.encode(self.of(row))
