"""Attempts of one epoch by workers that remember different things, and under changed options.

An attempt is compared with the one that committed before it: it must write the same bytes, whatever
its worker has seen. A changed time to live begins with a run, and then counts for an epoch that was
run before and not closed as if that had never been.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    import redis

SPEC = MaterializerSpec(
    INTEGERS.types,
    INTEGERS.names,
    key=(1,),
    upsert_key=(0,),
    strategy=Strategy.ADAPTIVE,
    high=200,
    low=100,
    ttl_ms=300,
)
EPOCH_MS = 100


def epochs() -> list[list[Change]]:
    """A short history and two long ones, of which one shrinks again; some rows expire."""
    found: list[list[Change]] = []
    for epoch in range(6):
        added = [
            Change(RowKind.INSERT, (1_000 * epoch + number, number % 3, f"{epoch}" * 40))
            for number in range(600 if epoch < 3 else 30)
        ]
        gone = [
            Change(RowKind.DELETE, (1_000 * (epoch - 1) + number, 1, f"{epoch - 1}" * 40))
            for number in range(1, 600 if epoch < 3 else 30, 3)
            if epoch
        ]
        found.append([*added[:50], *gone, *added[50:]])
    return found


@pytest.mark.parametrize("upsert_key", [(0,), None], ids=["upsert key", "whole row"])
def test_attempts_of_workers_with_other_pasts_write_the_same(
    redis_client: redis.Redis, upsert_key: tuple[int, ...] | None
) -> None:
    """The first of them, the same again, one that has run nothing yet, one that is an epoch old."""
    spec = replace(SPEC, upsert_key=upsert_key)
    harness = MaterializerHarness.on_redis(spec, redis_client)
    parts = 0
    older = UpsertMaterializer(spec)
    for number, changes in enumerate(epochs()):
        harness.now_ms = EPOCH_MS * number
        given = list(enumerate(changes))
        first = harness.attempt(given)
        parts += len(list(redis_client.scan_iter("*:pending#*")))
        again = harness.attempt(given)
        knowing, harness._operator = harness._operator, UpsertMaterializer(spec)
        new = harness.attempt(given)
        older, harness._operator = harness._operator, older
        of_older = harness.attempt(given)
        harness._operator = knowing
        closed = harness.run_epoch(given)

        assert first == again == new == of_older == closed, f"epoch {number + 1}"
    assert parts, "nothing was replaced as a whole"
    harness.close()


def test_a_time_to_live_that_changes_between_attempts_counts_as_if_it_had_always(
    redis_client: redis.Redis,
) -> None:
    """The first attempt has committed in a run of the old one, and is forgotten as a whole."""
    changed = MaterializerHarness.on_redis(SPEC, redis_client, pipeline="changed")
    always = MaterializerHarness.on_redis(SPEC, redis_client, pipeline="always")
    for number, changes in enumerate(epochs()):
        given = list(enumerate(changes))
        spec = replace(SPEC, ttl_ms=150 if number % 2 else 300)
        for harness in (changed, always):
            harness.now_ms = EPOCH_MS * number
        changed.attempt(given)
        changed.restart(spec)
        always.restart(spec)

        assert changed.run_epoch(given) == always.run_epoch(given), f"epoch {number + 1}"
        for key in range(3):
            assert changed.history((key,)) == always.history((key,))
        assert _stored(redis_client, "changed") == _stored(redis_client, "always")
    changed.close()
    always.close()


def _stored(client: redis.Redis, pipeline: str) -> dict[bytes, dict[bytes, bytes]]:
    """All hashes of key groups, by their names without the pipeline's."""
    prefix = f"tailrace:{{{pipeline}:".encode()
    return {
        key.removeprefix(prefix): client.hgetall(key)
        for key in client.scan_iter(prefix + b"*")
        if client.type(key) == b"hash"
    }
