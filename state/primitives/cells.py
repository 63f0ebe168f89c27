"""Cells, the handles that keep them, and the writes that they end in.

A *cell* is what an epoch knows of one key in one state: what was stored when the epoch began, as
far as it was loaded, and what is to be stored. It is authoritative for the epoch: once loaded, no
reply overwrites it. Handles are typed access to the cells of one state; a `WriteBatch` makes few
variadic writes of the many small ones that cells give.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from state.backends.interface import (
    Drop,
    HashDelete,
    HashGet,
    HashPut,
    LexRemove,
    SortedPut,
    SortedRemove,
)
from state.execution.requests import wait_for
from state.ttl import (
    TimeCharacteristic,
    TtlRules,
    UpdateType,
    oldest_and_jsons,
    stamped,
    unstamped,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from state.backends.interface import Read, Write
    from state.descriptors import StateDescriptor
    from state.execution.requests import Request
    from state.primitives.session import StateSession
    from state.ttl import TtlClock


class Unknown(Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
"""What a cell that was overwritten without a look knows of what is stored."""
MaybeKnown: TypeAlias = int | Literal[Unknown.UNKNOWN] | None

Element: TypeAlias = tuple[int | None, bytes]
"""Stamp and JSON of one stored element."""


class Cell(ABC):
    """One key in one state, for the length of an epoch. It is the request for its own first load.

    The cell of a kind of state says here what it reads, where replies go, what it writes, and
    which of its stamps the expiry index is to hold.
    """

    __slots__ = ("indexed_ms", "is_loaded", "key", "key_group")
    is_one_field: ClassVar[bool] = True
    """Whether its first load is one field of the hash of the state's name."""

    def __init__(self, key: bytes, key_group: int) -> None:
        self.key = key
        """The stored key: the key's text, and the namespace's if it has one."""
        self.key_group = key_group
        self.is_loaded = False
        """Whether the first load was done or is not needed any more."""
        self.indexed_ms: MaybeKnown = None
        """The key's stored score in the expiry index; None if it is not in it."""

    @property
    @abstractmethod
    def reads(self) -> Sequence[Read]:
        """What its first load reads.

        A kind whose main structure is the hash of the state's name begins with exactly one
        `HashGet` of its key there, and reads no more: so clean-up can load it from a page.
        """

    @abstractmethod
    def take(self, replies: Sequence[Any]) -> None:
        """Load from the replies to `reads`; nothing, if the cell is loaded already.

        Raises:
            StateCorrupt, FormatVersionMismatch: What is stored cannot be read.
        """

    def load(self, text: bytes | None) -> None:
        """Load from the one field of the first load, where it is one: `take` of a single reply."""
        self.take(((text,),))

    @abstractmethod
    def write(self, batch: WriteBatch) -> None:
        """Give what must be stored: only what differs from what is. It changes nothing here."""

    @abstractmethod
    def oldest_ms(self) -> int | None:
        """The score that the expiry index is to have for the key: at most its oldest stamp.

        None where no element has a stamp.
        """

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The scores that the expiry index is to have for the key, and has."""
        return self.oldest_ms(), self.indexed_ms

    @abstractmethod
    async def clean(self, elements_max: int) -> int:
        """Remove expired elements of a cell, loading what that needs; how many were removed.

        Args:
            elements_max: At most so many; what remains is found again by the index.
        """


C = TypeVar("C", bound=Cell)


class FirstLoads:
    """The request for the first loads of many cells of one state that lie in its main hash."""

    __slots__ = ("_cells", "reads")

    def __init__(self, state: bytes, key_group: int, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self.reads = (HashGet(key_group, state, [each.key for each in cells]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Load each cell."""
        for cell, text in zip(self._cells, replies[0], strict=True):
            cell.load(text)


class Together:
    """Several requests as one."""

    __slots__ = ("_requests", "reads")

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = [(each, list(each.reads)) for each in requests]
        self.reads = [read for _, reads in self._requests for read in reads]

    def take(self, replies: Sequence[Any]) -> None:
        """Give each request its replies."""
        rest = iter(replies)
        for request, reads in self._requests:
            request.take([next(rest) for _ in reads])


def stored_key(key: bytes, namespace: bytes = b"") -> bytes:
    r"""The text that a key's state is stored under.

    >>> stored_key(b'["a"]'), stored_key(b'["a"]', b"[7]")
    (b'["a"]', b'["a"]\t[7]')
    """
    return key + b"\t" + namespace if namespace else key


class StateHandle(ABC, Generic[C]):
    """Access to one state for the current key; made by a `StateSession`."""

    def __init__(self, session: StateSession, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        self.state = descriptor.name.encode()
        """The name of the state's main structure."""
        self.expiry = self.state + b":expiry"
        """The name of its expiry index."""
        self.rules = TtlRules(descriptor.ttl, descriptor.enabled_ms)
        self.may_have_stamps = descriptor.may_have_stamps
        """Whether stored elements can carry stamps."""
        self._is_timed_by_records = descriptor.ttl.time is not TimeCharacteristic.PROCESSING
        self._keeps_creation = descriptor.ttl.update is UpdateType.ON_CREATE
        self.thresholds = descriptor.thresholds or session.thresholds
        self.cells: dict[bytes, C] = {}
        """By stored key."""
        self.session = session
        self.accesses = 0
        """Operations of the epoch; incremental clean-up is paid for by them."""
        self.set_clock(session.clock)

    def set_clock(self, clock: TtlClock) -> None:
        """Work out once what accesses at these times compare with and write."""
        self._stamp_ms = clock.stamp(self.rules.config)
        self._stamp_text = stamped(b"", self._stamp_ms)
        self.expired_until_ms = self.rules.expired_until_ms(clock)
        """The newest stamp that is expired now; minus infinity without TTL."""
        self._is_unstamped_expired = self.rules.is_expired(None, clock)

    def first_loads(self, cells: Iterable[Cell]) -> list[Request]:
        """Requests for the first loads of cells: one a key group where that can be."""
        groups: dict[int, list[Cell]] = {}
        for each in cells:
            groups.setdefault(each.key_group, []).append(each)
        requests: list[Request] = []
        for key_group, group in groups.items():
            if group[0].is_one_field:
                requests.append(FirstLoads(self.state, key_group, group))
            else:
                requests += group
        return requests

    def missing(self, keys: Iterable[tuple[bytes, int]]) -> list[C]:
        """The cells of these stored keys and key groups that are not loaded, made where needed."""
        cells, missing = self.cells, []
        for key, key_group in keys:
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = self.new_cell(key, key_group)
            elif cell.is_loaded:
                continue
            missing.append(cell)
        return missing

    def write_all(self, cells: Iterable[C], batch: WriteBatch) -> None:
        """Give what must be stored of all cells of the state, as `Cell.write`."""
        for cell in cells:
            cell.write(batch)

    @abstractmethod
    def new_cell(self, key: bytes, key_group: int) -> C:
        """A cell of this kind that knows nothing yet."""

    def cell_of(self, key: bytes, key_group: int) -> C:
        """The cell of a stored key, made at its first touch."""
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = self.new_cell(key, key_group)
        return cell

    def cell(self) -> C:
        """The cell of the current key and namespace."""
        session = self.session
        self.accesses += 1
        return self.cell_of(session.stored_key, session.key_group)

    async def loaded(self) -> C:
        """The cell of the current key and namespace, loaded; at most one request."""
        cell = self.cell()
        if not cell.is_loaded:
            await self.answered(cell)
        return cell

    async def loaded_namespaces(self, namespaces: Sequence[bytes]) -> list[C]:
        """The cells of the current key in these namespaces, loaded; at most one request."""
        key, key_group = self.session.key, self.session.key_group
        cells = [self.cell_of(stored_key(key, each), key_group) for each in namespaces]
        if missing := [each for each in cells if not each.is_loaded]:
            await self.answered(Together(missing))
        return cells

    async def answered(self, request: Request) -> None:
        """Wait for a request; a session whose backend is local executes it at once."""
        session = self.session
        if session.is_local:
            session.execute((request,))
        else:
            await wait_for(request)

    def is_expired(self, element: Element) -> bool:
        """Whether an element is past its life in this epoch."""
        stamp_ms = element[0]
        if stamp_ms is None:
            return self._is_unstamped_expired
        return stamp_ms <= self.expired_until_ms

    def has_expired(self, text: bytes) -> bool:
        """The same of a stored element."""
        if text[:1] != b"@":
            return self._is_unstamped_expired
        try:
            return int(text[1 : text.index(b" ")]) <= self.expired_until_ms
        except ValueError:
            return self.is_expired(unstamped(text))

    def live_jsons(self, texts: Collection[bytes]) -> Sequence[bytes] | None:
        """The JSON of stored elements that a read takes as they are.

        None where a rule of TTL may concern one of them: then each must be looked at.
        """
        rules = self.rules
        if not self.may_have_stamps:
            return [*texts]
        if rules.is_enabled and (rules.refreshes_on_read or rules.enabled_ms is not None):
            return None
        oldest_ms, jsons = oldest_and_jsons(texts)
        if oldest_ms is not None and oldest_ms <= self.expired_until_ms:
            return None
        return jsons

    def written(self, json: bytes, old: Element | None) -> Element:
        """An element as an access of now writes it over an old one."""
        rules, event_ms = self.rules, self.session.event_ms
        if not rules.is_enabled:
            return None, json
        if self._keeps_creation and old is not None:
            clock = self.session.clock
            return rules.written(old[0], replaces=True, clock=clock, event_ms=event_ms), json
        if event_ms is None or not self._is_timed_by_records:
            return self._stamp_ms, json
        return event_ms, json

    def written_text(self, json: bytes, old: bytes | None) -> bytes:
        """The same, as it is stored."""
        if not self.rules.is_enabled:
            return json
        if self._keeps_creation or self._is_timed_by_records:
            return stamped(json, self.written(json, None if old is None else unstamped(old))[0])
        return self._stamp_text + json

    def text_of(self, element: Element) -> bytes:
        """An element as it is stored."""
        stamp_ms, json = element
        return self._stamp_text + json if stamp_ms == self._stamp_ms else stamped(json, stamp_ms)

    def refreshed_text(self, text: bytes) -> bytes:
        """A stored element as a read of now leaves it: itself, where reads do not count."""
        if not self.rules.refreshes_on_read:
            return text
        return self.text_of(self.refreshed(unstamped(text)))

    def refreshed(self, element: Element) -> Element:
        """An element as a read of now leaves it: itself, where reads do not count."""
        rules = self.rules
        if not rules.refreshes_on_read:
            return element
        session = self.session
        return rules.refreshed(element[0], session.clock, session.event_ms), element[1]


class _Structure:
    """The writes to one structure."""

    __slots__ = ("deletes", "is_dropped", "puts", "ranges", "scores", "unscores")

    def __init__(self) -> None:
        self.is_dropped = False
        self.deletes: list[bytes] = []
        self.unscores: list[bytes] = []
        self.ranges: list[tuple[bytes, bytes]] = []
        self.puts: list[bytes] = []
        self.scores: list[float | bytes] = []

    def writes(self, name: bytes) -> Iterator[Write]:
        """Dropping first, then what is removed, then what is put."""
        if self.is_dropped:
            yield Drop(name)
        if self.deletes:
            yield HashDelete(name, self.deletes)
        if self.unscores:
            yield SortedRemove(name, self.unscores)
        for minimum, maximum in self.ranges:
            yield LexRemove(name, minimum, maximum)
        if self.puts:
            yield HashPut(name, self.puts)
        if self.scores:
            yield SortedPut(name, self.scores)


class WriteBatch:
    """Many small writes, gathered into few variadic ones.

    A structure is dropped first, then loses what is removed, then gets what is put. What a batch
    is given must not contradict itself: a field is put or deleted, once.
    """

    __slots__ = ("_groups", "_others")

    def __init__(self) -> None:
        self._groups: dict[int, dict[bytes, _Structure]] = {}
        self._others: dict[int, list[Write]] = {}

    def put(self, key_group: int, name: bytes, field: bytes, value: bytes) -> None:
        """Set a field of a hash."""
        self.puts_of(key_group, name).extend((field, value))

    def puts_of(self, key_group: int, name: bytes) -> list[bytes]:
        """The fields of a hash that are set, `[field, value, ...]`; to be added to."""
        return self._structure(key_group, name).puts

    def delete(self, key_group: int, name: bytes, field: bytes) -> None:
        """Remove a field of a hash."""
        self._structure(key_group, name).deletes.append(field)

    def put_all(self, key_group: int, name: bytes, pairs: list[bytes]) -> None:
        """Set many fields: `[field, value, ...]`."""
        if pairs:
            self._structure(key_group, name).puts += pairs

    def delete_all(self, key_group: int, name: bytes, fields: list[bytes]) -> None:
        """Remove many fields of a hash."""
        if fields:
            self._structure(key_group, name).deletes += fields

    def unscore_all(self, key_group: int, name: bytes, members: list[bytes]) -> None:
        """Remove many members of a sorted set."""
        if members:
            self._structure(key_group, name).unscores += members

    def score(self, key_group: int, name: bytes, member: bytes, score: float) -> None:
        """Set the score of a member of a sorted set."""
        self._structure(key_group, name).scores += (score, member)

    def score_all(self, key_group: int, name: bytes, pairs: list[float | bytes]) -> None:
        """Set many scores: `[score, member, ...]`."""
        if pairs:
            self._structure(key_group, name).scores += pairs

    def unscore(self, key_group: int, name: bytes, member: bytes) -> None:
        """Remove a member of a sorted set."""
        self._structure(key_group, name).unscores.append(member)

    def unscore_between(self, key_group: int, name: bytes, minimum: bytes, maximum: bytes) -> None:
        """Remove the members of a sorted set between two bounds (`LexRemove`)."""
        self._structure(key_group, name).ranges.append((minimum, maximum))

    def drop(self, key_group: int, name: bytes) -> None:
        """Remove a structure as a whole, before anything is put into it."""
        self._structure(key_group, name).is_dropped = True

    def add(self, key_group: int, write: Write) -> None:
        """Any other write; those of a key group come after all others, in the order given."""
        self._others.setdefault(key_group, []).append(write)

    def writes(self) -> dict[int, list[Write]]:
        """What to commit, by key group; key groups without a write are left out."""
        result: dict[int, list[Write]] = {}
        for key_group in sorted(self._groups.keys() | self._others.keys()):
            structures = self._groups.get(key_group, {})
            result[key_group] = [
                write for name, each in structures.items() for write in each.writes(name)
            ]
            result[key_group] += self._others.get(key_group, ())
        return result

    def _structure(self, key_group: int, name: bytes) -> _Structure:
        group = self._groups.get(key_group)
        if group is None:
            group = self._groups[key_group] = {}
        structure = group.get(name)
        if structure is None:
            structure = group[name] = _Structure()
        return structure
