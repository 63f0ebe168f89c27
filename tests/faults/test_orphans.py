"""What lives on of a pipeline while it is deleted, or while another one takes its name.

A worker whose server cannot be reached may begin and commit at any moment. At each command of a
drop and of a restore it does so; nothing of it is ever state.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import pytest

from state import epochs
from state.backends.interface import EpochStamp, HashGet, HashPut, HashScan
from state.backends.names import is_reserved, key_group_prefix, slot_prefix
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.errors import Fenced, SavepointIncomplete, StateError
from state.reader import CommittedReader
from state.savepoint import SaveOptions, StateSaver, restore_state
from state.testing.faults import FaultPlan, FaultyTransport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from state.savepoint import Manifest

NODE, GROUPS = "1_count", 2
T = key_group_prefix("orders", NODE, 0)
FILLER, KEYS_PER_SCAN = 50, 10
"""So that a drop finds its keys in several steps."""


@pytest.fixture
def transport(redis_client: redis.Redis) -> Iterator[RedisTransport]:
    transport = RedisTransport(redis_client)
    yield transport
    transport.close()


class Pipeline:
    """A pipeline under the name `orders`, and its worker, which lives on."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self.ledger = EpochLedger(transport, "orders")
        self.run = self.ledger.open_run([NODE], GROUPS)
        self.backend = RedisBackend(transport, "orders")

    def epoch(self, epoch: int, value: bytes, *, close: bool = True) -> None:
        stamp = EpochStamp(epoch, self.run, 0)
        transaction = self.backend.begin(NODE, stamp, range(GROUPS))
        transaction.fetch([])
        transaction.commit({0: [HashPut(b"h", [b"a", value])]})
        if close:
            self.ledger.close_epoch(stamp, {}, [])

    def live_on(self, epoch: int) -> None:
        """Begin an epoch and commit it, if anything lets it."""
        # Whether it is let, and how it is told, is another test's; what it may not do is looked at.
        with contextlib.suppress(StateError):
            self.epoch(epoch, b"of the orphan", close=False)


def _state(client: redis.Redis) -> dict[bytes, dict[bytes, bytes]]:
    """What is state, and would be read."""
    keys = [each for each in client.scan_iter(T + b"*") if not is_reserved(each.removeprefix(T))]
    return {each.removeprefix(T): client.hgetall(each) for each in keys}


@pytest.mark.parametrize("epoch", [1, 3])
def test_an_orphan_leaves_no_state_at_any_command_of_a_drop(
    redis_client: redis.Redis,
    transport: RedisTransport,
    monkeypatch: pytest.MonkeyPatch,
    epoch: int,
) -> None:
    monkeypatch.setattr(epochs, "_KEYS_PER_SCAN", KEYS_PER_SCAN)
    command = 1
    while True:
        redis_client.flushall()
        pipeline = Pipeline(transport)
        for number in range(1, epoch):
            pipeline.epoch(number, b"%d" % number)
        with redis_client.pipeline(transaction=False) as pipe:
            for number in range(FILLER):
                pipe.set(slot_prefix("orders") + b"x%d" % number, "1")
            pipe.execute()
        plan = FaultPlan()
        plan.visit(command, partial(pipeline.live_on, epoch))

        EpochLedger(FaultyTransport(transport, plan), "orders").drop()

        assert _state(redis_client) == {}, f"at command {command}"
        # Nor does what it left wait to become state of the next one.
        following = Pipeline(transport)
        following.epoch(1, b"new")
        following.ledger.promote_all([NODE], GROUPS)
        assert _state(redis_client) == {b"h": {b"a": b"new"}}, f"at command {command}"
        if plan.unspent:
            break
        command += 1
    assert command > FILLER // KEYS_PER_SCAN


def test_a_drop_that_another_one_has_overtaken_takes_nothing_of_the_next_pipeline(
    redis_client: redis.Redis, transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "_KEYS_PER_SCAN", KEYS_PER_SCAN)

    def overtake() -> None:
        """Another service has dropped it, and somebody has made a new one of its name."""
        EpochLedger(transport, "orders").drop()
        following = Pipeline(transport)
        following.epoch(1, b"new")
        following.ledger.promote_all([NODE], GROUPS)

    command = 1
    while True:
        redis_client.flushall()
        Pipeline(transport).epoch(1, b"old")
        redis_client.mset({slot_prefix("orders") + b"x%d" % n: "1" for n in range(FILLER)})
        plan = FaultPlan()
        plan.visit(command, overtake)
        ledger = EpochLedger(FaultyTransport(transport, plan), "orders")

        # Nothing was left to take where it is overtaken behind its last key.
        with contextlib.suppress(Fenced):
            ledger.drop(run=1)

        if plan.unspent:
            break
        assert _state(redis_client) == {b"h": {b"a": b"new"}}, f"at command {command}"
        assert EpochLedger(transport, "orders").marker().epoch == 1
        command += 1
    assert _state(redis_client) == {}
    assert command > FILLER // KEYS_PER_SCAN


def _saved(transport: RedisTransport, folder: Path) -> Manifest:
    """A savepoint of another pipeline, of epoch 5."""
    ledger, backend = EpochLedger(transport, "origin"), RedisBackend(transport, "origin")
    run = ledger.open_run([NODE], GROUPS)
    for epoch in range(1, 6):
        stamp = EpochStamp(epoch, run, 0)
        transaction = backend.begin(NODE, stamp, range(GROUPS))
        transaction.fetch([])
        transaction.commit({0: [HashPut(b"counters", [b"n", b"%d" % epoch])]})
        ledger.close_epoch(stamp, {}, [])
    return StateSaver(transport, "origin", {NODE: []}, GROUPS).save("s1", folder, SaveOptions())


def _restore(transport: RedisTransport, plan: FaultPlan, folder: Path, manifest: Manifest) -> None:
    restore_state(
        FaultyTransport(transport, plan),
        "orders",
        folder,
        manifest,
        wanted={NODE: []},
        max_parallelism=GROUPS,
        place=None,
        allow_non_restored_state=False,
        before_end=lambda _: None,
    )


@pytest.mark.parametrize("epoch", [1, 4, 6])
def test_an_orphan_is_no_part_of_a_restore_at_any_command_of_it(
    redis_client: redis.Redis, transport: RedisTransport, tmp_path: Path, epoch: int
) -> None:
    """It was at an epoch before the savepoint's or behind it; command 0: before the restore."""
    manifest = _saved(transport, tmp_path)
    command, is_struck = 0, True
    while is_struck:
        EpochLedger(transport, "orders").drop()
        orphan = Pipeline(transport)
        orphan.ledger.drop()
        plan = FaultPlan()
        if command:
            plan.visit(command, partial(orphan.live_on, epoch))
        else:
            orphan.live_on(epoch)

        _restore(transport, plan, tmp_path, manifest)

        is_struck = not plan.unspent
        reader = CommittedReader(redis_client, "orders")
        words = f"at command {command}"
        EpochLedger(transport, "orders").open_run([NODE], GROUPS)
        view = reader.view(NODE)
        assert view.fetch([HashScan(0, b"counters"), HashScan(0, b"h")]) == [{b"n": b"5"}, {}], (
            words
        )
        assert view.epoch == 5, words
        assert redis_client.hget(T + b"meta", "epoch") == b"5", words
        assert redis_client.hget(T + b"meta", "pending") is None, words
        reader.close()
        command += 1
    assert command > 5


def test_an_orphan_of_the_name_is_fenced_from_the_begin_of_a_restore_on(
    transport: RedisTransport, tmp_path: Path
) -> None:
    manifest = _saved(transport, tmp_path)
    orphan = Pipeline(transport)
    orphan.ledger.drop()

    def fails(_: object) -> None:
        transaction = orphan.backend.begin(NODE, EpochStamp(6, orphan.run, 0), [0])
        with pytest.raises(StateError) as caught:
            transaction.fetch([HashGet(0, b"counters", [b"n"])])
        assert caught.value.code == "state-fenced"
        raise SavepointIncomplete("enough")

    with pytest.raises(SavepointIncomplete):
        restore_state(
            transport,
            "orders",
            tmp_path,
            manifest,
            wanted={NODE: []},
            max_parallelism=GROUPS,
            place=None,
            allow_non_restored_state=False,
            before_end=fails,
        )
