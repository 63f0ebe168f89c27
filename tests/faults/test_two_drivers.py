"""Two drivers close one epoch: the one of a run that is over goes on at any moment of the other's.

Files have no transaction with Redis, and a folder does not ask who writes. Whatever the two do in
which order, what is shown in the end is whole, and that of the run which closed the epoch, as are
its manifest and the table in Redis. The two have other numbers of parts, as after a change of the
parallelism, and other rows, as after a change of a time to live.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from operators.wire import NoteSum, SourceNote, WorkerError, to_note
from service.runtime.sinks.commit import EpochParts, close
from service.runtime.sinks.filesystem import FileSink
from service.runtime.sinks.spec import SinkSpec, WriterSpec
from service.runtime.sinks.tables import open_sink
from state.epochs import EpochLedger
from state.testing.faults import FaultPlan, ProcessDied
from state.testing.stragglers import Straggler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

SINKS = (
    SinkSpec(
        3, "f", "filesystem", ("k",), ("STRING",), (), "append", {"path": "out", "format": "json"}
    ),
    SinkSpec(4, "t", "redis", ("k",), ("STRING",), (0,), "upsert"),
)
STRIDE = 3
"""Of the moments, each so manieth is played."""
TURN = threading.local()
"""The plan that what this thread does passes."""


def _through_plan(operation: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        plan: FaultPlan | None = getattr(TURN, "plan", None)
        whole = partial(operation, *given, **named)
        return whole() if plan is None else plan.step(whole)

    return call


@pytest.fixture(autouse=True)
def _watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the two do with files and with the ledger passes their plans."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for where, names in (
        (os, ("replace",)),
        (Path, ("unlink", "read_bytes", "iterdir")),
        (FileSink, ("stage",)),
        (EpochLedger, ("marker", "require_run", "close_epoch")),
    ):
        for name in names:
            monkeypatch.setattr(where, name, _through_plan(getattr(where, name)))


class Epoch:
    """An epoch over one folder and one Redis, that a run left half-done which is dead."""

    def __init__(self, client: redis.Redis, folder: Path) -> None:
        self._client = client
        self.folder = folder / "out"
        client.flushall()
        # At first there is none.
        shutil.rmtree(folder, ignore_errors=True)
        port = client.connection_pool.connection_kwargs["port"]
        self._spec = WriterSpec("p", 0, f"redis://127.0.0.1:{port}/0", None, str(folder), SINKS)
        dead = self.open_run()
        plan = FaultPlan()
        plan.visit(10, _die)
        TURN.plan = plan
        with pytest.raises(ProcessDied):
            self.run(dead, 2)
        TURN.plan = None

    def open_run(self) -> int:
        return EpochLedger(self._client, "p").open_run([], 1)

    def run(self, run: int, parts: int) -> None:
        """Stage and close, in a run whose rows have its number."""
        spec = WriterSpec(**{**_fields(self._spec), "run": run})
        notes = NoteSum()
        notes.add([to_note(SourceNote("s", 0, 1, {"at": 1}))])
        rows, kinds = [pa.array([str(run)])], np.zeros(1, np.int8)
        staged = {
            number: [
                open_sink(spec, number).stage(1, part, f"{run:02x}", rows, kinds)
                for part in range(parts)
            ]
            for number in range(len(SINKS))
            if parts
        }
        close(spec, 1, EpochParts(notes, staged, dict.fromkeys(staged, parts), time_ms=7))

    def shown(self) -> tuple[dict[str, bytes], list[str], set[bytes]]:
        """Files, those that the manifest names, and the table's rows."""
        files = {each.name: each.read_bytes() for each in self.folder.glob("part-*")}
        manifest = self.folder / "_committed-0000000001"
        named = orjson.loads(manifest.read_bytes())["files"] if manifest.exists() else []
        table = self._client.hvals("tailrace:{p}:table:t")
        return files, [each["name"] for each in named], set(table)

    def expected(self, parts: dict[int, int]) -> tuple[dict[str, bytes], list[str], set[bytes]]:
        """The same, by definition: of the run that closed the epoch."""
        run = EpochLedger(self._client, "p").marker().run
        row = b'{"k":"%d"}' % run
        names = [f"part-0000000001-{at:05}-{run:010}.jsonl" for at in range(parts[run])]
        return dict.fromkeys(names, row + b"\n"), names, {row} if names else set()


def _die() -> None:
    raise ProcessDied


def _fields(spec: WriterSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


def _late(epoch: Epoch, run: int, parts: int) -> Callable[[FaultPlan], None]:
    def call(plan: FaultPlan) -> None:
        TURN.plan = plan
        epoch.run(run, parts)

    return call


def _interleaved(
    client: redis.Redis, folder: Path, older: int, newer: int
) -> Iterator[tuple[Straggler, str]]:
    """The older run stands after each number of its steps, goes on at each of the newer one's."""
    for done in itertools.count():
        had_ended = False
        # Before the newer run begins, then at moments that differ for each number.
        for moment in itertools.chain([0], itertools.count(1 + done % STRIDE, STRIDE)):
            epoch = Epoch(client, folder)
            run = epoch.open_run()
            straggler = Straggler(_late(epoch, run, older))
            straggler.go_on(done)
            had_ended = straggler.has_ended
            if not moment:
                straggler.go_on()
            plan = TURN.plan = FaultPlan()
            plan.visit(moment, straggler.go_on)
            epoch.run(epoch.open_run(), newer)
            TURN.plan = None
            straggler.go_on()
            straggler.abandon()
            words = f"{done} before, goes on at {moment}: {straggler.error!r}"
            assert epoch.shown() == epoch.expected({run: older, run + 1: newer}), words
            yield straggler, words
            if moment > plan.passed:
                break
        if had_ended:
            return


@pytest.mark.parametrize(("older", "newer"), [(2, 1), (1, 2), (0, 1)])
def test_an_older_driver_that_goes_on_anywhere_changes_nothing(
    redis_client: redis.Redis, tmp_path: Path, older: int, newer: int
) -> None:
    ends = set()
    for straggler, words in _interleaved(redis_client, tmp_path / "files", older, newer):
        error = straggler.error
        ends.add(type(error))
        # It is told by the code of its error, or finds gone what it was to put in place.
        told = isinstance(error, WorkerError) and "[tailrace:state-fenced]" in str(error)
        assert error is None or told or isinstance(error, FileNotFoundError), words
    assert {type(None), WorkerError} <= ends
