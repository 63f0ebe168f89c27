"""What Spark writes down of an epoch before it runs: `offsets/<batch>` in a query's checkpoint.

v1
{"batchWatermarkMs":0,..}      Spark's own
{"file":1,"at":0,..}           the end of each source, in the order of the query's sources: of one
                               whose rows go several ways, a line for each way

All that we know of an epoch's input rests on its being one prefix of each table: the marker, what
ingress forgets, savepoints. So a table that two lines tell two ends of is refused, before the epoch
is closed, and before a query goes on from there.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from service.runtime.dataflow_errors import SourceSplit, SourceUnavailable
from service.runtime.errors import QueryFailed
from state.errors import SavepointMismatch, StateLost

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

OF_TICKS: Final = frozenset({"tick", "time"})
"""All that an offset of ticks has; what tells of changes has a place among them, too."""
_NO_END: Final = "-"
"""Spark's word for a source that has no end yet."""


def recorded_ends(text: str) -> list[dict[str, Any]]:
    """The end of each source in a record; none if one of them, or the record, is not as ours are.

    >>> recorded_ends(chr(10).join(["v1", "{}", '{"tick": 1}'])), recorded_ends("v9")
    ([{'tick': 1}], [])
    """
    version, *rest = text.split("\n")
    try:
        ends = [orjson.loads(each) for each in rest[1:]]
    except orjson.JSONDecodeError:
        # Spark writes "-" for a source that told no offset.
        return []
    return ends if version == "v1" and all(isinstance(each, dict) for each in ends) else []


def ends_by_stream(text: str, streams: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The end of each source in a record, by its name; empty where Spark has none.

    Args:
        text: The record.
        streams: The source of each line, as `LoweredPlan.streams` names them.

    Raises:
        SourceSplit: It is the record of another query, or a source has two ends.

    >>> ends_by_stream(chr(10).join(["v1", "{}", '{"at":1}', "-", '{"at":1}']), ("a", "b", "a"))
    {'a': {'at': 1}, 'b': {}}
    """
    version, *rest = text.split("\n")
    lines = rest[1:]
    if version != "v1" or len(lines) != len(streams):
        raise SourceSplit(
            f"Spark's record of an epoch has {len(lines)} streams, this query reads {len(streams)}"
        )
    found: dict[str, str] = {}
    for stream, line in zip(streams, lines, strict=True):
        if found.setdefault(stream, line) != line:
            raise SourceSplit(f"{stream}: Spark planned an epoch that reads it to two ends")
    return {stream: _end_in(line) for stream, line in found.items()}


def elsewhere(
    planned: Mapping[str, Mapping[str, Any]],
    offsets: Mapping[str, Any],
    counted_by_spark: Collection[str],
) -> list[str]:
    """The sources whose place is not the one that Spark planned.

    Args:
        planned: The ends of an epoch, by source.
        offsets: Where tables were read to by the end of it, as the marker keeps them.
        counted_by_spark: Kafka tables: what was read of these may end before what was planned.

    >>> elsewhere({"a": {"at": 1, "tick": 2}, "b": {"at": 1}}, {"a": {"at": 1}, "b": {"at": 0}}, ())
    ['b']
    """
    places = {name: place_in(end) for name, end in planned.items() if name not in counted_by_spark}
    return [
        name for name, place in places.items() if place and place != place_in(offsets.get(name, {}))
    ]


def place_in(end: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an end that tells of changes; empty where it tells of ticks alone.

    >>> place_in({"at": 4, "tick": 7, "time": 1}), place_in({"tick": 7, "time": 1})
    ({'at': 4}, {})
    """
    return {name: value for name, value in end.items() if name not in OF_TICKS}


def are_ticks_apart(ends: Sequence[dict[str, Any]]) -> bool:
    """Whether these are the ends of a source of changes, and of one for its ticks."""
    return (
        len(ends) == 2
        and not OF_TICKS.issuperset(ends[0])
        and OF_TICKS.issuperset(ends[1])
        and "time" in ends[1]
    )


class SparkRead(NamedTuple):
    """A table as Spark's query reads it."""

    key: str
    """Tells the table from others."""
    width: int
    """Of how many sources of Spark; with Kafka a source of ticks stands beside it."""


def moved_record(text: str, before: Sequence[SparkRead], after: Sequence[SparkRead]) -> str:
    """A record of one query's ends as that of another one, which reads the same tables otherwise.

    A table that was not read before has no end, and begins at its beginning.

    Raises:
        SavepointMismatch: The record is not of `before`, or a table has several ends in it.
    """
    version, metadata, *lines = text.split("\n")
    if len(lines) == 2 and [each.width for each in before] == [1]:
        # Its ticks were apart.
        ends = recorded_ends(text)
        if ends and are_ticks_apart(ends):
            lines = [orjson.dumps({**ends[0], **ends[1]}).decode()]
    if version != "v1" or len(lines) != sum(each.width for each in before):
        raise SavepointMismatch(
            "the savepoint's checkpoint has other sources than its plan",
            hint="restore with the plan that the savepoint was taken of",
        )
    known: dict[str, list[str]] = {}
    rest = iter(lines)
    for read in before:
        ends_of_read = [next(rest) for _ in range(read.width)]
        held = known.setdefault(read.key, ends_of_read)
        if [_place(each) for each in held] != [_place(each) for each in ends_of_read]:
            raise SavepointMismatch(
                "the savepoint's checkpoint has two ends of one table",
                hint="restore with the plan that the savepoint was taken of",
            )
    moved = [each for read in after for each in known.get(read.key, [_NO_END] * read.width)]
    return "\n".join([version, metadata, *moved])


def _place(line: str) -> Any:
    return line if line == _NO_END else place_in(orjson.loads(line))


def last_ends(checkpoint: Path) -> list[dict[str, Any]] | None:
    """The ends in the newest record of a checkpoint, as `recorded_ends`; None if there is none.

    Raises:
        QueryFailed: It cannot be read.
    """
    newest = max(records(checkpoint), default=None)
    return None if newest is None else recorded_ends(_read(checkpoint, newest))


def records(checkpoint: Path) -> list[int]:
    """The epochs that a checkpoint has records of, in no order.

    Raises:
        QueryFailed: It cannot be read.
    """
    folder = checkpoint / "offsets"
    try:
        if not folder.is_dir():
            return []
        return [int(each.name) + 1 for each in folder.iterdir() if each.name.isdecimal()]
    except OSError as error:
        raise unusable_checkpoint("read", error) from error


def check_checkpoint(
    checkpoint: Path,
    streams: Sequence[str],
    counted_by_spark: Collection[str],
    *,
    closed_epoch: int,
    closed_offsets: Mapping[str, Any],
) -> None:
    """See that a query of these sources goes on from a checkpoint where its state stands.

    Spark gives the lines of the newest records to sources by their order, whatever these are.

    Args:
        checkpoint: The query's; may not be there yet.
        streams: As for `ends_by_stream`.
        counted_by_spark: As for `elsewhere`.
        closed_epoch: The last closed one; 0 before the first.
        closed_offsets: Where it had read tables to, as the marker has it.

    Raises:
        SourceSplit: A record is of other sources, or of two ends of one.
        StateLost: It is of another place than the state.
        QueryFailed: It cannot be read.
    """
    known = records(checkpoint)
    for epoch in {closed_epoch, max(known, default=0)}.intersection(known):
        planned = ends_by_stream(_read(checkpoint, epoch), streams)
        if epoch == closed_epoch and elsewhere(planned, closed_offsets, counted_by_spark):
            raise StateLost(
                f"the state was closed at epoch {epoch}, which the checkpoint has with other "
                "offsets"
            )


def check_epoch_read(
    checkpoint: Path,
    epoch: int,
    streams: Sequence[str],
    counted_by_spark: Collection[str],
    offsets: Mapping[str, Any],
) -> None:
    """See, beside Spark's driver, that an epoch which is to be closed read what was planned.

    Raises:
        SourceSplit: It read a table to another end, or to two, or is planned for other sources.
        SourceUnavailable: Its record cannot be read.
    """
    try:
        text = _record(checkpoint, epoch).read_text("utf-8")
    except OSError as error:
        raise SourceUnavailable(
            f"Spark's record of epoch {epoch} cannot be read ({error.strerror})"
        ) from error
    if found := elsewhere(ends_by_stream(text, streams), offsets, counted_by_spark):
        raise SourceSplit(f"{found[0]}: an epoch did not read it to the end that Spark planned")


def _record(checkpoint: Path, epoch: int) -> Path:
    return checkpoint / "offsets" / str(epoch - 1)


def _read(checkpoint: Path, epoch: int) -> str:
    try:
        return _record(checkpoint, epoch).read_text("utf-8")
    except OSError as error:
        raise unusable_checkpoint("read", error) from error


def _end_in(line: str) -> dict[str, Any]:
    # Spark writes "-" for a source that told no offset.
    end: dict[str, Any] = {} if line == "-" else orjson.loads(line)
    return end


def unusable_checkpoint(use: str, error: OSError) -> QueryFailed:
    """What becomes of a query whose checkpoint cannot be used so; its folder may be mended."""
    return QueryFailed(
        f"the checkpoint cannot be {use}: {error.strerror}",
        code="checkpoint-unusable",
        cause=errno.errorcode.get(error.errno or 0),
        hint="see that the service may read and write the folder of checkpoints",
    )
