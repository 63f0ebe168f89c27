"""Long histories in large epochs: an index that is read, and replaced, as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

SPEC = MaterializerSpec(
    INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=None, strategy=Strategy.MAP
)
BY_ID = replace(SPEC, upsert_key=(0,))
FIRST, CHANGED, OFFSET = 1_500, 400, 700


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
    """All structures of the histories, by name."""
    found: dict[bytes, Any] = {}
    for key in client.scan_iter(f"tailrace:{{{pipeline}:*:history*"):
        name = key.partition(b"}")[2]
        is_hash = client.type(key) == b"hash"
        found[name] = client.hgetall(key) if is_hash else client.zrange(key, 0, -1, withscores=True)
    return found


@pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
def test_what_an_operator_remembers_of_an_index_saves_a_round_trip_and_nothing_else(
    redis_client: redis.Redis, spec: MaterializerSpec
) -> None:
    """A worker that has run the epoch before reads ahead; a new one cannot, and writes the same."""
    knowing = MaterializerHarness.on_redis(spec, redis_client, pipeline="knowing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")

    for number, changes in enumerate(epochs()):
        asking.restart(spec)
        assert knowing.run(changes) == asking.run(changes)
        knew, asked = knowing.statistics[-1], asking.statistics[-1]
        assert knew["round_trips"] == asked["round_trips"] - (number > 0)
        assert knew["reads"] == asked["reads"]
        # Writes that wait are carried out when somebody looks.
        assert knowing.history((1,)) == asking.history((1,))
        assert stored(redis_client, "knowing") == stored(redis_client, "asking")

    last = FIRST + 4 * CHANGED
    live = [*range(FIRST - OFFSET), *range(last - OFFSET, last)]
    assert knowing.history((1,)) == [(number, 1, "a") for number in live]
    knowing.close()
    asking.close()


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


def test_a_guess_that_is_wrong_is_of_no_consequence(redis_client: redis.Redis) -> None:
    """Between two epochs of a worker, others may have run some that changed the layout."""
    spec = replace(SPEC, strategy=Strategy.ADAPTIVE, high=1_000, low=500)
    guessing = MaterializerHarness.on_redis(spec, redis_client, pipeline="guessing")
    asking = MaterializerHarness.on_redis(spec, redis_client, pipeline="asking")
    for harness in (guessing, asking):
        harness.run(changes_of(RowKind.INSERT, range(FIRST)))
    guess = guessing._operator._buckets
    assert guess

    for changes in (
        changes_of(RowKind.DELETE, range(FIRST - 100)),
        changes_of(RowKind.INSERT, range(FIRST, 2 * FIRST)),
        changes_of(RowKind.DELETE, range(2 * FIRST)),
        changes_of(RowKind.INSERT, range(3 * FIRST)),
    ):
        guessing._operator._buckets = guess
        asking.restart(spec)
        assert guessing.run(changes) == asking.run(changes)
        assert guessing.history((1,)) == asking.history((1,))
    guessing.close()
    asking.close()
