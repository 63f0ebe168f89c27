"""The committed offset of a topic's group: which run may write the topic, and which epoch it holds.

    group     <prefix>:<pipeline>:<topic>, which nobody reads with; the transactional id is the same
    place     partition 0 of the topic
    offset    the last epoch whose records the topic has
    metadata  tailrace/1 <pipeline id> <run> <epoch> [<origin, or successor>]

It is committed in the transaction of the epoch's records, so that it is there if they are, and only
then. The epoch is the pipeline's marker, or one more where a process died between this transaction
and the epoch's close; then the epoch runs again, finds that the topic has it, and sends nothing.

Whoever is about to write first takes the transactional id: the broker ends what another one has
begun, and refuses whatever that one sends later. Only then is the place read, and what is decided
here is committed by the same producer. So nobody else can have come in between.

    claim     a run begins: no earlier one writes any more; epochs of topic and marker agree
    advance   an epoch is about to be sent
    adopt     a restored pipeline takes the place of the one whose savepoint it has, its origin

A pipeline that was restored and has written nothing says whose savepoint it has, and the one that
it has taken the place of says by which group it goes on. So it can be taken back: another one takes
up the same savepoint, and it is retired as its origin was.

The group bears the pipeline's name, and its place the id, which is never used again: a pipeline
that is made anew under a name takes the group over from the earlier ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sinks.owner import TAKE_BACK
from state.errors import Fenced, SavepointMismatch, SinkTakenOver, StateLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.runtime.sinks.owner import Owner

RETIRED: Final = 2**63 - 1
"""In the place of a run: another pipeline has the topic."""
_TEXT = re.compile(r"tailrace/1 ([!-~]{1,64}) ([0-9]{1,19}) ([0-9]{1,19})(?: ([!-~]{1,512}))?")


@dataclass(frozen=True, slots=True)
class Held:
    """What a group's committed offset says."""

    pipeline_id: str
    run: int
    epoch: int
    origin: str = ""
    """The id of the pipeline whose savepoint it has, until it has written."""
    successor: str = ""
    """The group of the pipeline that has taken its place."""

    def text(self) -> str:
        """The metadata that `of` reads."""
        known = f"tailrace/1 {self.pipeline_id} {self.run} {self.epoch}"
        more = self.successor if self.run == RETIRED else self.origin
        return f"{known} {more}" if more else known

    @classmethod
    def of(cls, group: str, offset: int, metadata: str | None) -> Held | None:
        """What was committed; None if nothing was.

        Raises:
            StateLost: It is nothing that a sink here has committed.
        """
        if offset < 0:
            return None
        # Kafka's client for Python sends the end of a C string along.
        found = _TEXT.fullmatch((metadata or "").rstrip("\0"))
        if found is None or int(found[3]) != offset:
            raise StateLost(
                f"the committed offset of group {group} is none that a sink has left: nothing may "
                "read with the group of a sink"
            )
        run, more = int(found[2]), found[4] or ""
        if run == RETIRED:
            return cls(found[1], run, offset, successor=more)
        return cls(found[1], run, offset, origin=more)

    def is_unwritten(self, origin: str, epoch: int) -> bool:
        """Whether it is of a pipeline that has this savepoint, and has written nothing since."""
        return self.run != RETIRED and (self.origin, self.epoch) == (origin, epoch)


def writer_id(prefix: str, pipeline: str, topic: str) -> str:
    """The group, and transactional id, of a pipeline's writers of a topic.

    >>> writer_id("tailrace", "orders", "out")
    'tailrace:orders:out'
    """
    return f"{prefix}:{pipeline}:{topic}"


def claim(
    held: Held | None,
    owner: Owner,
    topic: str,
    *,
    marker: int,
    begun: int | None,
    is_second: bool = False,
) -> Held:
    """What is committed for a run that begins.

    Args:
        held: What the group says.
        owner: The run that begins.
        topic: What it will write.
        marker: The pipeline's last closed epoch.
        begun: The last epoch for which this pipeline may have begun a transaction; None: it has
            begun none. It decides where the group was lost.
        is_second: Whether this run has claimed a topic of this name before, by other properties. If
            not, and the group has this run, its own claim arrived and the answer did not.

    Raises:
        Fenced: A later run, or another pipeline, has the topic.
        InvalidTableOption: This run has it by other properties.
        StateLost: The topic is of another epoch than the pipeline's state, or nobody knows.
    """
    if held is None:
        return Held(owner.pipeline_id, owner.run, _without_group(topic, marker, begun))
    if held.pipeline_id != owner.pipeline_id:
        if marker:
            raise _fenced(held, owner, topic)
        return Held(owner.pipeline_id, owner.run, 0)
    if held.run > owner.run:
        raise _fenced(held, owner, topic)
    if held.run == owner.run and is_second:
        # The second transaction of an epoch would find that the topic has it.
        raise InvalidTableOption(
            f"two sinks write topic {topic}, and their properties differ",
            hint="give both the same properties",
        )
    if held.epoch not in (marker, marker + 1):
        raise StateLost(f"the state is of epoch {marker}, topic {topic} of epoch {held.epoch}")
    origin = held.origin if held.epoch == marker else ""
    return Held(owner.pipeline_id, owner.run, held.epoch, origin=origin)


def advance(held: Held | None, owner: Owner, topic: str, epoch: int) -> Held | None:
    """What is committed with an epoch; None if the topic has it already.

    Raises:
        Fenced: A later run, or another pipeline, has the topic.
        StateLost: The topic is of another epoch than the one before.
    """
    if held is None:
        raise StateLost(f"the group of topic {topic} has no committed offset any more")
    if held.pipeline_id != owner.pipeline_id or held.run > owner.run:
        raise _fenced(held, owner, topic)
    if held.run == owner.run and held.epoch == epoch:
        return None
    if held.run == owner.run and held.epoch == epoch - 1:
        return Held(owner.pipeline_id, owner.run, epoch)
    raise StateLost(
        f"epoch {epoch} of run {owner.run} is to be closed, topic {topic} is of epoch {held.epoch} "
        f"of run {held.run}"
    )


def adopt(
    origins: Held | None,
    topic: str,
    *,
    origin: str,
    epoch: int,
    is_unwritten: Callable[[], bool],
    successor: Held | None = None,
) -> Held:
    """What is committed for the pipeline whose savepoint is restored: it cannot write any more.

    Args:
        origins: What its group says; of a pipeline that was made anew under its name, of that.
        topic: What the restored pipeline will write.
        origin: The id of the pipeline whose savepoint it is.
        epoch: The savepoint's.
        is_unwritten: Whether the topic never had a record; then it is as good as another one.
        successor: What the group says that it names as its successor's.

    Raises:
        SavepointMismatch: The topic is of another epoch, or not known to be of any.
    """
    if (origins is None or origins.pipeline_id != origin) and is_unwritten():
        return Held(origin, RETIRED, epoch)
    if any(each is not None and each.is_unwritten(origin, epoch) for each in (origins, successor)):
        return Held(origin, RETIRED, epoch)
    if origins is None or origins.pipeline_id != origin:
        found = "not known to be of any"
    elif origins.run == RETIRED:
        found = "written by another pipeline since"
    elif origins.epoch != epoch:
        found = f"of epoch {origins.epoch}"
    else:
        return Held(origin, RETIRED, epoch)
    raise SavepointMismatch(
        f"the savepoint is of epoch {epoch}, topic {topic} is {found}",
        hint="records cannot be taken back: restore the savepoint with a topic that is empty",
    )


def _without_group(topic: str, marker: int, begun: int | None) -> int:
    """The epoch of a topic whose group is gone, or was never there."""
    if begun is not None and begun > marker:
        raise StateLost(
            f"the state is of epoch {marker}, and topic {topic} may have epoch {begun}: its group "
            "has no committed offset any more, which would tell; brokers forget groups that rest "
            "for offsets.retention.minutes"
        )
    return marker


def _fenced(held: Held, owner: Owner, topic: str) -> Fenced:
    if held.pipeline_id != owner.pipeline_id or held.run == RETIRED:
        return SinkTakenOver(f"another pipeline has taken topic {topic} over", hint=TAKE_BACK)
    return Fenced(f"run {held.run} writes topic {topic}, this is run {owner.run}")
