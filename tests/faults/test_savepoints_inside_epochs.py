"""A savepoint is taken at any command of an epoch: it is of one epoch, and so is what goes on.

The query is thought to be over and is not: its server could not be reached. So the savepoint is
taken while a task begins and commits, while its epoch is closed and while it is promoted.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import pytest

from state.backends.interface import (
    ApplyStaged,
    EpochCheck,
    EpochStamp,
    HashAdd,
    HashGet,
    HashPut,
    StreamAppend,
)
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.errors import Fenced
from state.reader import CommittedReader
from state.savepoint import SaveOptions, StateSaver, restore_state
from state.testing.faults import Ahead, FaultPlan, FaultyTransport

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from state.backends.transport import Transport
    from state.savepoint import Manifest

NODE, GROUPS = "1_count", 2


def _run(transport: Transport, epoch: int, run: int, *, pipeline: str = "orders") -> None:
    """An epoch that adds one to a count of each key group, and to one in a sink's table."""
    ledger, backend = EpochLedger(transport, pipeline), RedisBackend(transport, pipeline)
    stamp = EpochStamp(epoch, run, 0)
    if ledger.check(epoch) is EpochCheck.CLOSED:
        return
    transaction = backend.begin(NODE, stamp, range(GROUPS))
    counts = transaction.expect([HashGet(each, b"counters", [b"n"]) for each in range(GROUPS)])
    now = int(counts()[0][0] or 0) + 1
    writes = [
        HashPut(b"counters", [b"n", b"%d" % now, b"long", b"%06d" % now * 1_000]),
        StreamAppend(b"orphans", [[b"key", b"x"]], 100),
    ]
    transaction.committing(dict.fromkeys(range(GROUPS), writes))()
    name = f"stage:{epoch}:{run}"
    chunks = ledger.stage(name, [HashAdd(b"table:t", b"n", 1)])
    ledger.close_epoch(stamp, {"at": epoch}, [ApplyStaged(name.encode(), chunks)])
    ledger.promote_all([NODE], GROUPS)


def _save(transport: Transport, folder: Path, saved: list[Manifest]) -> None:
    folder.mkdir()
    saver = StateSaver(transport, "orders", {NODE: []}, GROUPS)
    saved.append(saver.save("s1", folder, SaveOptions(slot={"table:t": ""})))


def _counts(client: redis.Redis, pipeline: str) -> dict[str, int]:
    """Every count there is, the epoch among them."""
    reader = CommittedReader(client, pipeline)
    view = reader.view(NODE)
    found = view.fetch([HashGet(each, b"counters", [b"n"]) for each in range(GROUPS)])
    groups = [client.xlen(f"tailrace:{{{pipeline}:{NODE}:{each}}}:orphans") for each in (0, 1)]
    told = {
        "epoch": view.epoch,
        "first": int(found[0][0]),
        "second": int(found[1][0]),
        "orphans": groups[0],
        "table": int(client.hget(f"tailrace:{{{pipeline}}}:table:t", "n") or 0),
    }
    assert groups[0] == groups[1]
    reader.close()
    return told


@pytest.mark.parametrize("ahead", [None, *Ahead])
def test_a_savepoint_at_any_command_of_an_epoch_is_of_one_epoch(
    redis_client: redis.Redis, tmp_path: Path, ahead: Ahead | None
) -> None:
    command, epochs, is_struck = 1, set(), True
    with contextlib.closing(RedisTransport(redis_client)) as transport:
        while is_struck:
            redis_client.flushall()
            folder = tmp_path / str(command)
            run = EpochLedger(transport, "orders").open_run([NODE], GROUPS)
            _run(transport, 1, run)
            saved: list[Manifest] = []
            plan = FaultPlan()
            plan.visit(command, partial(_save, transport, folder, saved))
            # A savepoint that came between fences the epoch; where it comes too late, nothing does.
            with contextlib.suppress(Fenced):
                _run(FaultyTransport(transport, plan, ahead), 2, run)
            plan.deliver()
            is_struck = bool(saved)
            if is_struck:
                (manifest,) = saved
                epochs.add(manifest.epoch)
                _assert_goes_on(redis_client, transport, folder, manifest, f"at {command}")
            command += 1
    assert command > 10
    assert epochs == {1, 2}


def _assert_goes_on(
    client: redis.Redis, transport: Transport, folder: Path, manifest: Manifest, words: str
) -> None:
    """What was restored, and what was saved, both come to the end that they would have come to."""
    restore_state(
        transport,
        "copy",
        folder,
        manifest,
        wanted={NODE: []},
        max_parallelism=GROUPS,
        place=None,
        allow_non_restored_state=False,
        before_end=lambda _: None,
    )
    for pipeline in ("copy", "orders"):
        run = EpochLedger(transport, pipeline).open_run([NODE], GROUPS)
        if pipeline == "copy":
            assert set(_counts(client, "copy").values()) == {manifest.epoch}, words
        for epoch in range(EpochLedger(transport, pipeline).marker().epoch, 4):
            if epoch:
                _run(transport, epoch, run, pipeline=pipeline)
        assert set(_counts(client, pipeline).values()) == {3}, f"{pipeline} {words}"
