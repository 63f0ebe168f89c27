"""Topics from a run's start to its epochs' closes.

All records of an epoch for one topic are one transaction, with the epoch's number as the committed
offset of a group (`fence`). It comes before the epoch's close, as files' renames do: a process that
dies in between leaves an epoch that runs again, and finds at the group whether its topic has it.

    claim_topics    a run starts: topics are found, earlier runs fenced
    write_topics    an epoch is about to be closed
    adopt_topics    a savepoint is restored

Before a transaction its epoch is noted in Redis. Brokers forget groups that rest for long, as a
stopped pipeline's does; the note then tells whether a transaction could have gone further than the
marker, and if none could, the group is made again.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from service.runtime.dataflow_errors import SinkRefused, SinkUnavailable
from service.runtime.kafka_fields import CONNECTORS
from service.runtime.sinks.items import removals_of, rows_of
from service.runtime.sinks.kafka.fence import RETIRED, Held, adopt, advance, claim, writer_id
from service.runtime.sinks.kafka.options import place_of
from service.runtime.sinks.kafka.told import told_by
from service.runtime.sinks.owner import Owner
from service.runtime.slot_keys import KAFKA_NAME, slot_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    import pyarrow as pa

    from service.runtime.sinks.kafka.options import Place
    from service.runtime.sinks.kafka.session import TopicSession
    from service.runtime.sinks.spec import SinkSpec, WriterSpec
    from service.runtime.sinks.written import EpochInput

_TAKEOVERS_MAX = 3
_KEPT_MAX = 16
"""Topics that a process keeps sessions of; each has some threads and connections."""


def claim_topics(
    owner: Owner, sinks: Sequence[SinkSpec], *, marker: int, begun: Mapping[str, int]
) -> list[str]:
    """Let a run write its topics, once they are known to be there.

    Args:
        owner: The run that begins.
        sinks: Of all connectors; those of Kafka are taken.
        marker: The pipeline's last closed epoch.
        begun: By group: the last epoch for which a transaction may have been begun.

    Returns:
        The topics that have the epoch behind the marker.

    Raises:
        InvalidTableOption: A topic is written in two ways.
        Fenced: A later run, or another pipeline, has a topic.
        StateLost: A topic is of another epoch than the pipeline's state.
        SinkRefused: A topic is not there.
        SinkRefused, SinkUnavailable: As the brokers say.
    """
    groups: set[str] = set()
    ahead: set[str] = set()
    for place in _topics(sinks):
        group = writer_id(place.id_prefix, owner.pipeline, place.topic)

        def act(session: TopicSession, place: Place = place, group: str = group) -> None:
            claimed = claim(
                session.held(),
                owner,
                place.topic,
                marker=marker,
                begun=begun.get(group),
                is_second=group in groups,
            )
            if claimed.epoch > marker:
                ahead.add(place.topic)
            with session.transaction({group: claimed}):
                pass

        _with_topic(place, group, act, looks_first=True)
        groups.add(group)
    return sorted(ahead)


def write_topics(source: EpochInput, staged: Mapping[int, list[dict[str, Any]]]) -> None:
    """Send the records of an epoch to their topics, unless these have them.

    Args:
        source: The epoch that is about to be closed, in a run that has claimed its topics.
        staged: By sink: what each task's `stage` returned.

    Raises:
        Fenced, StateLost: As `fence.advance`.
        StateLost: A topic has the epoch with other records.
        StagedWritesGone: Records that were staged are no longer there.
        SinkRefused, SinkUnavailable: As the brokers say.
    """
    spec, epoch = source.spec, source.epoch
    owner = Owner(spec.pipeline_id, spec.pipeline, spec.run)
    for place, numbers in _topics(spec.sinks).items():
        group = writer_id(place.id_prefix, owner.pipeline, place.topic)
        parts = [each for number in numbers for each in staged.get(number, [])]
        sinks = [spec.sinks[number].table for number in numbers]

        def act(
            session: TopicSession,
            place: Place = place,
            group: str = group,
            parts: Sequence[dict[str, Any]] = parts,
            sinks: Sequence[str] = sinks,
        ) -> None:
            moved = advance(session.held(), owner, place.topic, epoch)
            if moved is None:
                source.require_same(sinks[0], f"topic {place.topic}")
                return
            # A transaction may have been begun, from here on.
            key = slot_key(spec.pipeline, KAFKA_NAME)
            source.note(sinks, ("HSET", key, group, str(epoch)))
            with session.transaction({group: moved}):
                _send(session, spec, parts, epoch)

        _with_kept(place, group, f"{owner.pipeline_id} {owner.run}", act)


def adopt_topics(
    owner: Owner,
    sinks: Sequence[SinkSpec],
    *,
    epoch: int,
    origin: str,
    origins_name: str,
    begun: Set[str] = frozenset(),
) -> None:
    """Let a restored pipeline go on with its topics; see `fence.adopt`.

    Args:
        owner: The restored pipeline; its run is 0.
        sinks: Of all connectors; those of Kafka are taken.
        epoch: The savepoint's.
        origin: The id of the pipeline whose savepoint it is.
        origins_name: Its name.
        begun: Names of sinks that it did not have: their topics need not be known.

    Raises:
        SavepointMismatch: A topic is of another epoch than the savepoint.
        SinkRefused, SinkUnavailable: As the brokers say.
    """
    if not epoch:
        return
    for place, numbers in _topics(sinks).items():
        is_new = all(sinks[number].table in begun for number in numbers)
        mine = writer_id(place.id_prefix, owner.pipeline, place.topic)
        theirs = writer_id(place.id_prefix, origins_name, place.topic)

        def act(
            session: TopicSession,
            place: Place = place,
            mine: str = mine,
            theirs: str = theirs,
            is_new: bool = is_new,
        ) -> None:
            held = session.held(mine)
            if held is not None and held.pipeline_id == owner.pipeline_id:
                # A restore that goes on.
                return
            origins = session.held()
            following = origins.successor if origins is not None else ""
            successor = _taken(place, following) if following else None
            retired = adopt(
                origins,
                place.topic,
                origin=origin,
                epoch=epoch,
                is_unwritten=lambda: is_new or session.is_unwritten(),
                successor=successor,
            )
            retired = replace(retired, successor=mine)
            kept = {theirs: retired}
            if successor is not None:
                # It is taken back.
                kept[following] = replace(successor, run=RETIRED, successor=mine)
            # Of one name there is one group, and the new place takes the other's.
            kept[mine] = Held(owner.pipeline_id, owner.run, epoch, origin=origin)
            with session.transaction(kept):
                pass

        # With the other one's transactional id: from here on it writes nothing any more.
        _with_topic(place, theirs, act, looks_first=True)


def _taken(place: Place, group: str) -> Held | None:
    """What a group says, whose writer writes nothing any more from here on."""
    with contextlib.closing(_session(place, group)) as session:
        session.take()
        return session.held()


def _topics(sinks: Sequence[SinkSpec]) -> dict[Place, list[int]]:
    """The topics, each with the numbers of the sinks that write it."""
    found: dict[Place, list[int]] = {}
    for number, spec in enumerate(sinks):
        if spec.connector in CONNECTORS:
            found.setdefault(place_of(spec.options), []).append(number)
    return found


def _with_topic(
    place: Place, group: str, act: Callable[[TopicSession], None], *, looks_first: bool = False
) -> None:
    """Do something as the only writer of a topic, in a session that ends with it."""
    for _ in range(_TAKEOVERS_MAX):
        with contextlib.closing(_session(place, group)) as session:
            if looks_first:
                session.partitions()
            if _is_done(session, act, takes=True):
                return
    raise _never_ours(place)


def _with_kept(place: Place, group: str, run: str, act: Callable[[TopicSession], None]) -> None:
    """Do something as the only writer of a topic, in the session that the epoch before has left.

    A session takes its transactional id once: that is slow, and what an epoch needs is that nobody
    has taken it since. Whoever finds that somebody has looks again: one that is of an earlier run
    will find that out, and one that is of a later run has left word of it.
    """
    for _ in range(_TAKEOVERS_MAX):
        kept_run, session = _kept.pop((place, group), ("", None))
        takes = session is None or kept_run != run
        if session is None or takes:
            if session is not None:
                session.close()
            session = _session(place, group)
        is_done = False
        try:
            is_done = _is_done(session, act, takes=takes)
        finally:
            if not is_done:
                session.close()
        if is_done:
            _keep((place, group), run, session)
            return
    raise _never_ours(place)


def _never_ours(place: Place) -> SinkUnavailable:
    return SinkUnavailable(
        f"others keep taking topic {place.topic}, or an epoch takes longer than its transaction may"
    )


def _is_done(session: TopicSession, act: Callable[[TopicSession], None], *, takes: bool) -> bool:
    """Do something in a session; False if another one has taken the transactional id."""
    from service.runtime.sinks.kafka.session import TakenOver

    try:
        if takes:
            session.take()
        act(session)
    except TakenOver:
        return False
    return True


def _session(place: Place, group: str) -> TopicSession:
    try:
        from service.runtime.sinks.kafka.session import TopicSession
    except ModuleNotFoundError as error:
        # The service has it, else the plan would not have been taken; Spark's side may lack it.
        raise SinkRefused(
            f"a Kafka sink needs the Python module {error.name}, also beside Spark"
        ) from None
    return TopicSession(place, group)


_kept: dict[tuple[Place, str], tuple[str, TopicSession]] = {}
"""By topic and group: the session of the last epoch, and of which run it was; oldest first."""


def _keep(key: tuple[Place, str], run: str, session: TopicSession) -> None:
    _kept[key] = (run, session)
    while len(_kept) > _KEPT_MAX:
        _, oldest = _kept.pop(next(iter(_kept)))
        oldest.close()


def _send(
    session: TopicSession, spec: WriterSpec, parts: Sequence[Mapping[str, Any]], epoch: int
) -> None:
    """Take away what is gone, then bring what is: a key that moved between tasks stays."""
    for part in parts:
        for item in removals_of(spec, part):
            keys, *told = item.columns
            for key, beside in zip(keys.to_pylist(), _beside(part, told, epoch), strict=False):
                session.send(key, None, None, **beside)
    count = 0
    for part in parts:
        for item in rows_of(spec, part):
            keys, values, *told = item.columns
            partition = None
            if keys.null_count:
                # Without a key a task's records stay together, and in their order.
                count = count or session.partitions()
                partition = part["partition"] % count
            rows = zip(keys.to_pylist(), values.to_pylist(), strict=True)
            for (key, value), beside in zip(rows, _beside(part, told, epoch), strict=False):
                session.send(key, value, partition, **beside)


def _beside(
    part: Mapping[str, Any], told: Sequence[pa.ChunkedArray], epoch: int
) -> Iterable[dict[str, Any]]:
    """What each record says beside key and value; without end if its row says nothing."""
    found = told_by(part["told"], told)
    if not (name := part["epoch_header"]):
        return found
    header = (name, str(epoch).encode())
    return ({**each, "headers": [*each.get("headers", ()), header]} for each in found)
