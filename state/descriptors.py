"""What a state is: its name, its kind, how its values are written, how long they live.

A descriptor is a value: two equal ones describe the same state. Its *fingerprint* is what a
pipeline remembers of it (`state.registry`): a later run may change the TTL, but neither the kind
nor the codecs, since what is stored could no longer be read.

Source: Flink's `StateDescriptor` family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    TypeGuard,
    TypeVar,
    runtime_checkable,
)

import orjson

from state.backends.names import RESERVED
from state.errors import InvalidName, StateCorrupt
from state.ttl import DISABLED, TtlConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.multiset.strategy import Thresholds

T = TypeVar("T")
K = TypeVar("K")
A = TypeVar("A")
R = TypeVar("R")
_Added = TypeVar("_Added", contravariant=True)
_Shown = TypeVar("_Shown", covariant=True)

RESERVED_STATES: Final = frozenset({each.decode() for each in RESERVED} | {"orphans", "journal"})
"""Names in a key group that belong to the protocol, or to what an operator lists beside state."""


class Codec(Protocol[T]):
    """How values of one type are written: as canonical JSON on one line, without a tab.

    Equal values have equal bytes and the other way round; the bytes never begin with '@'.
    """

    @property
    def name(self) -> str:
        """What tells this codec from those whose bytes it cannot read, e.g. a type's text."""

    def encode(self, value: T) -> bytes:
        """A value as bytes."""

    def decode(self, data: bytes) -> T:
        """The value of such bytes."""


@runtime_checkable
class DecodesAtOnce(Protocol):
    """A codec that decodes the values of many keys in one pass."""

    def decode_all(self, array: bytes) -> list[Any]:
        """The values of a JSON array of such bytes: what `decode` gives of each, all distinct.

        Raises:
            StateCorrupt: It is no such array.
        """


@runtime_checkable
class EncodesBehind(Protocol):
    """A codec that encodes a value behind a stamp without a copy of its own for that."""

    def encode_behind(self, head: bytes, value: object) -> bytes:
        """What is given, which is not empty, and behind it what `encode` gives."""


@runtime_checkable
class Shows(Protocol):
    """A codec that people are shown something clearer of than the JSON that it stores."""

    def shown(self, data: bytes) -> Any:
        """What such bytes hold, as a JSON value: a row by its columns, for example.

        Raises:
            CodecError, StateCorrupt: They are no such bytes.
        """


_DOES: Final[dict[tuple[type, type], bool]] = {}
"""Whether a class of codecs is of a protocol. Asking takes tens of microseconds, and each epoch
makes handles anew."""


def _does(codec: object, what: type) -> bool:
    asked = type(codec), what
    if (found := _DOES.get(asked)) is None:
        found = _DOES[asked] = isinstance(codec, what)
    return found


def decodes_at_once(codec: object) -> TypeGuard[DecodesAtOnce]:
    """Whether a codec is a `DecodesAtOnce`."""
    return _does(codec, DecodesAtOnce)


def encodes_behind(codec: object) -> TypeGuard[EncodesBehind]:
    """Whether a codec is an `EncodesBehind`."""
    return _does(codec, EncodesBehind)


class JsonCodec:
    """Any JSON value, objects by sorted keys; integers of 64 bits, no NaN."""

    __slots__ = ()

    name: str = "json"

    def encode(self, value: object) -> bytes:
        """A value as bytes.

        Raises:
            TypeError: It is no JSON value.
        """
        # A copy: the result of `dumps` keeps its buffer of 4 KiB for as long as it lives.
        return b"%b" % orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

    def encode_behind(self, head: bytes, value: object) -> bytes:
        """A value as bytes behind others; see `EncodesBehind`."""
        # The copy that `encode` makes, too.
        return head + orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

    def decode(self, data: bytes) -> Any:
        """The value of such bytes.

        Raises:
            StateCorrupt: They are not JSON.
        """
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise StateCorrupt("a stored value is not JSON") from error

    def decode_all(self, array: bytes) -> list[Any]:
        """The values of a JSON array; see `DecodesAtOnce`."""
        try:
            found: list[Any] = orjson.loads(array)
        except orjson.JSONDecodeError as error:
            raise StateCorrupt("stored values are not JSON") from error
        return found


JSON: Final = JsonCodec()


class Aggregator(Protocol[_Added, A, _Shown]):
    """What an aggregating state does with its values.

    Source: Flink's `AggregateFunction`.
    """

    def create_accumulator(self) -> A:
        """The accumulator of no value."""

    def add(self, value: _Added, accumulator: A) -> A:
        """The accumulator with one more value; it may be the given one, changed."""

    def get_result(self, accumulator: A) -> _Shown:
        """What the state shows."""

    def merge(self, one: A, other: A) -> A:
        """Both in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDescriptor:
    """What all states have.

    Raises:
        InvalidName: The name is no ASCII identifier, or one that we keep for us.
    """

    kind: ClassVar[str] = ""
    """Told apart by this in the fingerprint."""

    name: str
    """Unique in a node; stands in the names of the keys of Redis."""
    ttl: TtlConfig = DISABLED
    enabled_ms: int | None = None
    """From `state.registry`: when TTL was switched on for a state that had elements already."""
    is_stamped: bool = False
    """From `state.registry`: whether some run had a TTL, so that there may be stamps."""
    is_silent: bool = False
    """From `state.registry`: whether in some run elements expired and nobody was told."""
    thresholds: Thresholds | None = None
    """When a collection changes its layout; None takes the session's."""

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()):
            raise InvalidName(
                f"a state cannot be named {self.name!r}",
                hint="use ASCII letters, digits and underscores, and begin with a letter",
            )
        if self.name in RESERVED_STATES:
            raise InvalidName(f"the name {self.name!r} belongs to the protocol of state")

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return ()

    @property
    def may_have_stamps(self) -> bool:
        """Whether stored elements can carry stamps."""
        return self.is_stamped or self.ttl.is_enabled

    @property
    def expires_silently(self) -> bool:
        """Whether elements expire and nobody is told."""
        return self.ttl.is_enabled

    @property
    def expires_whole(self) -> bool:
        """Whether the elements of a key expire together, by the last write of one."""
        return False

    def fingerprint(self) -> dict[str, Any]:
        """Kind and codecs, as JSON values: what stored bytes depend on."""
        return {"kind": self.kind, "codecs": list(self.codecs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDescriptor(StateDescriptor, Generic[T]):
    """One value a key."""

    kind: ClassVar[str] = "value"
    codec: Codec[T]

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return (self.codec.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducingDescriptor(StateDescriptor, Generic[T]):
    """One value a key, into which each added one is folded."""

    kind: ClassVar[str] = "reducing"
    codec: Codec[T]
    reduce: Callable[[T, T], T]
    """Takes the value held and the one added."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return (self.codec.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatingDescriptor(StateDescriptor, Generic[T, A, R]):
    """One accumulator a key."""

    kind: ClassVar[str] = "aggregating"
    codec: Codec[A]
    """Of the accumulator."""
    aggregator: Aggregator[T, A, R]

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return (self.codec.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDescriptor(StateDescriptor, Generic[T]):
    """A list of elements a key."""

    kind: ClassVar[str] = "list"
    codec: Codec[T]
    """Of an element."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return (self.codec.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapDescriptor(StateDescriptor, Generic[K, T]):
    """A map from user keys to values a key."""

    kind: ClassVar[str] = "map"
    key_codec: Codec[K]
    codec: Codec[T]
    """Of a value that is not None."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return (self.key_codec.name, self.codec.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedMapDescriptor(StateDescriptor, Generic[K, T]):
    """A map from user keys to lists of values, ordered by the bytes of the user key."""

    kind: ClassVar[str] = "sorted_map"
    key_codec: Codec[K]
    """Its bytes order as its values do: see `state.lexicographic`."""
    codec: Codec[T]

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        return (self.key_codec.name, self.codec.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchColumns(Generic[T, K]):
    """What of a row tells which entry of a multiset it is about: the upsert key, for example."""

    name: str
    """What the function takes, e.g. `id`: code cannot be remembered, so this stands for it."""
    codec: Codec[K]
    """Of what the function gives. Bytes that are a JSON array are indexed column by column, as
    those of canonical rows are."""
    of: Callable[[T], K]


@dataclass(frozen=True, slots=True, kw_only=True)
class MultisetDescriptor(StateDescriptor, Generic[T]):
    """A sequenced multiset of rows a key."""

    kind: ClassVar[str] = "multiset"
    codec: Codec[T]
    """Of a row."""
    match: MatchColumns[T, Any] | None = None
    """What of two rows is compared; None: the whole rows."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of what stored bytes depend on: the index of a spread history holds matches."""
        if self.match is None:
            return (self.codec.name,)
        return self.codec.name, self.match.codec.name, f"match {self.match.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersDescriptor(StateDescriptor):
    """Timers of keys and namespaces; they do not expire."""

    kind: ClassVar[str] = "timers"
    ttl: TtlConfig = DISABLED
    """By which they let go keys that nothing came for, where they are for that."""
    forgets: tuple[str, ...] = ()
    """Names of the states that such keys are in: each key is in one of them, or goes by itself."""
