"""A TTL that is switched on holds for keys that nothing comes for any more, too.

Their operators let keys go by timers, and a key that was last touched while there was no TTL has
none. Each test leaves keys so, switches a TTL on, and never touches them again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from operators.changelog import Change, RowKind
from operators.keyed import WATERMARK_MAX
from operators.over.over_aggregate import OverSpec
from operators.testing.operator_harness import Of, delete, insert
from state.backends.heap import HeapBackend
from tests.operators import test_lag_lead as lag
from tests.operators.join import test_temporal as temporal
from tests.operators.over import test_ordered_over as ordered
from tests.operators.over import test_over_aggregate as over
from tests.operators.stage import NODE, Epoch, Stage
from tests.operators.test_every_operator import moved
from tests.state.savepoint.world import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import redis

    from operators.spec import OperatorSpec

KEYS = ("a", "b", "c", "d", "e")


def by_ttl(make: Callable[..., OperatorSpec]) -> Callable[..., OperatorSpec]:
    """Makes the spec by its TTL; without one by 0."""
    return lambda ttl_ms, **more: make(ttl_ms=(ttl_ms,) if ttl_ms else (), **more)


def joined(ttl_ms: int, **more: Any) -> OperatorSpec:
    return temporal.spec(retention_ms=ttl_ms, **more)


def timed(key: str, ms: int = 10) -> Of:
    return Of(0, insert(key, 1, over.at(ms)))


def untimed(*values: int) -> Callable[..., Of]:
    return lambda key, ms=10: Of(0, insert(key, *values))


def waiting(key: str, ms: int = 10) -> Of:
    """A row of a later time than any watermark here."""
    return temporal.order(1, ms + 1_000, cur=key)


def version(key: str, ms: int = 10) -> Of:
    return temporal.rate(1, ms, cur=key)


KINDS: dict[str, tuple[Callable[..., OperatorSpec], Callable[..., Of]]] = {
    "over: row time": (by_ttl(over.spec), timed),
    "over: rows": (by_ttl(partial(over.spec, is_rows=True, preceding=2)), timed),
    "over: arrival": (by_ttl(partial(over.spec, time_column=None)), timed),
    "ordered over": (by_ttl(ordered.spec), untimed(1, 1)),
    "lag": (by_ttl(lag.spec), untimed(1)),
    "temporal join: row": (joined, waiting),
    "temporal join: version": (joined, version),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    """What makes the spec by its TTL, and a change of a key that leaves something."""
    return KINDS[request.param]


@pytest.fixture(params=["heap", "redis"])
def stage_of(
    request: pytest.FixtureRequest, redis_client: redis.Redis
) -> Iterator[Callable[[OperatorSpec], Stage]]:
    """Makes a stage of an operator on each backend."""
    made: list[Stage] = []

    def make(spec: OperatorSpec) -> Stage:
        is_heap = request.param == "heap"
        made.append(Stage.on_heap(spec) if is_heap else Stage.on_redis(spec, redis_client))
        return made[-1]

    yield make
    for each in made:
        each.close()


def stored(stage: Stage, client: redis.Redis, pipeline: str = "stage") -> list[tuple[bytes, Any]]:
    """All that is stored, in any key group, by name; on Redis by SCAN."""
    if isinstance(stage.backend, HeapBackend):
        return [(name, held) for (_, name), held in stage.stored().items()]
    stage.ledger.promote_all([NODE], stage.groups)
    found = dump(client, pipeline)
    return [(name.partition(b"}:")[2] or name, held) for name, held in found.items()]


def names(stage: Stage, client: redis.Redis, pipeline: str = "stage") -> set[bytes]:
    """The names of all that is stored."""
    return {name for name, _ in stored(stage, client, pipeline)}


def timers(stage: Stage, client: redis.Redis, pipeline: str = "stage") -> int:
    """How many timers there are by which idle keys go."""
    of_keys = (b"processing_timers", b"cleanup_timers")
    return sum(len(held) for name, held in stored(stage, client, pipeline) if name in of_keys)


def touch(stage: Stage, changes: Sequence[Of], at_ms: int, watermark_ms: int | None = None) -> Any:
    return stage.run(Epoch(tuple(changes), at_ms, watermark_ms))


def idle(stage: Stage, at_ms: int) -> None:
    """An epoch without a change, which emits nothing."""
    assert stage.run(Epoch((), at_ms)) == [[]]


def last_goes_at(at_ms: int, stage: Stage, client: redis.Redis) -> None:
    """Something is kept until this time, and nothing of it from then on."""
    idle(stage, at_ms - 1)
    assert names(stage, client)
    idle(stage, at_ms)
    idle(stage, at_ms + 1)
    assert names(stage, client) == set()


@pytest.mark.parametrize("watermark_ms", [5, 20])
def test_keys_last_touched_without_a_ttl_go_when_it_has_passed_since_it_was_switched_on(
    kind: Any,
    stage_of: Callable[[OperatorSpec], Stage],
    redis_client: redis.Redis,
    watermark_ms: int,
) -> None:
    """At watermark 5 rows still wait: a key that they wait for goes later, as if it was touched."""
    spec_of, change = kind
    stage = stage_of(spec_of(0))
    touch(stage, [change(key) for key in KEYS], 0, watermark_ms)
    assert names(stage, redis_client)

    stage.restart(spec_of(100))
    idle(stage, 1_000)
    there = names(stage, redis_client)
    idle(stage, 1_149)
    assert names(stage, redis_client) == there

    goes_ms = 1_150
    if isinstance(stage.spec, OverSpec) and b"rows" in there:
        # It does not let rows go that wait for the watermark.
        touch(stage, [], 1_150, WATERMARK_MAX)
        goes_ms = 1_300
    last_goes_at(goes_ms, stage, redis_client)


def test_a_key_gets_the_timer_that_a_touch_would_have_set_and_keeps_one_that_it_has(
    kind: Any, stage_of: Callable[[OperatorSpec], Stage], redis_client: redis.Redis
) -> None:
    spec_of, change = kind
    stage = stage_of(spec_of(100))
    touch(stage, [change("planned")], 0, 20)
    stage.restart(spec_of(0))
    touch(stage, [change("late", 30)], 10, 40)
    stage.restart(spec_of(100))
    idle(stage, 60)
    idle(stage, 149)
    there = names(stage, redis_client)
    idle(stage, 150)
    assert names(stage, redis_client) == there, "the other key is in the same states"
    assert timers(stage, redis_client) == 1
    last_goes_at(210, stage, redis_client)


def test_extended_lives_count_from_when_a_key_is_found(
    kind: Any, stage_of: Callable[[OperatorSpec], Stage], redis_client: redis.Redis
) -> None:
    spec_of, change = kind
    stage = stage_of(spec_of(0))
    touch(stage, [change(key) for key in KEYS], 0, 20)
    stage.restart(spec_of(100, ttl_extension_ms=500))
    idle(stage, 1_000)
    stage.restart(spec_of(100, ttl_extension_ms=700))
    last_goes_at(1_350, stage, redis_client)


def test_what_was_touched_is_found_though_the_ttl_was_off_for_less_than_a_millisecond(
    kind: Any, stage_of: Callable[[OperatorSpec], Stage], redis_client: redis.Redis
) -> None:
    spec_of, change = kind
    stage = stage_of(spec_of(0))
    touch(stage, [change("a")], 0, 20)
    stage.restart(spec_of(100))
    idle(stage, 0)
    stage.restart(spec_of(0))
    touch(stage, [change(key, 30) for key in KEYS], 0, 40)
    stage.restart(spec_of(100))
    idle(stage, 0)
    assert timers(stage, redis_client) == len(KEYS)

    last_goes_at(150, stage, redis_client)


def test_a_walk_is_remembered_and_that_goes_with_the_last_key(
    stage_of: Callable[[OperatorSpec], Stage], redis_client: redis.Redis
) -> None:
    spec_of, change = KINDS["lag"]
    stage = stage_of(spec_of(0))
    touch(stage, [change("a")], 0)
    stage.restart(spec_of(1_000))
    idle(stage, 10)
    found = {b"rows", b"cleanup_at", b"processing_timers", b"processing_timers:swept"}
    assert names(stage, redis_client) == found

    touch(stage, [Of(0, delete("a", 1))], 20)
    idle(stage, 21)
    assert names(stage, redis_client) == set()


def test_a_key_that_goes_in_the_epoch_that_finds_it_leaves_nothing(
    stage_of: Callable[[OperatorSpec], Stage], redis_client: redis.Redis
) -> None:
    spec_of, change = KINDS["ordered over"]
    stage = stage_of(spec_of(0))
    touch(stage, [change("a")], 0)
    stage.restart(spec_of(1_000))
    touch(stage, [Of(0, Change(RowKind.DELETE, change("a").change.row))], 10)
    idle(stage, 11)
    assert names(stage, redis_client) == set()


def test_a_ttl_from_the_beginning_is_walked_for_by_nobody(
    stage_of: Callable[[OperatorSpec], Stage], redis_client: redis.Redis
) -> None:
    spec_of, change = KINDS["lag"]
    stage = stage_of(spec_of(100))
    touch(stage, [change("a")], 0)
    stage.restart(spec_of(200))
    idle(stage, 1)
    assert names(stage, redis_client) == {b"rows", b"cleanup_at", b"processing_timers"}


def test_a_walk_goes_on_where_it_was_after_kills_and_a_move_to_other_key_groups(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,200 keys are more than an epoch looks at, so the walk takes several."""
    spec_of, change = KINDS["lag"]
    stage = Stage.on_redis(spec_of(0), redis_client)
    touch(stage, [change(f"key {number}") for number in range(1_200)], 0)

    def killed(at_ms: int) -> None:
        """An epoch whose tasks have committed, and which nobody closes: their process is gone."""
        with monkeypatch.context() as patch:
            patch.setattr(stage.ledger, "close_epoch", lambda *_: None)
            idle(stage, at_ms)
        stage.epoch -= 1
        stage.restart()

    stage.restart(spec_of(100))
    killed(1_000)
    assert timers(stage, redis_client) == 0
    idle(stage, 1_001)
    first = timers(stage, redis_client)
    assert 0 < first < 1_200
    killed(1_002)
    assert timers(stage, redis_client) == first

    stage = moved(stage, redis_client, 7)
    stage.restart(spec_of(100))
    killed(1_003)
    assert timers(stage, redis_client, "moved") == first
    idle(stage, 1_004)
    assert first < timers(stage, redis_client, "moved")
    idle(stage, 1_005)
    assert timers(stage, redis_client, "moved") == 1_200
    for at_ms in (1_151, 1_155, 1_156):
        idle(stage, at_ms)
    assert names(stage, redis_client, "moved") == set()
    stage.close()
