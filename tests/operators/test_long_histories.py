"""Long histories in large epochs: an index that is read, and replaced, as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
import redis

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness, Step
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from state.backends.transport import RedisTransport
from state.backends.wire import SentAhead
from state.key_groups import key_group
from state.multiset.memory import HistoryMemory, Remembered
from state.multiset.strategy import Strategy
from state.multiset.text import parse_header
from state.multiset.writing import HistoryWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEC = MaterializerSpec(
    INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=None, strategy=Strategy.MAP
)
BY_ID = replace(SPEC, upsert_key=(0,))
FIRST, CHANGED, OFFSET = 1_500, 400, 700
KEY_TYPE = INTEGERS.types[1:2]
ELSEWHERE = next(
    each for each in range(2, 99) if key_group(KEY_TYPE, [each], 4) != key_group(KEY_TYPE, [1], 4)
)
"""A key in another key group than 1."""


def changes_of(kind: RowKind, numbers: range) -> list[Change]:
    return [Change(kind, (number, 1, "a")) for number in numbers]


def epochs() -> Iterator[list[Change]]:
    """Rows 0 to 1,499; then 400 more in each epoch, each followed by one that goes."""
    yield changes_of(RowKind.INSERT, range(FIRST))
    for start in range(FIRST, FIRST + 4 * CHANGED, CHANGED):
        added = changes_of(RowKind.INSERT, range(start, start + CHANGED))
        gone = changes_of(RowKind.DELETE, range(start - OFFSET, start - OFFSET + CHANGED))
        yield [each for pair in zip(added, gone, strict=True) for each in pair]


def stored(client: redis.Redis, pipeline: str) -> dict[bytes, Any]:
    """All structures of the histories, by key group and name."""
    found: dict[bytes, Any] = {}
    for key in client.scan_iter(f"tailrace:{{{pipeline}:*:history*"):
        name = key.partition(pipeline.encode())[2]
        is_hash = client.type(key) == b"hash"
        found[name] = client.hgetall(key) if is_hash else client.zrange(key, 0, -1, withscores=True)
    return found


def remembered(harness: MaterializerHarness) -> Remembered:
    """What the operator remembers of the only history that it knows."""
    ((_, known),) = harness._operator._memory._held.items()
    (held,) = known.values()
    return held


def remind(harness: MaterializerHarness, held: Remembered) -> None:
    """Make the operator remember this of the history of key 1, and nothing else."""
    harness._operator._memory = HistoryMemory()
    harness._operator._memory.keep(b"[1]", held)


@pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
def test_what_an_operator_remembers_of_a_history_saves_reads_and_changes_nothing(
    redis_client: redis.Redis, spec: MaterializerSpec
) -> None:
    """A worker that has run the epoch before goes on; a new one reads, and writes the same."""
    knowing = MaterializerHarness.on_redis(spec, redis_client, pipeline="knowing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")

    for number, changes in enumerate(epochs()):
        asking.restart(spec)
        assert knowing.run(changes) == asking.run(changes)
        knew, asked = knowing.statistics[-1], asking.statistics[-1]
        assert (knew["round_trips"], asked["round_trips"]) == ((2, 4) if number else (2, 2))
        # Neither the header, the index and the order, nor blocks that are written anew in part.
        assert knew["reads"] == (0 if number else 1)
        assert asked["reads"] >= (FIRST // 32 if number else 1)
        assert knew["writes"] == asked["writes"]
        # Writes that wait are carried out when somebody looks.
        assert knowing.history((1,)) == asking.history((1,))
        assert stored(redis_client, "knowing") == stored(redis_client, "asking")

    last = FIRST + 4 * CHANGED
    live = [*range(FIRST - OFFSET), *range(last - OFFSET, last)]
    assert knowing.history((1,)) == [(number, 1, "a") for number in live]
    knowing.close()
    asking.close()


def test_all_that_is_to_be_written_is_there_before_redis_is_waited_for(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where index and blocks are remembered; a worker that knows neither reads before it writes."""
    seen: list[str] = []

    def note(owner: type, method: str) -> None:
        was = getattr(owner, method)

        def noted(*given: Any, **named: Any) -> Any:
            seen.append(method)
            return was(*given, **named)

        monkeypatch.setattr(owner, method, noted)

    note(HistoryWriter, "writes")
    note(RedisTransport, "exchange")
    note(SentAhead, "replies")
    harness = MaterializerHarness.on_redis(SPEC, redis_client)
    first, second, third, *_ = epochs()
    harness.run(first)

    seen.clear()
    harness.run(second)
    assert seen[:2] == ["writes", "replies"]
    harness.restart(SPEC)
    seen.clear()
    harness.run(third)
    assert seen.index("exchange") < seen.index("writes")
    harness.close()


def test_an_index_is_replaced_where_most_of_it_changes(redis_client: redis.Redis) -> None:
    """Whole, its lines never pass through Redis's scripts; a field that is empty goes with it."""
    harness = MaterializerHarness.on_redis(SPEC, redis_client)
    harness.run(changes_of(RowKind.INSERT, range(FIRST)))
    harness.run(changes_of(RowKind.DELETE, range(FIRST - 400)))
    waiting = list(redis_client.scan_iter("*:pending#*"))
    harness.run(changes_of(RowKind.DELETE, range(FIRST - 400, FIRST - 150)))
    harness.history((1,))

    assert len(waiting) == 1
    (index,) = redis_client.scan_iter("*:index")
    assert b"".join(redis_client.hvals(index)).count(b"\n") == 150
    assert redis_client.hlen(index) <= 150
    assert not list(redis_client.scan_iter("*:pending*"))
    harness.close()


def test_new_blocks_of_a_large_epoch_are_a_segment_and_never_pass_through_a_script(
    redis_client: redis.Redis,
) -> None:
    """They wait as a hash that is given its name; of rows only those beside what was there wait."""
    harness = MaterializerHarness.on_redis(SPEC, redis_client)
    text = "a" * 300
    for start in range(0, 4 * CHANGED, CHANGED):
        gone = range(max(0, start - CHANGED), max(0, start - CHANGED) + CHANGED if start else 0)
        harness.run(
            [
                *(Change(RowKind.INSERT, (n, 1, text)) for n in range(start, start + CHANGED)),
                *(Change(RowKind.DELETE, (n, 1, text)) for n in gone),
            ]
        )
        if start:
            (pending,) = redis_client.scan_iter("*:pending")
            waiting = sum(map(len, redis_client.lrange(pending, 0, -1)))
            parts = sorted(redis_client.scan_iter("*:pending#*"))
            held = sum(len(value) for part in parts for value in redis_client.hvals(part))
            assert len(parts) == 2
            # A row has 300 bytes; at most sixteen of them are in the block that was there.
            assert held > 300 * (CHANGED - 16)
            assert waiting < 300 * 16 + 8_192
    assert harness.history((1,)) == [(n, 1, text) for n in range(3 * CHANGED, 4 * CHANGED)]

    names = sorted(redis_client.scan_iter("*:blocks*"))
    ((_, value),) = redis_client.hgetall(names[0].partition(b":[1]")[0]).items()
    # Entry 1,201, the first that is left, is in the last block of the third epoch.
    assert parse_header(value).segments == (51, 76)
    assert [name.rpartition(b":")[2] for name in names] == [b"51", b"76"]
    harness.close()


def test_what_goes_from_the_oldest_entry_on_goes_by_its_segment_and_a_bound(
    redis_client: redis.Redis,
) -> None:
    """Not block by block, as what goes in between does: each would be an argument in a script."""
    harness = MaterializerHarness.on_redis(SPEC, redis_client)

    def run(added: range, gone: range) -> list[list[Any]]:
        harness.run(
            [
                *(Change(RowKind.INSERT, (n, 1, "a" * 300)) for n in added),
                *(Change(RowKind.DELETE, (n, 1, "a" * 300)) for n in gone),
            ]
        )
        (pending,) = redis_client.scan_iter("*:pending")
        commands: list[list[Any]] = msgpack.unpackb(redis_client.lindex(pending, 0), raw=True)
        return [each for each in commands if each[0] not in (b"HSET", b"ZADD", b"TAKE")]

    for start in range(0, 4 * CHANGED, CHANGED):
        run(range(start, start + CHANGED), range(0))
    # Segments begin at the blocks 26, 51 and 76; entry 831, that of row 830, ends block 51.
    first = run(range(0), range(831))
    assert first == [
        [b"HDEL", b"history:[1]:blocks", *(b"%d" % n for n in range(26))],
        [b"UNLINK", b"history:[1]:blocks:26"],
        [b"HDEL", b"history:[1]:blocks:51", b"51"],
        [b"ZREMRANGEBYSCORE", b"history:[1]:order", b"-inf", b"51"],
        [b"ZREM", b"history:[1]:stamps", *(b"%d" % n for n in range(52))],
    ]
    second = run(range(0), range(959, 991))
    gone = [b"60", b"61"]
    assert second == [
        [b"HDEL", b"history:[1]:blocks:51", *gone],
        [b"ZREM", b"history:[1]:order", *gone],
        [b"ZREM", b"history:[1]:stamps", *gone],
    ]
    assert harness.history((1,)) == [
        (n, 1, "a" * 300) for n in (*range(831, 959), *range(991, 1_600))
    ]
    harness.close()


def test_a_guess_that_is_wrong_is_of_no_consequence(redis_client: redis.Redis) -> None:
    """Between two epochs of a worker, others may have run some that changed the layout."""
    spec = replace(SPEC, strategy=Strategy.ADAPTIVE, high=1_000, low=500)
    guessing = MaterializerHarness.on_redis(spec, redis_client, pipeline="guessing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")
    for harness in (guessing, asking):
        harness.run(changes_of(RowKind.INSERT, range(FIRST)))
    guess = remembered(guessing)

    for changes in (
        changes_of(RowKind.DELETE, range(FIRST - 100)),
        changes_of(RowKind.INSERT, range(FIRST, 2 * FIRST)),
        changes_of(RowKind.DELETE, range(2 * FIRST)),
        changes_of(RowKind.INSERT, range(3 * FIRST)),
    ):
        remind(guessing, guess)
        asking.restart(spec)
        assert guessing.run(changes) == asking.run(changes)
        assert guessing.history((1,)) == asking.history((1,))
    guessing.close()
    asking.close()


@pytest.mark.parametrize("place", ["heap", "redis"])
def test_what_is_remembered_is_given_up_where_something_else_is_stored(
    redis_client: redis.Redis, place: str
) -> None:
    """Even one that claims to be what the epoch before wrote; so nothing depends on the claim."""
    if place == "redis":
        harness = MaterializerHarness.on_redis(SPEC, redis_client)
    else:
        harness = MaterializerHarness.on_heap(SPEC)
    harness.run(changes_of(RowKind.INSERT, range(FIRST)))
    held = remembered(harness)
    harness.run(changes_of(RowKind.DELETE, range(300, 700)))
    # Another key group is written to; this one stays as it is.
    harness.run([Change(RowKind.INSERT, (1, ELSEWHERE, "a"))])
    claim = held.version._replace(epoch=held.version.epoch + 2)
    remind(harness, replace(held, version=claim))

    harness.run(changes_of(RowKind.DELETE, range(600, 1_000)))

    # Blocks for nothing; then as without a memory, and the commit.
    assert harness.statistics[-1]["round_trips"] == 5
    assert harness.statistics[-1]["orphans"] == 100
    live = [*range(300), *range(1_000, FIRST)]
    assert harness.history((1,)) == [(number, 1, "a") for number in live]
    harness.close()


def test_what_another_run_wrote_is_not_gone_on_from(redis_client: redis.Redis) -> None:
    """A worker serves several runs; between two of them a pipeline may have been put back."""
    worker = MaterializerHarness.on_redis(SPEC, redis_client)
    worker.run(changes_of(RowKind.INSERT, range(FIRST)))
    operator = worker._operator
    worker.restart(SPEC)
    worker.run(changes_of(RowKind.DELETE, range(500)))
    worker._operator = operator

    worker.run(changes_of(RowKind.DELETE, range(400, 800)))

    assert worker.statistics[-1]["orphans"] == 100
    assert worker.history((1,)) == [(number, 1, "a") for number in range(800, FIRST)]
    worker.close()


@pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
def test_several_histories_are_remembered_and_taken_to_their_ends(
    redis_client: redis.Redis, spec: MaterializerSpec
) -> None:
    """Of keys together in an epoch; newest rows go first, below what is read of a history's end."""
    knowing = MaterializerHarness.on_redis(spec, redis_client, pipeline="knowing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")
    keys = (1, 2, ELSEWHERE)

    def of_keys(kind: RowKind, numbers: range) -> list[Change]:
        return [Change(kind, (number, key, "a")) for number in numbers for key in keys]

    epochs = [
        of_keys(RowKind.INSERT, range(FIRST)),
        of_keys(RowKind.DELETE, range(FIRST - 1, FIRST - 501, -1)),
        of_keys(RowKind.INSERT, range(200, 700)),
        # One that nobody knows yet; then one alone; then all of what is left.
        [*of_keys(RowKind.DELETE, range(600)), Change(RowKind.INSERT, (0, 98, "a"))],
        changes_of(RowKind.DELETE, range(900, 400, -1)),
        of_keys(RowKind.DELETE, range(FIRST)),
        of_keys(RowKind.DELETE, range(FIRST)),
    ]
    for changes in epochs:
        asking.restart(spec)
        assert knowing.run(changes) == asking.run(changes)
        for key in keys:
            assert knowing.history((key,)) == asking.history((key,))
        assert stored(redis_client, "knowing") == stored(redis_client, "asking")
    assert [each["round_trips"] for each in knowing.statistics[1:3]] == [4, 2]
    knowing.close()
    asking.close()


def test_with_a_time_to_live_the_index_is_read_and_how_long_it_is_remembered(
    redis_client: redis.Redis,
) -> None:
    """What is past its time is told by stamps, which are read anyway; the guess saves a trip."""
    spec = replace(SPEC, ttl_ms=10)
    knowing = MaterializerHarness.on_redis(spec, redis_client, pipeline="knowing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")
    for number, changes in enumerate(epochs()):
        asking.restart(spec)
        now = Step(time_ms=4 * number)
        assert knowing.run([now, *changes]) == asking.run([now, *changes])
        knew, asked = knowing.statistics[-1], asking.statistics[-1]
        assert knew["round_trips"] == asked["round_trips"] - (number > 0)
        assert knew["reads"] == asked["reads"]
        assert knowing.history((1,)) == asking.history((1,))
        assert stored(redis_client, "knowing") == stored(redis_client, "asking")
    knowing.close()
    asking.close()


def test_equal_names_in_two_databases_of_a_server_are_two_histories(
    redis_client: redis.Redis,
) -> None:
    """One operator of a worker may serve both, whose runs and epochs may be equal, too."""
    port = redis_client.connection_pool.connection_kwargs["port"]
    with redis.Redis(port=port, db=1) as second:
        here = MaterializerHarness.on_redis(SPEC, redis_client)
        there = MaterializerHarness.on_redis(SPEC, second)
        assert here._run == there._run
        here.run(changes_of(RowKind.INSERT, range(FIRST)))
        there.run(changes_of(RowKind.INSERT, range(FIRST, 2 * FIRST)))
        there._operator = here._operator

        there.run(changes_of(RowKind.DELETE, range(FIRST, FIRST + 500)))

        assert there.statistics[-1]["orphans"] == 0
        assert there.history((1,)) == [(each, 1, "a") for each in range(FIRST + 500, 2 * FIRST)]
        here.close()
        there.close()
        second.flushdb()


def test_what_is_long_no_more_is_forgotten(redis_client: redis.Redis) -> None:
    """Else each epoch after it asks for an index that is gone."""
    spec = replace(SPEC, strategy=Strategy.ADAPTIVE)
    harness = MaterializerHarness.on_redis(spec, redis_client)
    few = [Change(RowKind.INSERT, (number, 1, "a")) for number in range(8)]

    for gone in (range(FIRST - 3), range(FIRST)):
        harness.run(changes_of(RowKind.INSERT, range(FIRST)))
        assert len(harness._operator._memory) == 1
        harness.run(changes_of(RowKind.DELETE, gone))
        assert len(harness._operator._memory) == 0
        harness.run(few)
        assert harness.statistics[-1]["round_trips"] == 2
        harness.run([replace(each, kind=RowKind.DELETE) for each in few])
        harness.run(changes_of(RowKind.DELETE, range(FIRST)))
    harness.close()


@pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
def test_rows_that_numbers_no_longer_tell_apart_are_told_by_digests(
    redis_client: redis.Redis, spec: MaterializerSpec
) -> None:
    """Other columns are the same in an epoch, then other ones are, then they vary; then again."""
    knowing = MaterializerHarness.on_redis(spec, redis_client, pipeline="knowing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")

    def of(kind: RowKind, numbers: range, *texts: str) -> list[Change]:
        return [Change(kind, (n, 1, texts[n % len(texts)])) for n in numbers]

    epochs = [
        of(RowKind.INSERT, range(FIRST), "a"),
        [*of(RowKind.DELETE, range(200), "a"), *of(RowKind.INSERT, range(2_000, 2_200), "a")],
        # No row of the history is like these, but by upsert key; nor are some of the next.
        [*of(RowKind.DELETE, range(200, 500), "b"), *of(RowKind.INSERT, range(100, 300), "b")],
        [*of(RowKind.DELETE, range(250, 600), "b", "a"), *of(RowKind.INSERT, range(9), "a", "c")],
        [*of(RowKind.INSERT, range(600, 900), "a"), *of(RowKind.DELETE, range(500, 800), "a")],
    ]
    for changes in epochs:
        asking.restart(spec)
        assert knowing.run(changes) == asking.run(changes)
        assert knowing.history((1,)) == asking.history((1,))
        assert knowing.statistics[-1]["orphans"] == asking.statistics[-1]["orphans"]
        assert stored(redis_client, "knowing") == stored(redis_client, "asking")
    knowing.close()
    asking.close()
