"""Parts of commits in Redis, and long values; also those that other versions left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack
import pytest

from state.backends.interface import EpochStamp, HashPut, HashReplace
from state.backends.names import (
    key_group_prefix,
    offered_names,
)
from state.backends.redis import RedisBackend
from state.epochs import EpochLedger
from state.errors import (
    Fenced,
    InvariantViolation,
)
from tests.state.backends.test_redis_stored import META, NODE, PENDING, T

if TYPE_CHECKING:
    import redis

    from state.backends.transport import RedisTransport


LONG = b"x" * 10_000


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
