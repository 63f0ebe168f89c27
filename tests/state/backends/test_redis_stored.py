"""What the Redis backend makes of things in Redis that it did not write, or that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest

from state.backends import names
from state.backends.interface import EpochStamp, HashGet, HashPut
from state.backends.names import (
    every_key_pattern,
    key_group_prefix,
    slot_prefix,
)
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport, transport_of
from state.epochs import EpochLedger
from state.errors import (
    Fenced,
    FormatVersionMismatch,
    StateCorrupt,
    StateLost,
)
from state.savepoint import StateSaver

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

NODE = "1_count"
T = key_group_prefix("orders", NODE, 0)
META, PENDING = T + b"meta", T + b"pending"


def _pending_epoch(transport: RedisTransport) -> tuple[EpochLedger, RedisBackend]:
    """A pipeline whose first epoch is closed, and pending in key group 0."""
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    backend.begin(NODE, stamp, [0]).commit({0: [HashPut(b"h", [b"a", b"1"])]})
    ledger.close_epoch(stamp, {}, [])
    return ledger, backend


DAMAGES: dict[str, Callable[[redis.Redis], object]] = {
    "meta of another type": lambda client: (client.delete(META), client.set(META, "x")),
    "meta without format": lambda client: client.hdel(META, "format"),
    "meta without epoch": lambda client: client.hset(META, "epoch", "many"),
    "pending gone": lambda client: client.delete(PENDING),
    "pending of another type": lambda client: (client.delete(PENDING), client.set(PENDING, "x")),
    "pending longer": lambda client: client.rpush(PENDING, "x"),
    "pending no msgpack": lambda client: client.lset(PENDING, 0, b"\xc1garbage"),
    "pending no commands": lambda client: client.lset(PENDING, 0, msgpack.packb([[1, 2]])),
    "pending nameless commands": lambda client: client.lset(
        PENDING, 0, msgpack.packb([[b"flush all", b""]], use_bin_type=False)
    ),
    "pending lacks a value": lambda client: client.lset(
        PENDING, 0, msgpack.packb([[b"HSET", b"h", b"a", False]], use_bin_type=False)
    ),
    "pending lacks a part": lambda client: client.lset(
        PENDING, 0, msgpack.packb([[b"TAKE", b"h", 1]], use_bin_type=False)
    ),
    "state of another type": lambda client: client.set(T + b"h", "x"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_is_reported_and_left_alone(
    redis_client: redis.Redis, transport: RedisTransport, damage: str
) -> None:
    ledger, backend = _pending_epoch(transport)
    DAMAGES[damage](redis_client)
    before = {key: redis_client.dump(key) for key in redis_client.scan_iter() if T in key}

    with pytest.raises(StateCorrupt):
        backend.begin(NODE, EpochStamp(2, 1, 0), [0]).fetch([])
    with pytest.raises(StateCorrupt):
        ledger.promote_all([NODE], 1)
    with pytest.raises(StateCorrupt):
        ledger.open_run([NODE], 1)

    assert {key: redis_client.dump(key) for key in redis_client.scan_iter() if T in key} == before


@pytest.mark.parametrize(("number", "whose"), [(1, "an older"), (6, "a newer")])
def test_another_format_is_refused_with_both_numbers(
    redis_client: redis.Redis, transport: RedisTransport, number: int, whose: str
) -> None:
    ledger, backend = _pending_epoch(transport)
    redis_client.hset(META, "format", number)

    _assert_refused(
        redis_client,
        ledger,
        backend,
        f"has format {number}, written by {whose} version; this version reads formats 2 to 5",
    )


def test_a_command_of_another_version_is_refused_by_name(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, backend = _pending_epoch(transport)
    redis_client.lset(PENDING, 0, msgpack.packb([[b"HEXPIRE", b"h"]], use_bin_type=False))

    _assert_refused(redis_client, ledger, backend, "hold a command HEXPIRE, which this version")


def _assert_refused(
    client: redis.Redis, ledger: EpochLedger, backend: RedisBackend, told: str
) -> None:
    """Whoever would carry out what waits says what it found and what to do, and touches nothing."""
    before = {key: client.dump(key) for key in client.scan_iter() if T in key}
    for act in (
        lambda: backend.begin(NODE, EpochStamp(2, 1, 0), [0]).fetch([]),
        lambda: backend.begin(NODE, EpochStamp(2, 2, 0), [0]).fetch([]),
        lambda: ledger.promote_all([NODE], 1),
        lambda: ledger.open_run([NODE], 1),
        lambda: StateSaver(transport_of(client), "orders", {NODE: []}, 1),
    ):
        with pytest.raises(FormatVersionMismatch, match=told) as caught:
            act()
        assert "nothing was overwritten: go on with the version that wrote it" in caught.value.hint
    assert {key: client.dump(key) for key in client.scan_iter() if T in key} == before


def test_a_marker_that_is_none_is_reported(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, _ = _pending_epoch(transport)
    redis_client.hdel(slot_prefix("orders") + b"marker", "offsets")

    with pytest.raises(StateCorrupt):
        ledger.marker()


def test_a_key_group_ahead_of_the_marker_is_lost_state(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """The slot came back older than the key group: possible where they are on two servers."""
    ledger, backend = _pending_epoch(transport)
    ledger.promote_all([NODE], 1)
    redis_client.delete(slot_prefix("orders") + b"marker")

    with pytest.raises(StateLost, match=r"epoch 1\b.*marker is 0"):
        backend.begin(NODE, EpochStamp(1, 1, 0), [0]).fetch([])
    with pytest.raises(StateLost, match=r"epoch 1\b.*marker is 0"):
        ledger.open_run([NODE], 1)


def test_a_key_group_that_is_gone_is_lost_state(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    _, backend = _pending_epoch(transport)
    transaction = backend.begin(NODE, EpochStamp(2, 1, 0), [0])
    transaction.fetch([])
    redis_client.delete(META, PENDING, T + b"h")

    with pytest.raises(StateLost, match=r"has nothing"):
        transaction.commit({0: [HashPut(b"h", [b"a", b"2"])]})


def test_two_runs_opened_at_once_leave_the_newer_one(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, _ = _pending_epoch(transport)
    redis_client.hset(META, "run", 99)

    with pytest.raises(Fenced, match="run 99"):
        ledger.open_run([NODE], 1)


def test_every_key_group_is_marked_by_a_new_run(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """So that an orphan of an earlier run finds none where it could begin."""
    EpochLedger(transport, "orders").open_run([NODE, "2_join"], 1_500)

    assert len(list(redis_client.scan_iter("*:meta", count=10_000))) == 3_000


@pytest.mark.parametrize("other", ["a-b", "ab", "b", "a.", "b-a", "a*"])
def test_dropping_leaves_other_pipelines_alone(
    redis_client: redis.Redis, transport: RedisTransport, other: str
) -> None:
    for pipeline in ("a", other):
        ledger = EpochLedger(transport, pipeline)
        stamp = EpochStamp(1, ledger.open_run([NODE], 2), 0)
        ledger.close_epoch(stamp, {}, [HashPut(b"table:orders", [b"a", b"1"])])
    before = set(redis_client.scan_iter(every_key_pattern(other)))

    EpochLedger(transport, "a").drop()

    assert set(redis_client.scan_iter()) == before | {slot_prefix("a") + b"run"}
    assert len(before) == 5


def test_dropping_a_name_full_of_glob_characters_leaves_what_it_would_match(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    for pipeline in ("[a-z]*", "*", "?", "a", "\\a"):
        EpochLedger(transport, pipeline).open_run([NODE], 1)

    for pipeline in ("[a-z]*", "*", "?", "\\a"):
        EpochLedger(transport, pipeline).drop()

    assert redis_client.exists(key_group_prefix("a", NODE, 0) + b"meta")
    assert len(list(redis_client.scan_iter("*:meta"))) == 1


def test_many_keys_are_dropped(redis_client: redis.Redis, transport: RedisTransport) -> None:
    with redis_client.pipeline(transaction=False) as pipe:
        for number in range(5_000):
            pipe.set(slot_prefix("orders") + b"x%d" % number, "1")
        pipe.execute()

    EpochLedger(transport, "orders").drop()

    # A scan may give a key twice while the table shrinks.
    assert set(redis_client.scan_iter()) == {slot_prefix("orders") + b"run"}


@pytest.mark.parametrize("bad", ["", "a:b", "a{", "a}"])
def test_names_that_would_be_another_pipelines_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        slot_prefix(bad)
    with pytest.raises(ValueError, match="no name"):
        key_group_prefix("a", bad, 0)


def test_state_is_readable_for_people(redis_client: redis.Redis, transport: RedisTransport) -> None:
    """The view that the module's documentation draws."""
    ledger, backend = _pending_epoch(transport)

    assert redis_client.hgetall(META) == {
        b"format": b"4",
        b"epoch": b"0",
        b"pending": b"1",
        b"chunks": b"1",
        b"run": b"1",
    }
    assert backend.begin(NODE, EpochStamp(2, 1, 0), [0]).fetch([HashGet(0, b"h", [b"a"])])
    assert redis_client.hgetall(META) == {b"format": b"4", b"epoch": b"1", b"run": b"1"}
    assert redis_client.hget(T + b"h", "a") == b"1"
    assert redis_client.hget(slot_prefix("orders") + b"marker", "epoch") == b"1"
    assert ledger.marker().epoch == 1


def test_the_formats_are_the_same_on_both_sides() -> None:
    source = (Path(names.__file__).parent / "tailrace.lua").read_text()

    assert f"local FORMAT = '{names.STATE_FORMAT}'" in source
    assert f"local FORMAT_WITH_PARTS = '{names.STATE_FORMAT_WITH_PARTS}'" in source
