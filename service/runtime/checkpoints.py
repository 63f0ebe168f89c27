"""What of a query's checkpoint goes into a savepoint, and what a restored one is made of.

Spark keeps in it, by batch (an epoch is a batch + 1),

    offsets/<batch>    where each source was to be read to, written before the batch runs
    commits/<batch>    that the batch is through
    sources/<n>/..     what a source of Spark's own remembers, such as where it began
    metadata           the query's id

To go on behind an epoch it needs the offsets of that epoch's batch and of the one before, and that
the batch is through. Nothing of a later batch may go along: state does not know of it.

What is hard is a query that ended between the two: our sinks have closed the epoch, and Spark has
not written its commit. Running the batch once more, as Spark would, needs its input once more,
which a restored pipeline need not have; so the commit is written here, if the batch was planned as
it was closed. It says nothing but that the
batch is through, as our queries have neither state nor watermarks of Spark's.

The id is a new one: Spark ends a query when another one of its id starts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from typing import TYPE_CHECKING, Any, Final

import orjson

from service.runtime.planned_offsets import place_in, recorded_ends
from state.errors import SavepointCorrupt, StateLost
from state.savepoint import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from state.savepoint.restore_fence import RestoreFence

FOLDER: Final = "checkpoint"
"""Where it lies in a savepoint."""
_COMMIT: Final = b'v1\n{"nextBatchWatermarkMs":0}'
_LOGS: Final = ("offsets", "commits")
_GONE: Final = "gone"
"""Stands for the number of a restore in the name of a folder that is being removed."""


def save_checkpoint(
    checkpoint: Path, folder: Path, epoch: int, places: Iterable[Mapping[str, Any]] = ()
) -> list[str]:
    """Copy what a restored query needs to go on behind an epoch.

    Args:
        checkpoint: The query's, which is over.
        folder: The savepoint's.
        epoch: The last closed one.
        places: Where that epoch had read tables to, as the marker has it.

    Returns:
        The files, relative to the savepoint's folder; none before the first epoch.

    Raises:
        StateLost: The checkpoint is of another epoch than the state.
        OSError: A file cannot be read or written.
    """
    if epoch == 0:
        return []
    batch = epoch - 1
    committed = max(_batches(checkpoint / "commits"), default=-1)
    if not (checkpoint / "offsets" / str(batch)).is_file() or not batch - 1 <= committed <= batch:
        raise StateLost(
            f"the state was closed at epoch {epoch}, but the checkpoint is at epoch {committed + 1}"
        )
    if committed < batch and not _is_recorded(checkpoint / "offsets" / str(batch), places):
        raise StateLost(
            f"the state was closed at epoch {epoch}, which the checkpoint has with other offsets"
        )
    target = folder / FOLDER
    for log in _LOGS:
        (target / log).mkdir(parents=True)
        for number in (batch - 1, batch):
            source = checkpoint / log / str(number)
            if source.is_file():
                shutil.copyfile(source, target / log / str(number))
    if committed < batch:
        (target / "commits" / str(batch)).write_bytes(_COMMIT)
    if (checkpoint / "sources").is_dir():
        shutil.copytree(checkpoint / "sources", target / "sources")
    for each in _files(target):
        _sync(each)
    return [str(each.relative_to(folder)) for each in _files(target)]


def restore_checkpoint(
    folder: Path,
    files: Sequence[str],
    checkpoint: Path,
    fence: RestoreFence,
    moved: Callable[[str], str] | None = None,
) -> None:
    """Make the checkpoint of a restored query, all at once, unless it is there.

    A restore that is made again, or is overtaken by another service, finds the one that was made
    before: nothing has run on it, or a run of the restored pipeline has, which goes on with it.

    Each restore writes into a hidden folder that has its number. It clears those of restores before
    it and no others, whenever it gets to do so: what a later one writes is never touched.

    Args:
        folder: The savepoint's.
        files: As `save_checkpoint` told; none: the query begins at its sources' beginnings.
        checkpoint: Where the query will look for it.
        fence: The restore's, which must be ours still when the checkpoint gets its name.
        moved: Makes a record of ends one of the restored query's, whose sources are others.

    Raises:
        SavepointCorrupt: A file would lie outside of it.
        SavepointMismatch: As `moved`.
        OSError: A file cannot be read or written.
        Fenced: Another restore, run or drop has begun.
        StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
    """
    if not files or checkpoint.exists():
        return
    _clear_before(checkpoint, fence.run)
    fresh = checkpoint.with_name(f".{checkpoint.name}-{fence.run}-{uuid.uuid4().hex[:8]}")
    fresh.mkdir(parents=True)
    try:
        _copy_checkpoint(folder, files, fresh, moved)
        fence.write()
        # Not over one that was made meanwhile.
        fresh.rename(checkpoint)
    except OSError:
        if not checkpoint.exists():
            fence.write()  # who has been overtaken has lost its folder, and nothing has failed
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # there if not renamed; in nobody's way
    sync_folder(checkpoint.parent)


def _clear_before(checkpoint: Path, run: int) -> None:
    """Remove the hidden folders of restores with lower numbers, dead or overtaken.

    Each loses its name first, so that an overtaken restore has all of its files when it gives the
    folder its name, or cannot. Of folders of earlier versions, which have no number, some look as
    if they had a high one, and stay.
    """
    for left in checkpoint.parent.glob(f".{checkpoint.name}-*"):
        number = left.name.removeprefix(f".{checkpoint.name}-").partition("-")[0]
        if number.isdecimal() and int(number) >= run:
            continue
        if number != _GONE:
            gone = checkpoint.with_name(f".{checkpoint.name}-{_GONE}-{uuid.uuid4().hex[:8]}")
            with contextlib.suppress(FileNotFoundError):  # just renamed, or removed
                left.rename(gone)
            left = gone
        shutil.rmtree(left, ignore_errors=True)  # what stays, the next restore removes


def _copy_checkpoint(
    folder: Path, files: Sequence[str], fresh: Path, moved: Callable[[str], str] | None
) -> None:
    for name in files:
        log = (folder / name).relative_to(folder / FOLDER).parts[0]
        if moved is not None and log == "sources":
            # By the numbers of sources; where those began that have an end nobody asks any more.
            continue
        target = fresh / (folder / name).relative_to(folder / FOLDER)
        if fresh.resolve() not in target.resolve().parents:
            raise SavepointCorrupt("the savepoint names a file outside of its checkpoint")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, target)
        if moved is not None and log == "offsets":
            target.write_text(moved(target.read_text("utf-8")), "utf-8")
    (fresh / "metadata").write_bytes(orjson.dumps({"id": str(uuid.uuid4())}))
    for each in _files(fresh):
        _sync(each)


def _is_recorded(record: Path, places: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an epoch was to be read to these places; yes where they cannot be compared.

    A record that a machine lost when it stopped may have been made anew, with what came since.
    """
    ends = [place_in(each) for each in recorded_ends(record.read_text("utf-8"))]
    told = filter(None, map(place_in, places))
    # Of Kafka the marker has what was read, which ends before what was to be.
    return not ends or all(each in ends or "topics" in each for each in told)


def _batches(folder: Path) -> Iterator[int]:
    if folder.is_dir():
        yield from (int(each.name) for each in folder.iterdir() if each.name.isdecimal())


def _files(folder: Path) -> list[Path]:
    """Files, without the checksums that a file system of Hadoop's may put beside them."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return sorted(each for each in found if not each.name.endswith(".crc"))


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
