"""What Spark writes down of an epoch before it runs: `offsets/<batch>` in a query's checkpoint.

v1
{"batchWatermarkMs":0,..}      Spark's own
{"file":1,"at":0,..}           the end of each source, in the order of the query's sources
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from service.runtime.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

OF_TICKS: Final = frozenset({"tick", "time"})
"""All that an offset of ticks has; what tells of changes has a place among them, too."""


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


def last_ends(checkpoint: Path) -> list[dict[str, Any]] | None:
    """The ends in the newest record of a checkpoint, as `recorded_ends`; None if there is none.

    Raises:
        QueryFailed: It cannot be read.
    """
    folder = checkpoint / "offsets"
    try:
        if not folder.is_dir():
            return None
        batches = [int(each.name) for each in folder.iterdir() if each.name.isdecimal()]
        return recorded_ends((folder / str(max(batches))).read_text("utf-8")) if batches else None
    except OSError as error:
        raise unusable_checkpoint("read", error) from error


def unusable_checkpoint(use: str, error: OSError) -> QueryFailed:
    """What becomes of a query whose checkpoint cannot be used so; its folder may be mended."""
    return QueryFailed(
        f"the checkpoint cannot be {use}: {error.strerror}",
        code="checkpoint-unusable",
        hint="see that the service may read and write the folder of checkpoints",
    )
