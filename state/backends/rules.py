"""Decisions of the epoch protocol that both backends take in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from state.backends.interface import ApplyStaged, EpochCheck
from state.backends.names import is_reserved
from state.errors import Fenced, InvariantViolation, StagedWritesGone, StateError, StateLost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.backends.interface import Effect, EpochStamp, Marker


def stale_or_lost(
    where: str, stamp: EpochStamp, *, at: int, newest_run: int, marker: int
) -> StateError:
    """What it means that a key group is not where an attempt expects it.

    The attempt is stale if its run or epoch is over by the pipeline's own slot; if the slot says
    that it should be running, key group and slot contradict each other, and state was lost.

    Args:
        where: The key group, for the message.
        stamp: What the attempt runs.
        at: The epoch that the key group has, applied or pending; -1 if there is nothing.
        newest_run: The pipeline's run counter.
        marker: The epoch that the pipeline closed last.
    """
    if newest_run > stamp.run:
        return Fenced(f"run {newest_run} owns the pipeline, this is run {stamp.run}")
    if newest_run < stamp.run:
        return StateLost(f"the run counter is {newest_run}, this is run {stamp.run}")
    if marker >= stamp.epoch:
        return Fenced(f"epoch {stamp.epoch} is closed, the pipeline is at {marker}")
    found = "nothing" if at < 0 else f"epoch {at}"
    return StateLost(
        f"{where} has {found}, epoch {stamp.epoch} is being run and the marker is {marker}"
    )


def check_epoch(marker: Marker, epoch: int) -> EpochCheck:
    """Whether an epoch may run by the marker.

    Raises:
        StateLost: The marker is neither this epoch nor the one before.
    """
    if marker.epoch == epoch - 1:
        return EpochCheck.PROCEED
    if marker.epoch == epoch:
        return EpochCheck.CLOSED
    raise marker_lost(marker.epoch, epoch)


def marker_lost(marker: int, epoch: int) -> StateLost:
    """The error that names both sides: what was closed, and what the checkpoint goes on with."""
    return StateLost(
        f"the state was closed at epoch {marker}, the checkpoint goes on with epoch {epoch}"
    )


def ahead_of_marker(where: str, at: int, marker: int) -> StateLost:
    """The error of a key group that applied an epoch which was never closed, as far as is known."""
    return StateLost(f"{where} has epoch {at}, the marker is {marker}")


def offsets_json(offsets: Mapping[str, Any]) -> bytes:
    """Offsets as the marker keeps them: equal offsets have equal bytes."""
    return orjson.dumps(offsets, option=orjson.OPT_SORT_KEYS)


def named_in_slot(effect: Effect, prefix: bytes) -> Effect:
    """The effect with its name as it stands behind the slot's prefix.

    Raises:
        InvariantViolation: The name belongs to the protocol.
    """
    return effect._replace(name=slot_name(as_name(effect.name), prefix))


def slot_name(name: bytes, prefix: bytes) -> bytes:
    """A name in the slot without the prefix, whether it was given with it or not.

    Raises:
        InvariantViolation: The name belongs to the protocol.
    """
    short = name.removeprefix(prefix)
    if is_reserved(short) or not short:
        raise InvariantViolation(f"{short!r} is not a valid name of a sink")
    return short


def as_name(name: bytes | str) -> bytes:
    """A name as bytes."""
    return name.encode() if isinstance(name, str) else name


def staged_gone(effect: ApplyStaged, found: int) -> StagedWritesGone:
    """The error of a staged list that is not what its task left."""
    return StagedWritesGone(f"a staged list has {found} chunks, its task left {effect.chunks}")


def check_lex_bounds(minimum: bytes, maximum: bytes) -> None:
    """See that both bounds of a range of members are ones.

    Raises:
        InvariantViolation: One is neither `-`, `+` nor begins with `[` or `(`.
    """
    for bound in (minimum, maximum):
        if bound not in (b"-", b"+") and bound[:1] not in (b"[", b"("):
            raise InvariantViolation("a bound of a range of members is malformed")


def size_of(reply: object) -> int:
    """How many fields, members or entries a read gave."""
    if isinstance(reply, (list, dict)):
        return len(reply)
    return 1
