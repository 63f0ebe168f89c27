"""Time to live: when a stored element is expired, and what counts as touching it.

An element carries the time of its last counting access, its *stamp*. It is expired when

    stamp + ttl <= now

and that is all that is stored of TTL: neither the TTL nor a due time. So the TTL of a state may be
switched on or off, made longer or shorter, or counted by another kind of access, and what is
stored stays as it is.

    element without TTL    <json>
    element with TTL       @<ms> <json>         '@' cannot begin JSON

A packed collection stores the stamp that elements share once (`state.primitives.layout`).

What is hard is time. `now` is the epoch's, never a clock's, so that an epoch that runs again
expires the same elements; in event time it is the watermark's or still the epoch's, as FLIP-25
offers; and a downtime must be able to extend every life at once. `TtlClock` holds these times of
an epoch, `TtlRules` one state's rules.

Source: FLIP-25, Flink's `StateTtlConfig` and `TtlUtils`. ON_CREATE and event time are FLIP-25's;
Flink has built neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from state.errors import InvalidTtl, StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Collection

TIME_MAX: Final = (1 << 63) - 1
"""Flink's Long.MAX_VALUE: what lives until then lives for ever."""
TIME_MIN: Final = -(1 << 63)
"""The watermark before there is one."""
STAMP_SIZE: Final = 15
"""Bytes of a stamp with what is around it: '@', the 13 digits of all times of our age, a space."""
_FEW: Final = 5
"""Elements whose stamps are compared one by one."""


class UpdateType(Enum):
    """Which accesses set an element's stamp anew."""

    DISABLED = "Disabled"
    """None: there is no TTL."""
    ON_CREATE = "OnCreate"
    """The first write only; a write to a live element keeps its stamp."""
    ON_CREATE_AND_WRITE = "OnCreateAndWrite"
    """Every write."""
    ON_READ_AND_WRITE = "OnReadAndWrite"
    """Every write, and every read of a live element."""


class Visibility(Enum):
    """Whether a read may show what is expired."""

    NEVER_RETURN_EXPIRED = "NeverReturnExpired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "ReturnExpiredIfNotCleanedUp"
    """Yes, once: the read that finds it removes it."""


class TimeCharacteristic(Enum):
    """Whose time stamps are, and whose time they are compared with."""

    PROCESSING = "ProcessingTime"
    """The epoch's, both."""
    EVENT_BY_WATERMARK = "EventTimeByWatermark"
    """Stamps are the record's event time, now is the watermark."""
    EVENT_BY_PROCESSING = "EventTimeByProcessingTime"
    """Stamps are the record's event time, now is the epoch's time."""


@dataclass(frozen=True, slots=True)
class Cleanup:
    """How expired elements are removed, besides by the access that finds them.

    Raises:
        InvalidTtl: A number is negative, a background that is on may clean nothing, or records
            are to pay for nothing.

    Source: Flink's `cleanupIncrementally(cleanupSize, runCleanupForEveryRecord)`, which walks all
    keys where this takes those that are due.
    """

    incremental_entries: int = 0
    """Due keys that each access pays for, in the key group of its key; 0 is off."""
    incremental_on_record: bool = False
    """Whether each record pays for as many, too, be the state accessed by it or not: each key that
    is made current, by a record, by a bundle of them, or by a timer that fires."""
    background: bool = True
    """Whether each epoch removes some of what is due, touched or not."""
    background_keys_max: int = 1_000
    """How many keys an epoch removes so, in each key group; also its share of a sweep."""
    by_timer: bool = False
    """Whether each epoch removes all that is due, without a bound: FLIP-25's exact clean-up."""

    def __post_init__(self) -> None:
        if self.incremental_entries < 0:
            raise InvalidTtl(
                "number of incrementally cleaned up state entries should be positive",
                hint="give 0 to switch incremental clean-up off",
            )
        if self.incremental_on_record and not self.incremental_entries:
            raise InvalidTtl(
                "incremental_on_record is set, but a record cleans up 0 entries",
                hint="give incremental_entries a positive number",
            )
        if self.background_keys_max < 1:
            raise InvalidTtl(
                f"background_keys_max is {self.background_keys_max}, it must be at least 1",
                hint="set background to false to switch background clean-up off",
            )


@dataclass(frozen=True, slots=True)
class TtlConfig:
    """Time to live of a state.

    Raises:
        InvalidTtl: The TTL is not positive.
    """

    ttl_ms: int
    update: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: Visibility = Visibility.NEVER_RETURN_EXPIRED
    time: TimeCharacteristic = TimeCharacteristic.PROCESSING
    cleanup: Cleanup = field(default_factory=Cleanup)

    def __post_init__(self) -> None:
        if self.ttl_ms <= 0:
            raise InvalidTtl(
                f"TTL is expected to be positive, it is {self.ttl_ms} ms",
                hint="use DISABLED for a state whose elements live for ever",
            )

    @property
    def is_enabled(self) -> bool:
        """Whether elements get stamps and expire."""
        return self.update is not UpdateType.DISABLED

    @property
    def shows_expired(self) -> bool:
        """Whether a read gives back what is expired and still there."""
        return self.visibility is Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

    def is_expired(self, stamp_ms: int, now_ms: int) -> bool:
        """Whether an element with this stamp is expired; exactly at `stamp + ttl` it is.

        As in Flink, a sum above `TIME_MAX` is `TIME_MAX`.
        """
        return self.is_enabled and min(stamp_ms + self.ttl_ms, TIME_MAX) <= now_ms

    def newest_expired_ms(self, now_ms: int) -> int:
        """The largest stamp that is expired now: what an index of stamps is searched up to."""
        return now_ms - self.ttl_ms


DISABLED: Final = TtlConfig(TIME_MAX, UpdateType.DISABLED)
"""No TTL: elements live for ever and carry no stamp."""


@dataclass(frozen=True, slots=True)
class TtlClock:
    """The times of an epoch."""

    processing_ms: int
    """The epoch's processing time."""
    watermark_ms: int = TIME_MIN
    """The watermark that holds in the epoch."""
    extension_ms: int = 0
    """By how much all lives were extended, in processing time.

    Processing time, as TTL counts it, stands still that long: what was stamped before lives that
    much longer, and what is stamped from now on lives as long as ever.
    """

    def now(self, config: TtlConfig) -> int:
        """The time that stamps are compared with."""
        if config.time is TimeCharacteristic.EVENT_BY_WATERMARK:
            return self.watermark_ms
        return self.processing_ms - self.extension_ms

    def stamp(self, config: TtlConfig, event_ms: int | None = None) -> int:
        """The stamp of an access.

        Args:
            config: TTL of the state that is accessed.
            event_ms: Event time of the current record, where it has one. Without one, an access
                in event time is as old as `now`; before the first watermark, whose time nobody
                knows, it is of the epoch's time, so that it does not expire with that watermark.
        """
        if config.time is TimeCharacteristic.PROCESSING or event_ms is None:
            now_ms = self.now(config)
            return self.processing_ms if now_ms == TIME_MIN else now_ms
        if config.time is TimeCharacteristic.EVENT_BY_PROCESSING:
            # It is compared with a processing time that stood still.
            return event_ms - self.extension_ms
        return event_ms


class TtlRules:
    """The rules of one state: its TTL, and since when it has one.

    Characteristics:
        cost    a comparison an access where there is no TTL
    """

    __slots__ = ("config", "enabled_ms", "is_enabled", "refreshes_on_read", "shows_expired")

    def __init__(self, config: TtlConfig, enabled_ms: int | None = None) -> None:
        """Bind a TTL.

        Args:
            config: The TTL in force.
            enabled_ms: When it was switched on for a state that had elements already: from then on
                the life of an element without a stamp counts. None: there are no such elements.
        """
        self.config = config
        self.enabled_ms = enabled_ms
        self.is_enabled = config.is_enabled
        self.refreshes_on_read = config.update is UpdateType.ON_READ_AND_WRITE
        self.shows_expired = config.shows_expired

    def is_expired(self, stamp_ms: int | None, clock: TtlClock) -> bool:
        """Whether an element is past its life.

        Args:
            stamp_ms: Its stamp; None if it has none.
            clock: The times of the epoch.
        """
        if not self.is_enabled:
            return False
        since = self.enabled_ms if stamp_ms is None else stamp_ms
        return since is not None and self.config.is_expired(since, clock.now(self.config))

    def expires_ms(self, stamp_ms: int | None) -> int | None:
        """When an element is past its life if nothing touches it; None: never.

        Args:
            stamp_ms: Its stamp; None if it has none.
        """
        since = self.enabled_ms if stamp_ms is None else stamp_ms
        if not self.is_enabled or since is None:
            return None
        return min(since + self.config.ttl_ms, TIME_MAX)

    def expired_until_ms(self, clock: TtlClock) -> float:
        """The newest stamp that is expired at these times; minus infinity where none can be."""
        if not self.is_enabled:
            return -math.inf
        now_ms = clock.now(self.config)
        return math.inf if now_ms >= TIME_MAX else now_ms - self.config.ttl_ms

    def written(
        self, old_ms: int | None, *, replaces: bool, clock: TtlClock, event_ms: int | None
    ) -> int | None:
        """The stamp that a write gives its element.

        Args:
            old_ms: Stamp of the element that it replaces; None if that has none.
            replaces: Whether there is one; what is expired counts as absent.
            clock: The times of the epoch.
            event_ms: Event time of the current record.

        Returns:
            None where there is no TTL.
        """
        if not self.is_enabled:
            return None
        if self.config.update is UpdateType.ON_CREATE and replaces:
            since = self.enabled_ms if old_ms is None else old_ms
            if since is not None and not self.config.is_expired(since, clock.now(self.config)):
                return since
        return clock.stamp(self.config, event_ms)

    def refreshed(self, old_ms: int | None, clock: TtlClock, event_ms: int | None) -> int | None:
        """The stamp that a read gives a live element, where reads count: never an older one."""
        if old_ms is None:
            return clock.stamp(self.config, event_ms)
        if event_ms is None:
            return max(old_ms, clock.now(self.config))
        return max(old_ms, clock.stamp(self.config, event_ms))


def stamped(json: bytes, stamp_ms: int | None) -> bytes:
    """An element as it is stored.

    >>> stamped(b"[1]", 16), stamped(b"[1]", None)
    (b'@16 [1]', b'[1]')
    """
    return json if stamp_ms is None else b"@%d %b" % (stamp_ms, json)


def unstamped(text: bytes) -> tuple[int | None, bytes]:
    """The stamp of a stored element, and its JSON; the counterpart of `stamped`.

    Raises:
        StateCorrupt: It begins as a stamp and is none.

    >>> unstamped(b"@16 [1]"), unstamped(b"[1]")
    ((16, b'[1]'), (None, b'[1]'))
    """
    if text[:1] != b"@":
        return None, text
    stamp, _, json = text.partition(b" ")
    try:
        if json:
            return int(stamp[1:]), json
    except ValueError:
        pass
    raise StateCorrupt(
        "a stored element begins with '@' and no stamp follows",
        hint="the element was truncated, or something else wrote to this state",
    )


def stamp_of(text: bytes) -> int | None:
    """The stamp of a stored element, without a look at the rest.

    Raises:
        StateCorrupt: It begins as a stamp and is none.

    >>> stamp_of(b"@16 [1]"), stamp_of(b"[1]")
    (16, None)
    """
    # Stamps of this age of the world have 13 digits.
    if text[:1] != b"@":
        return None
    try:
        return int(text[1 : text.index(b" ")])
    except ValueError:
        return unstamped(text)[0]


def json_of(text: bytes) -> bytes:
    """The JSON of a stored element, without a look at its stamp.

    Raises:
        StateCorrupt: It begins as a stamp and is none.

    >>> json_of(b"@16 [1]"), json_of(b"[1]")
    (b'[1]', b'[1]')
    """
    if text[:1] != b"@":
        return text
    return text[text.find(b" ") + 1 :] or unstamped(text)[1]


def oldest_stamp(texts: Collection[bytes]) -> int | None:
    """The oldest stamp of stored elements; None if none has one.

    Raises:
        StateCorrupt: One begins as a stamp and is none.
    """
    if len(texts) < _FEW:
        return min((each for each in map(stamp_of, texts) if each is not None), default=None)
    # Elements that were written together share their stamp, and mostly its 13 digits.
    heads = {text[:STAMP_SIZE] for text in texts}
    if all(map(is_usual_stamp, heads)):
        return int(min(heads)[1:14]) if heads else None
    return min((each for each in map(stamp_of, texts) if each is not None), default=None)


def is_usual_stamp(head: bytes) -> bool:
    """Whether the first `STAMP_SIZE` bytes of an element are a stamp of the usual length."""
    return head[14:] == b" " and head[:1] == b"@" and head[1:14].isdigit()
