"""What closing an epoch leaves: files of sinks that share a folder, and a time that only grows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pytest

from operators.wire import EPOCH_TIME, NoteSum, WorkerError
from service.runtime.dataflow_errors import SourceSplit
from service.runtime.sinks.commit import EpochParts, close
from service.runtime.sinks.owner import FOLDER_OWNER
from service.runtime.sinks.spec import SinkSpec, WriterSpec
from service.runtime.sinks.tables import open_sink
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from pathlib import Path

    import redis


def file_sink(node: int, path: str, form: str = "json") -> SinkSpec:
    options = {"path": path, "format": form}
    return SinkSpec(node, f"t{node}", "filesystem", ("k",), ("STRING",), (), "append", options)


SINKS = (file_sink(3, "out"), file_sink(4, "elsewhere"), file_sink(5, "./out"), file_sink(6, "out"))


@pytest.fixture
def writer(redis_client: redis.Redis, tmp_path: Path) -> WriterSpec:
    port = redis_client.connection_pool.connection_kwargs["port"]
    run = EpochLedger(redis_client, "p").open_run([], 1)
    return WriterSpec("p", run, f"redis://127.0.0.1:{port}/0", None, str(tmp_path), SINKS)


def written(writer: WriterSpec, epoch: int, *wrote: tuple[int, int], time_ms: int = 7) -> None:
    """Close an epoch in which these sinks, in these partitions, wrote a row of their numbers."""
    parts = EpochParts(NoteSum(), time_ms=time_ms)
    for number, partition in wrote:
        row = [pa.array([f"{epoch} {number} {partition}"])]
        # A task has one attempt's name for all of its sinks.
        staged = open_sink(writer, number).stage(
            epoch, partition, f"a{partition}", row, np.zeros(1, np.int8)
        )
        parts.staged.setdefault(number, []).append(staged)
        parts.rows[number] = parts.rows.get(number, 0) + 1
    close(writer, epoch, parts)


def rows_in(folder: Path) -> list[str]:
    return sorted(
        orjson.loads(line)["k"]
        for each in folder.glob("part-*")
        for line in each.read_bytes().splitlines()
    )


def test_sinks_of_one_folder_keep_each_others_rows(writer: WriterSpec, tmp_path: Path) -> None:
    written(writer, 1, (0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (2, 1))
    written(writer, 2, (2, 0))
    written(writer, 3, (0, 0))

    assert rows_in(tmp_path / "out") == [
        "1 0 0",
        "1 0 1",
        "1 2 0",
        "1 2 1",
        "1 3 0",
        "2 2 0",
        "3 0 0",
    ]
    assert rows_in(tmp_path / "elsewhere") == ["1 1 0"]
    manifest = orjson.loads((tmp_path / "out/_committed-0000000001").read_bytes())
    assert sum(each["rows"] for each in manifest["files"]) == 5
    assert not list((tmp_path / "out/.staging").iterdir())


def test_an_epoch_that_runs_again_leaves_one_set_of_their_files(
    writer: WriterSpec, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """The driver died once the files were in place, before Redis was told."""
    ledger = EpochLedger(redis_client, "p")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EpochLedger, "close_epoch", _die)
        with pytest.raises(ZeroDivisionError):
            written(writer, 1, (0, 0), (2, 0), (2, 1))
    again = replace(writer, run=ledger.open_run([], 1))

    written(again, 1, (0, 0), (2, 0))

    assert rows_in(tmp_path / "out") == ["1 0 0", "1 2 0"]


def test_a_run_whose_folder_another_pipeline_has_by_now_writes_nothing(
    writer: WriterSpec, tmp_path: Path
) -> None:
    """One that was restored from its savepoint while it ran: epochs of both have one number."""
    first = replace(writer, pipeline_id="id-p")
    written(first, 1, (0, 0))
    claim = {"pipeline": "restored", "id": "id-r"}
    (tmp_path / "out" / FOLDER_OWNER).write_bytes(orjson.dumps(claim))

    told = r"\[tailrace:sink-taken-over\] pipeline restored has taken over the folder of sink t3"
    with pytest.raises(WorkerError, match=told):
        written(first, 2, (0, 0))

    assert rows_in(tmp_path / "out") == ["1 0 0"]


def _die(*_: object) -> None:
    raise ZeroDivisionError


def test_the_time_of_epochs_does_not_go_back(writer: WriterSpec, redis_client: redis.Redis) -> None:
    """A source whose clock was set back is read after one that noticed nothing."""
    for epoch, time_ms in enumerate((1_000, 400, 1_200), start=1):
        written(writer, epoch, time_ms=time_ms)

    marker = EpochLedger(redis_client, "p").marker()
    told = redis_client.xrange("tailrace:{p}:progress")
    assert orjson.loads(marker.offsets)[EPOCH_TIME] == 1_200
    times = [orjson.loads(fields[b"progress"])["time_ms"] for _, fields in told]
    assert times == [1_000, 1_000, 1_200]


def test_an_epoch_that_an_earlier_version_closed_is_closed(
    writer: WriterSpec, redis_client: redis.Redis
) -> None:
    """Spark missed the note of it; its offsets have no time."""
    ledger = EpochLedger(redis_client, "p")
    redis_client.hset(
        "tailrace:{p}:marker",
        mapping={"epoch": 1, "run": writer.run, "closed_ms": 1, "offsets": "{}"},
    )

    written(writer, 1)

    assert (ledger.marker().epoch, ledger.marker().offsets) == (1, "{}")


def test_an_epoch_that_reads_a_table_to_two_ends_shows_nothing(
    writer: WriterSpec, redis_client: redis.Redis, tmp_path: Path
) -> None:
    offsets = tmp_path / "checkpoint/offsets"
    offsets.mkdir(parents=True)
    ends = ['{"at":4,"tick":1}', '{"at":5,"tick":1}']
    (offsets / "0").write_text("\n".join(["v1", "{}", *ends]))
    split = replace(writer, checkpoint=str(offsets.parent), streams=("s", "s"))

    with pytest.raises(SourceSplit, match=r"^\[tailrace:source-split\] s: "):
        written(split, 1, (0, 0))

    assert EpochLedger(redis_client, "p").marker().epoch == 0
    assert rows_in(tmp_path / "out") == []
