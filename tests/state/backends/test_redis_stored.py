"""What the Redis backend makes of things in Redis that it did not write, or that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest

from state.backends import names
from state.backends.interface import EpochStamp, HashGet, HashPut, HashReplace
from state.backends.names import (
    every_key_pattern,
    key_group_prefix,
    offered_names,
    slot_prefix,
)
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport, transport_of
from state.epochs import EpochLedger
from state.errors import (
    Fenced,
    FormatVersionMismatch,
    InvariantViolation,
    StateCorrupt,
    StateLost,
)
from state.savepoint import StateSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

NODE = "1_count"
T = key_group_prefix("orders", NODE, 0)
META, PENDING = T + b"meta", T + b"pending"


@pytest.fixture
def transport(redis_client: redis.Redis) -> Iterator[RedisTransport]:
    transport = RedisTransport(redis_client)
    yield transport
    transport.close()


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


def test_a_version_without_parts_refuses_them_by_name(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """Rolled back while parts wait: it knows their format by number only, and reads nothing else.

    That version asks for one format, now 4, and refuses any other; so a key group has another one
    for as long as parts wait, whoever stores, promotes or discards them.
    """
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    assert redis_client.hget(META, "format") == b"4"
    writes = {0: [HashReplace(b"h", [b"a", LONG])]}

    backend.begin(NODE, stamp, [0]).commit(writes)
    assert redis_client.hget(META, "format") == b"5"
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    assert redis_client.hget(META, "format") == b"4"
    backend.begin(NODE, stamp, [0]).commit(writes)
    ledger.close_epoch(stamp, {}, [])
    assert redis_client.hget(META, "format") == b"5"
    ledger.promote_all([NODE], 1)

    assert redis_client.hget(META, "format") == b"4"
    assert redis_client.hgetall(T + b"h") == {b"a": LONG}


@pytest.mark.parametrize(("parts", "waiting"), [(0, b"2"), (1, b"3")])
def test_what_a_version_without_segments_left_is_read_on(
    redis_client: redis.Redis, transport: RedisTransport, parts: int, waiting: bytes
) -> None:
    """Whoever looks promotes in its format, so that its run goes on; a run of ours has ours."""
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    redis_client.hset(META, "format", "2")
    writes = [HashPut(b"i", [b"a", b"1"]), *[HashReplace(b"h", [b"a", LONG])] * parts]
    backend.begin(NODE, stamp, [0]).commit({0: writes})
    assert redis_client.hget(META, "format") == waiting
    ledger.close_epoch(stamp, {}, [])

    ledger.promote_all([NODE], 1)
    assert redis_client.hget(META, "format") == b"2"
    ledger.open_run([NODE], 1)

    assert redis_client.hgetall(META) == {b"format": b"4", b"epoch": b"1", b"run": b"2"}
    assert redis_client.hgetall(T + b"i") == {b"a": b"1"}
    assert redis_client.hgetall(T + b"h") == ({b"a": LONG} if parts else {})


def test_parts_that_wait_in_the_earlier_format_are_carried_out(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """So the version before this one left them."""
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    backend.begin(NODE, stamp, [0]).commit({0: [HashReplace(b"h", [b"a", LONG])]})
    ledger.close_epoch(stamp, {}, [])
    redis_client.hset(META, "format", "2")

    ledger.open_run([NODE], 1)

    assert redis_client.hgetall(T + b"h") == {b"a": LONG}
    assert redis_client.hgetall(META) == {b"format": b"4", b"epoch": b"1", b"run": b"2"}


@pytest.mark.parametrize("parts", [0, 1])
def test_parts_that_an_older_version_left_are_no_part_of_the_next_commit(
    redis_client: redis.Redis, transport: RedisTransport, parts: int
) -> None:
    """It discards a commit by its list and number, so `parts` and the hashes may stay."""
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    for number in (1, 2):
        redis_client.hset(PENDING + b"#%d" % number, "old", LONG)
    redis_client.hset(META, "parts", "2")
    writes = {0: [HashPut(b"i", [b"a", b"1"]), *[HashReplace(b"h", [b"a", LONG])] * parts]}

    for _ in range(2):
        # The second one is compared with the first, and is the same.
        backend.begin(NODE, stamp, [0]).commit(writes)
    assert redis_client.exists(PENDING + b"#1", PENDING + b"#2") == parts
    ledger.close_epoch(stamp, {}, [])
    ledger.promote_all([NODE], 1)

    assert redis_client.hgetall(T + b"h") == ({b"a": LONG} if parts else {})
    assert redis_client.hgetall(META) == {b"format": b"4", b"epoch": b"1", b"run": b"1"}
    assert redis_client.exists(PENDING, PENDING + b"#1", PENDING + b"#2") == 0


def test_a_new_run_removes_parts_that_an_older_version_left(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger = EpochLedger(transport, "orders")
    ledger.open_run([NODE], 1)
    redis_client.hset(PENDING + b"#1", "old", LONG)
    redis_client.hset(META, "parts", "1")

    ledger.open_run([NODE], 1)

    assert redis_client.hgetall(META) == {b"format": b"4", b"epoch": b"0", b"run": b"2"}
    assert redis_client.exists(PENDING + b"#1") == 0


LONG = b"x" * 10_000


def test_long_values_go_beside_their_chunk_and_leave_nothing_behind(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    pairs = [b"a", LONG, b"b", b"1", b"c", b"", b"d", LONG + b"d"]

    redis_client.function_flush()
    backend.begin(NODE, stamp, [0]).commit({0: [HashPut(b"h", pairs), HashPut(b"i", [b"a", b"2"])]})

    skeleton, *values = redis_client.lrange(PENDING, 0, -1)
    assert values == [LONG, LONG + b"d"]
    assert len(skeleton) < 100
    assert not redis_client.exists(T + b"offered")
    # Another attempt is compared with it, byte by byte.
    backend.begin(NODE, stamp, [0]).commit({0: [HashPut(b"h", pairs), HashPut(b"i", [b"a", b"2"])]})
    other = backend.begin(NODE, stamp, [0])
    with pytest.raises(InvariantViolation, match=r"wrote key group 0 .* differently"):
        other.commit({0: [HashPut(b"h", [b"a", LONG + b"e"])]})
    assert not redis_client.exists(T + b"offered")
    ledger.close_epoch(stamp, {}, [])
    ledger.promote_all([NODE], 1)
    assert redis_client.hgetall(T + b"h") == dict(zip(pairs[0::2], pairs[1::2], strict=True))
    assert redis_client.hgetall(T + b"i") == {b"a": b"2"}


def test_a_hash_that_replaces_another_is_renamed_and_leaves_nothing_behind(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    pairs = [b"a", LONG, b"b", b"1"]
    redis_client.hset(T + b"h", "gone", "1")

    redis_client.function_flush()
    backend.begin(NODE, stamp, [0]).commit({0: [HashReplace(b"h", pairs)]})

    (chunk,) = redis_client.lrange(PENDING, 0, -1)
    assert chunk == msgpack.packb([[b"TAKE", b"h", 1]], use_bin_type=False)
    part = {b"a": LONG, b"b": b"1"}
    assert redis_client.hgetall(PENDING + b"#1") == part
    assert redis_client.hget(META, "parts") == b"1"
    # Another attempt is compared with it, field by field.
    backend.begin(NODE, stamp, [0]).commit({0: [HashReplace(b"h", pairs[2:] + pairs[:2])]})
    for other in ([b"a", LONG], [b"a", LONG, b"c", b"1"], [b"a", LONG, b"b", b"2"]):
        with pytest.raises(InvariantViolation, match=r"wrote key group 0 .* differently"):
            backend.begin(NODE, stamp, [0]).commit({0: [HashReplace(b"h", other)]})
    assert not redis_client.exists(*offered_names(T))
    ledger.close_epoch(stamp, {}, [])
    ledger.promote_all([NODE], 1)
    assert redis_client.hgetall(T + b"h") == part
    assert not redis_client.exists(PENDING, PENDING + b"#1")
    assert not redis_client.hexists(META, "parts")


def test_a_new_run_discards_the_parts_of_what_was_not_closed(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    stamp = EpochStamp(1, ledger.open_run([NODE], 1), 0)
    writes = [HashReplace(name, [b"a", LONG]) for name in (b"h", b"i")]
    backend.begin(NODE, stamp, [0]).commit({0: writes})
    assert redis_client.exists(PENDING + b"#1", PENDING + b"#2") == 2

    ledger.open_run([NODE], 1)

    left = [each for each in redis_client.scan_iter() if T in each]
    assert left == [META]


def test_a_fenced_commit_of_long_values_leaves_nothing_behind(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    ledger, backend = EpochLedger(transport, "orders"), RedisBackend(transport, "orders")
    orphan = backend.begin(NODE, EpochStamp(1, ledger.open_run([NODE], 1), 0), [0])
    orphan.fetch([])
    ledger.open_run([NODE], 1)

    with pytest.raises(Fenced):
        orphan.commit({0: [HashPut(b"h", [b"a", LONG]), HashReplace(b"i", [b"a", LONG])]})

    assert not redis_client.exists(*offered_names(T), PENDING, PENDING + b"#1", T + b"h", T + b"i")


def test_a_new_run_removes_what_a_commit_brought_that_never_came_to_its_end(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """So ends a worker that dies where the function of its transaction was not loaded yet."""
    offered = [key_group_prefix("orders", NODE, number) + b"offered" for number in range(2)]
    of_others = key_group_prefix("orders", "2_other", 0) + b"offered"
    for each in (*offered, of_others):
        redis_client.rpush(each, LONG)
    parts = [key_group_prefix("orders", NODE, 2) + b"offered#%d" % each for each in (1, 16)]
    for each in parts:
        redis_client.hset(each, "a", LONG)

    EpochLedger(transport, "orders").open_run([NODE], 3)

    assert redis_client.exists(*offered, *parts) == 0
    assert redis_client.exists(of_others) == 1


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
