"""Places of rows in an order of columns, as user keys of sorted state.

A place is the values of the order's columns; where each row has a place of its own, a number behind
them tells rows with the same sort key apart, in the order of their arrival:

    rows (a, 2), (b, 1), (c, 2) by the number      places (1, 0) of b, (2, 0) of a, (2, 1) of c
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from operators.ordering import SortKeys
from state.lexicographic import Order, lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.ordering import SortColumn
    from operators.spec import RowSpec
    from state.primitives.sorted import SortedMapHandle

    Rows: TypeAlias = "SortedMapHandle[PlaceKey, Row]"

PlaceKey: TypeAlias = "tuple[Any, ...]"
_NUMBER: Final = parse_type("BIGINT NOT NULL")
_LAST: Final = (1 << 63) - 1


class SortPlaces:
    """Where rows stand.

    Args:
        row: The rows' columns.
        order: Of them, the most significant one first; at least one.
        is_numbered: Whether each row has a place of its own.

    Raises:
        UnsupportedType: Values of a column have no order.
    """

    __slots__ = ("_is_numbered", "_sort", "codec")

    def __init__(self, row: RowSpec, order: Sequence[SortColumn], *, is_numbered: bool) -> None:
        self._sort = SortKeys(row, order)
        self._is_numbered = is_numbered
        self.codec = self._sort.codec
        if is_numbered:
            types = [*(row.types[each.column] for each in order), _NUMBER]
            orders = [
                Order(descending=each.descending, nulls_last=each.nulls_last) for each in order
            ]
            self.codec = lexicographic_codec(types, [*orders, Order()])

    def sort_text(self, key: PlaceKey) -> str:
        """The sort key of a place: equal for equal ones only."""
        return self._sort.codec.encode(key[:-1] if self._is_numbered else key).hex()

    async def new(self, rows: Rows, row: Row) -> PlaceKey:
        """The place of a row that comes: behind all with its sort key."""
        sort = self._sort.of(row)
        if not self._is_numbered:
            return sort
        entry = await rows.last_entry_until((*sort, _LAST))
        is_first = entry is None or self._sort.codec.encode(entry[0][:-1]) != self._sort.text(row)
        return (*sort, 0) if entry is None or is_first else (*sort, entry[0][-1] + 1)

    async def find(
        self, rows: Rows, row: Row, encode: Callable[[Row], bytes]
    ) -> tuple[PlaceKey, list[Row], int] | None:
        """The first row that is this: its place, the rows there and which one; None: none is."""
        sort, text = self._sort.of(row), encode(row)
        if self._is_numbered:
            places = await rows.read_range((*sort, 0), (*sort, _LAST))
        else:
            places = [(sort, await rows.values_at(sort) or [])]
        for key, here in places:
            for number, each in enumerate(here):
                if encode(each) == text:
                    return key, here, number
        return None
