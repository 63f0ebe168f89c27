"""Cells: what an epoch knows of one key in one state, and the requests that load them.

A cell holds what was stored when the epoch began, as far as it was loaded, and what is to be
stored. It is authoritative for the epoch: once loaded, no reply overwrites it. Handles
(`state.primitives.handle`) are typed access to the cells of one state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.execution.requests import Request
    from state.primitives.handle import StateHandle
    from state.primitives.write_batch import WriteBatch


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

    __slots__ = ("indexed_ms", "is_due", "is_loaded", "key", "key_group")
    is_one_field: ClassVar[bool] = True
    """Whether its first load is one field of the hash of the state's name."""

    def __init__(self, key: bytes, key_group: int) -> None:
        self.key = key
        """The stored key: the key's text, and the namespace's if it has one."""
        self.key_group = key_group
        self.is_loaded = False
        """Whether the first load was done or is not needed any more."""
        self.indexed_ms: MaybeKnown = None
        """The key's stored score in the expiry index is at most this; None if it is not in it."""
        self.is_due = False
        """Whether clean-up found it by the expiry index, so that its score must be set anew."""

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
        """The score that the expiry index is to have for the key, and `indexed_ms`."""
        return self.oldest_ms(), self.indexed_ms

    def write_index(self, expiry: bytes, batch: WriteBatch) -> None:
        """Let the expiry index have a score that is at most the key's oldest stamp.

        A score that is too old already stays: clean-up sets it right when it is due. So what is
        written again and again costs the index nothing.
        """
        wanted, stored = self.index_scores()
        if self.is_due:
            wanted, stored = self.oldest_ms(), UNKNOWN
        if wanted is None:
            if stored is not None:
                batch.unscore(self.key_group, expiry, self.key)
        elif stored is None or stored is UNKNOWN or wanted < stored:
            batch.score(self.key_group, expiry, self.key, wanted)

    def empty(self) -> None:
        """Remove all that it holds; for kinds that `StateHandle.judged` settles."""
        raise NotImplementedError

    @abstractmethod
    async def clean(self, elements_max: int) -> int:
        """Remove expired elements of a cell, loading what that needs; how many were removed.

        Args:
            elements_max: At most so many; what remains is found again by the index.
        """


class Changing(Protocol):
    """A cell that tells whether it has changed."""

    is_due: bool

    @property
    def is_changed(self) -> bool:
        """Whether something must be stored."""

    @property
    def stays_indexed(self) -> bool:
        """Whether the expiry index certainly has its oldest stamp, or an older one."""

    def write(self, batch: WriteBatch) -> None:
        """As `Cell.write`."""

    def write_index(self, expiry: bytes, batch: WriteBatch) -> None:
        """As `Cell.write_index`."""


def write_changed(handle: StateHandle[Any], cells: Iterable[Changing], batch: WriteBatch) -> None:
    """Give what must be stored of cells, and of their places in the index: of most, nothing."""
    has_stamps = handle.may_have_stamps
    for cell in cells:
        if cell.is_changed:
            cell.write(batch)
            if has_stamps and not cell.stays_indexed:
                cell.write_index(handle.expiry, batch)
        elif cell.is_due:
            cell.write_index(handle.expiry, batch)


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
