"""What a join keeps of one side, by what is known of its rows.

    known                                    kept for a join key            with associations
    the join key contains a unique key       one row                        [associations,row]
    a unique key                             unique key -> row              -> [associations,row]
    nothing                                  row -> how often it is there   -> [times,associations]

The *associations* of a row are how many rows of the other side it was joined with. They are kept
where the side is outer (semi and anti joins: the left one), so that it is known when the first
match comes and the last one goes without looking at anything else.

Rows go in and come out as canonical bytes. A row is added and taken back with O(1) accesses; all
rows of a key are read at once, since the other side's change is to be joined with them.

Source: Flink's `JoinRecordStateViews` and `OuterJoinRecordStateViews`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from operators.stored_rows import CanonicalText, CountedText
from state.descriptors import JsonCodec, MapDescriptor, ValueDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.spec import InputSpec, RowSpec
    from state.codec import RowCodec
    from state.descriptors import Codec, StateDescriptor
    from state.primitives.maps import MapHandle
    from state.primitives.session import StateSession
    from state.primitives.value import ValueHandle
    from state.ttl import TtlConfig

NO_ASSOCIATIONS = -1
"""Of a row of a side that does not count them."""


class Stored(NamedTuple):
    """A row that a side holds."""

    row: bytes
    """Canonical."""
    times: int = 1
    """How often; more than once only where no unique key is known."""
    associations: int = NO_ASSOCIATIONS
    """Rows of the other side that it was joined with; the same for each of its times."""
    user_key: bytes = b""
    """Where it is kept, for `associate`."""


_stored: Callable[[tuple[bytes, int, int, bytes]], Stored] = partial(tuple.__new__, Stored)
"""A `Stored` of all its fields, at a third of the cost of naming them: one for each match."""


class SideState(ABC):
    """The rows of one side. Operations are about the session's current key and namespace."""

    descriptor: StateDescriptor

    @abstractmethod
    def open(self, session: StateSession) -> None:
        """Take the handle for an epoch."""

    @abstractmethod
    async def add(self, row: bytes, values: Row, associations: int = NO_ASSOCIATIONS) -> None:
        """Have a row; one of the same unique key is replaced."""

    async def add_all(self, rows: Sequence[tuple[bytes, Row]]) -> None:
        """As `add` of each, in order, of a side that counts no associations."""
        for row, values in rows:
            await self.add(row, values)

    @abstractmethod
    async def retract(self, row: bytes, values: Row) -> bytes | None:
        """Have it no more. With a unique key, that decides; the row that went, None: none did."""

    async def replaced_by(self, values: Row) -> bytes | None:
        """The row that this one takes the place of: of its unique key; None: there is none."""
        return None

    @abstractmethod
    async def stored(self) -> Sequence[Stored]:
        """All rows, in an order that is the same wherever state is."""

    @abstractmethod
    async def associate(self, stored: Stored, associations: int) -> None:
        """Set the associations of a row that `stored` gave."""


def side_state(
    name: str,
    row: InputSpec,
    unique_key: tuple[int, ...] | None,
    known_columns: Sequence[int],
    ttl: TtlConfig,
    past: dict[str, Any],
    *,
    counts: bool,
) -> SideState:
    """The state of one side.

    Args:
        name: Of the state.
        row: The side's rows.
        unique_key: Columns of a unique key of these rows; empty: there is one row at most, as of
            a total; None: nothing is known.
        known_columns: Columns whose values are the same for all rows that are kept together.
        ttl: Of the rows.
        past: From `OperatorSpec.past_of`.
        counts: Whether associations are kept.
    """
    given: dict[str, Any] = {"name": name, "ttl": ttl, **past}
    if unique_key is not None and set(unique_key) <= set(known_columns):
        return OneRow(row, counts, given)
    if unique_key is not None:
        return RowPerUniqueKey(row, unique_key, counts, given)
    return CountPerRow(row, counts, given)


class OneRow(SideState):
    """At most one row: the columns that rows are kept by contain a unique key.

    Characteristics:
        stored                   one field, prefetched
        add, retract, associate  nothing read beyond it
    """

    def __init__(self, row: RowSpec, counts: bool, given: dict[str, Any]) -> None:
        codec: Codec[Any] = CountedText(row, "associations") if counts else CanonicalText(row)
        self.descriptor: ValueDescriptor[Any] = ValueDescriptor(codec=codec, **given)
        self._counts = counts

    def open(self, session: StateSession) -> None:
        """Take the handle for an epoch."""
        self._row: ValueHandle[Any] = session.value(self.descriptor)

    async def add(self, row: bytes, values: Row, associations: int = NO_ASSOCIATIONS) -> None:
        """Have a row in place of the one that is there."""
        await self._row.update((associations, row) if self._counts else row)

    async def retract(self, row: bytes, values: Row) -> bytes | None:
        """Have none."""
        found = await self._row.value()
        if found is None:
            return None
        await self._row.clear()
        return self._row_of(found)

    async def replaced_by(self, values: Row) -> bytes | None:
        """The row that is there."""
        found = await self._row.value()
        return None if found is None else self._row_of(found)

    async def stored(self) -> Sequence[Stored]:
        """The row, if there is one."""
        found = await self._row.value()
        if found is None:
            return ()
        if self._counts:
            associations, row = found
            return (_stored((row, 1, associations, b"")),)
        return (_stored((found, 1, NO_ASSOCIATIONS, b"")),)

    async def associate(self, stored: Stored, associations: int) -> None:
        """Set the associations of the row."""
        await self._row.update((associations, stored.row))

    @staticmethod
    def _row_of(found: bytes | tuple[int, bytes]) -> bytes:
        """The row alone, where its associations are kept with it, too."""
        return found if isinstance(found, bytes) else found[1]


class RowPerUniqueKey(SideState):
    """Rows by a unique key.

    Characteristics:
        stored                   one field while they are few; one more round trip when spread
        add, retract, associate  one entry
    """

    def __init__(
        self, row: RowSpec, unique_key: tuple[int, ...], counts: bool, given: dict[str, Any]
    ) -> None:
        codec: Codec[Any] = CountedText(row, "associations") if counts else CanonicalText(row)
        key = row.part(unique_key)
        self.descriptor: MapDescriptor[bytes, Any] = MapDescriptor(
            key_codec=CanonicalText(key), codec=codec, **given
        )
        self._unique_key = unique_key
        self._key_codec: RowCodec = key.codec()
        self._counts = counts

    def open(self, session: StateSession) -> None:
        """Take the handle for an epoch."""
        self._rows: MapHandle[bytes, Any] = session.map(self.descriptor)

    async def add(self, row: bytes, values: Row, associations: int = NO_ASSOCIATIONS) -> None:
        """Have a row in place of the one with its unique key."""
        await self._rows.put(self._key(values), (associations, row) if self._counts else row)

    async def retract(self, row: bytes, values: Row) -> bytes | None:
        """Have none of its unique key."""
        found = await self.replaced_by(values)
        if found is not None:
            await self._rows.remove(self._key(values))
        return found

    async def replaced_by(self, values: Row) -> bytes | None:
        """The row of this unique key."""
        found = await self._rows.get(self._key(values))
        if found is None:
            return None
        row: bytes = found[1] if self._counts else found
        return row

    async def stored(self) -> Sequence[Stored]:
        """All rows, by unique key."""
        found = await self._rows.entries()
        if self._counts:
            return [_stored((each[1], 1, each[0], key)) for key, each in found if each]
        return [_stored((row, 1, NO_ASSOCIATIONS, key)) for key, row in found if row]

    async def associate(self, stored: Stored, associations: int) -> None:
        """Set the associations of a row."""
        await self._rows.put(stored.user_key, (associations, stored.row))

    def _key(self, values: Row) -> bytes:
        return self._key_codec.encode([values[at] for at in self._unique_key])


class _Times(JsonCodec):
    """How often a row is there: `2`, or `[2,1]` with its associations."""

    __slots__ = ()

    def shown(self, data: bytes) -> dict[str, Any]:
        """The numbers by their names."""
        found = self.decode(data)
        if isinstance(found, list):
            times, associations = found
            return {"times": times, "associations": associations}
        return {"times": found}


class CountPerRow(SideState):
    """Rows of which nothing is known, each with how often it is there.

    Characteristics:
        stored                   one field while they are few; one more round trip when spread
        add, retract, associate  one entry
    """

    def __init__(self, row: RowSpec, counts: bool, given: dict[str, Any]) -> None:
        self.descriptor: MapDescriptor[bytes, Any] = MapDescriptor(
            key_codec=CanonicalText(row), codec=_Times(), **given
        )
        self._counts = counts

    def open(self, session: StateSession) -> None:
        """Take the handle for an epoch."""
        self._times: MapHandle[bytes, Any] = session.map(self.descriptor)

    async def add(self, row: bytes, values: Row, associations: int = NO_ASSOCIATIONS) -> None:
        """Have a row once more; the new associations count for each of its times."""
        times = self._times_of(await self._times.get(row)) + 1
        await self._times.put(row, [times, associations] if self._counts else times)

    async def add_all(self, rows: Sequence[tuple[bytes, Row]]) -> None:
        """As `add` of each; rows that come several times are read and written once."""
        if len(rows) == 1:
            await self.add(*rows[0])
            return
        more = Counter([row for row, _ in rows])
        held = await self._times.get_all([*more])
        pairs = zip(more.items(), held, strict=True)
        await self._times.put_all(
            {row: times + self._times_of(found) for (row, times), found in pairs}
        )

    async def retract(self, row: bytes, values: Row) -> bytes | None:
        """Have it once less."""
        found = await self._times.get(row)
        if found is None:
            return None
        times = self._times_of(found)
        if times > 1:
            await self._times.put(row, [times - 1, found[1]] if self._counts else times - 1)
        else:
            await self._times.remove(row)
        return row

    async def stored(self) -> Sequence[Stored]:
        """All rows, by their bytes."""
        found = await self._times.entries()
        if self._counts:
            return [_stored((row, each[0], each[1], row)) for row, each in found if each]
        return [_stored((row, times, NO_ASSOCIATIONS, row)) for row, times in found if times]

    async def associate(self, stored: Stored, associations: int) -> None:
        """Set the associations of a row, for each of its times."""
        await self._times.put(stored.user_key, [stored.times, associations])

    def _times_of(self, found: Sequence[int] | int | None) -> int:
        if found is None:
            return 0
        return found if isinstance(found, int) else found[0]
