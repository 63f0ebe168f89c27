"""What a pipeline remembers of its states: kind, codecs, TTL, and since when that is on.

State outlives runs, plans and versions of an operator. At the start of a run each node registers
the states that it will use. A kind or codec other than what is stored is refused, since what is
stored could not be read. A TTL may differ: it is taken, and stored elements keep their stamps. If
it is switched on for a state that had none, the time of that is remembered, because the life of
elements without a stamp counts from then.

    tailrace:{pipeline}:registry    hash, in the pipeline's own slot
        <node>/<state>              {"version": 1, "kind": "map", "codecs": [...], "ttl": {...},
                                     "enabled_ms": null, "is_stamped": true}; and
                                     "is_silent": false where every run with a TTL emitted expiry,
                                     "is_whole": true where the last one was LEGACY's
        extension_ms                by how much all lives were extended

Source: Flink's state meta info in savepoints; TtlAwareSerializer, which lets TTL be switched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import orjson

from state.descriptors import TimersDescriptor
from state.errors import CodecMismatch, FormatVersionMismatch, InvalidTtl, StateCorrupt
from state.ttl import DISABLED, TimeCharacteristic, TtlConfig, UpdateType, Visibility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import Ledger
    from state.descriptors import StateDescriptor
    from state.ttl import TtlClock

D = TypeVar("D", bound="StateDescriptor")


class Registered(Protocol):
    """Where what is registered lies: a pipeline's `Ledger`, or a reader of its slot."""

    def registered(self) -> dict[bytes, bytes]:
        """What is registered with the pipeline."""


class Extensible(Protocol):
    """Where numbers that are registered can be added to."""

    def add_registered(self, field: bytes, by: int) -> int:
        """Add to an entry that holds an integer (0 if absent); its new value."""


VERSION: Final = 1
_APART: Final = {TimeCharacteristic.PROCESSING, TimeCharacteristic.EVENT_BY_WATERMARK}
"""What counts by one of them makes nothing of stamps of the other: rows of 2013 are all past their
life by the clock, and a watermark of then never reaches what the clock has stamped."""
EXTENSION: Final = b"extension_ms"
"""The field of `extension_ms`."""


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """What is remembered of one state."""

    node: str
    name: str
    kind: str
    codecs: tuple[str, ...]
    ttl: TtlConfig
    """Its clean-up is not remembered: it has no effect on what is stored."""
    enabled_ms: int | None = None
    """When TTL was switched on for a state that had none, in the time that the TTL counts."""
    is_stamped: bool = False
    """Whether it ever had a TTL, so that there may be stamps."""
    is_silent: bool = False
    """Whether a run ever had a TTL and emitted nothing of what expired."""
    is_whole: bool = False
    """Whether the rows of a key expired together in the last run: keys are in the index of expiry
    by their last write, however old their rows are."""

    @property
    def field(self) -> bytes:
        """Its field in the registry."""
        return f"{self.node}/{self.name}".encode()

    def to_json(self) -> bytes:
        """As it is stored."""
        told = {"is_silent": False} if self.is_stamped and not self.is_silent else {}
        whole = {"is_whole": True} if self.is_whole else {}
        return orjson.dumps(
            {
                "version": VERSION,
                "kind": self.kind,
                "codecs": self.codecs,
                "ttl": {
                    "ttl_ms": self.ttl.ttl_ms,
                    "update": self.ttl.update.value,
                    "visibility": self.ttl.visibility.value,
                    "time": self.ttl.time.value,
                },
                "enabled_ms": self.enabled_ms,
                "is_stamped": self.is_stamped,
                **told,
                **whole,
            }
        )


def register_states(
    ledger: Ledger, node: str, descriptors: Sequence[D], clock: TtlClock
) -> list[D]:
    """Register the states of a node for a run that was just opened; to be called before its tasks.

    Args:
        ledger: Of the pipeline.
        node: Whose states.
        descriptors: All that the run will use.
        clock: The time that a TTL which is switched on now begins at: processing time, the last
            watermark, and `extension_ms`.

    Returns:
        The descriptors to use, in order, with what is known of their past.

    Raises:
        CodecMismatch: A state is stored in another kind, with other codecs, or with times that
            its TTL does not count by; nothing was changed.
        FormatVersionMismatch, StateCorrupt: The registry cannot be read.
        StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
    """
    known = {each.field: each for each in registered_states(ledger)}
    now = [_next(known, node, each, clock) for each in descriptors]
    changed = {each.field: each.to_json() for each in now if known.get(each.field) != each}
    if changed:
        ledger.register(changed)
    return [
        replace(
            each,
            enabled_ms=state.enabled_ms,
            is_stamped=state.is_stamped,
            is_silent=state.is_silent,
        )
        for each, state in zip(descriptors, now, strict=True)
    ]


def registered_states(ledger: Registered) -> list[RegisteredState]:
    """All states that the pipeline ever registered, by node and name.

    Raises:
        FormatVersionMismatch, StateCorrupt: The registry cannot be read.
        StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
    """
    held = ledger.registered()
    return [read_registered(field, held[field]) for field in sorted(held) if field != EXTENSION]


def extend_ttl(ledger: Extensible, by_ms: int) -> int:
    """Let everything that has a TTL in processing time live so much longer, say after a downtime.

    It holds from the next run on, for every element that is stored now; nothing is rewritten.

    Returns:
        By how much lives were extended in all: `TtlClock.extension_ms` of the runs to come.

    Raises:
        InvalidTtl: The time is negative: what has expired may be gone.
        StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.

    Source: FLIP-25, future work.
    """
    if by_ms < 0:
        raise InvalidTtl(f"lives cannot be extended by {by_ms} ms")
    return ledger.add_registered(EXTENSION, by_ms)


def extension_ms(ledger: Registered) -> int:
    """By how much lives were extended so far: `TtlClock.extension_ms` of a run that opens now."""
    return int(ledger.registered().get(EXTENSION, b"0"))


def as_registered(node: str, descriptor: StateDescriptor) -> RegisteredState:
    """What is remembered of a state that is used for the first time."""
    ttl = replace(descriptor.ttl, cleanup=DISABLED.cleanup)
    return RegisteredState(
        node,
        descriptor.name,
        descriptor.kind,
        descriptor.codecs,
        ttl,
        is_stamped=ttl.is_enabled,
        is_silent=descriptor.expires_silently,
        is_whole=descriptor.expires_whole,
    )


def _next(
    known: dict[bytes, RegisteredState], node: str, descriptor: StateDescriptor, clock: TtlClock
) -> RegisteredState:
    """What is to be remembered of a state, given what is."""
    state = as_registered(node, descriptor)
    before = known.get(state.field)
    if before is None:
        forgets = descriptor.forgets if isinstance(descriptor, TimersDescriptor) else ()
        if any(f"{node}/{each}".encode() in known for each in forgets):
            # Earlier versions registered no timers without a TTL: keys that are there have none.
            never = replace(state, ttl=DISABLED, is_stamped=False)
            return with_ttl(never, state.ttl, clock)
        return state
    if (before.kind, before.codecs) != (state.kind, state.codecs):
        raise CodecMismatch(
            f"state {state.name!r} of {node} is stored as {form_of(before)}, "
            f"it is asked for as {form_of(state)}",
            hint="give the state another name, or restore a savepoint that was converted",
        )
    times = {before.ttl.time, state.ttl.time}
    if before.is_stamped and state.ttl.is_enabled and times == _APART:
        raise CodecMismatch(
            f"state {state.name!r} of {node} is stored with times of {before.ttl.time.value}, its "
            f"TTL counts by {state.ttl.time.value}",
            hint="let its TTL count by what it counted by before, or give the state another name",
        )
    is_silent = before.is_silent or state.is_silent
    after = with_ttl(before, state.ttl, clock)
    after = replace(after, is_silent=is_silent, is_whole=state.is_whole)
    if before.is_whole and not after.is_whole and state.ttl.is_enabled:
        # Each key is to be looked at once, as if its rows had no TTL so far.
        return replace(after, enabled_ms=clock.stamp(state.ttl))
    return after


def with_ttl(state: RegisteredState, ttl: TtlConfig, clock: TtlClock) -> RegisteredState:
    """What is to be remembered of a state that gets this TTL at this time."""
    # Without a TTL it is remembered what the stamps are that it has left.
    time = ttl.time if ttl.is_enabled else state.ttl.time
    ttl = replace(ttl, time=time, cleanup=DISABLED.cleanup)
    is_switched_on = ttl.is_enabled and not state.ttl.is_enabled
    return replace(
        state,
        ttl=ttl,
        enabled_ms=clock.stamp(ttl) if is_switched_on else state.enabled_ms,
        is_stamped=state.is_stamped or ttl.is_enabled,
    )


def form_of(state: RegisteredState | StateDescriptor) -> str:
    """Kind and codecs, for messages."""
    return f"{state.kind} of {', '.join(state.codecs) or 'nothing'}"


def read_registered(field: bytes, text: bytes) -> RegisteredState:
    """One entry of the registry, the counterpart of `RegisteredState.to_json`.

    Raises:
        FormatVersionMismatch, StateCorrupt: It cannot be read.
    """
    try:
        held: dict[str, Any] = orjson.loads(text)
        version = held["version"]
        if version != VERSION:
            raise FormatVersionMismatch(
                f"the registry of states has format version {version}, this version reads {VERSION}"
            )
        node, _, name = field.decode().rpartition("/")
        ttl = held["ttl"]
        return RegisteredState(
            node,
            name,
            held["kind"],
            tuple(held["codecs"]),
            TtlConfig(
                ttl["ttl_ms"],
                UpdateType(ttl["update"]),
                Visibility(ttl["visibility"]),
                TimeCharacteristic(ttl["time"]),
            ),
            held["enabled_ms"],
            held["is_stamped"],
            # Earlier versions did not remember whether expiry was emitted.
            held.get("is_silent", held["is_stamped"]),
            held.get("is_whole", False),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateCorrupt("the registry of states cannot be read") from error
