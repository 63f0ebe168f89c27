"""Operators whose keys go by timers honour extended lives, and a TTL that is changed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from operators.idle_cleanup import IdleCleanup
from operators.keyed import KeyTimers
from operators.testing.operator_harness import At, OperatorHarness, Watermark, delete, insert
from state.backends.interface import SortedRange
from state.descriptors import TimersDescriptor
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand
from state.ttl import TtlClock
from tests.operators import test_lag_lead as lag
from tests.operators.join import test_temporal as temporal
from tests.operators.over import test_ordered_over as ordered
from tests.operators.over import test_over_aggregate as over

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.spec import OperatorSpec


def over_spec(ttl_ms: int, **fields: Any) -> OperatorSpec:
    return over.spec(ttl_ms=(ttl_ms,) if ttl_ms else (), **fields)


def joined_spec(ttl_ms: int, **fields: Any) -> OperatorSpec:
    return temporal.spec(retention_ms=ttl_ms, **fields)


def summed(at_ms: int) -> Any:
    return over.insert("a", 1, over.at(at_ms))


def rated(at_ms: int) -> Any:
    return temporal.rate(100, at_ms)


@pytest.fixture(params=[(over_spec, summed), (joined_spec, rated)], ids=["over", "temporal join"])
def kind(request: pytest.FixtureRequest) -> Any:
    """What makes the spec by its TTL, and a change of some row time that leaves something."""
    return request.param


@pytest.fixture
def spec_of(kind: Any) -> Callable[..., OperatorSpec]:
    """Makes the spec by its TTL; without one by 0."""
    return kind[0]  # type: ignore[no-any-return]  # of a parameter of a fixture


@pytest.fixture
def harness(kind: Any) -> OperatorHarness:
    """An operator with a TTL of 100 ms, of which a key was touched at time 0: it goes at 150."""
    spec_of, change = kind
    made = OperatorHarness.on_heap(spec_of(100))
    made.run([change(10), Watermark(20)])
    return made


def is_kept(harness: OperatorHarness, at_ms: int) -> bool:
    """Whether anything is in state at a time."""
    harness.run([At(at_ms)])
    return harness.stored_names() != set()


def timers(harness: OperatorHarness) -> list[Any]:
    """All timers in processing time."""
    names = (b"processing_timers", b"cleanup_timers")
    reads = [SortedRange(group, name, -math.inf, math.inf) for group in range(4) for name in names]
    return [timer for found in harness.view().fetch(reads) for timer in found]


def test_lives_that_are_extended_end_that_much_later(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec]
) -> None:
    harness.restart(spec_of(100, ttl_extension_ms=1_000))

    assert is_kept(harness, 1_149)
    assert not is_kept(harness, 1_150)


def test_what_is_touched_after_an_extension_goes_once(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], kind: Any
) -> None:
    harness.restart(spec_of(100, ttl_extension_ms=1_000))
    harness.run([At(1_100), kind[1](30), Watermark(30)])

    assert is_kept(harness, 1_249)
    assert not is_kept(harness, 1_250)


@pytest.mark.parametrize(("ttl_ms", "goes_ms"), [(1_000, 1_500), (10, 150)])
def test_a_longer_ttl_holds_for_idle_keys_and_a_shorter_one_from_their_next_change_on(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], ttl_ms: int, goes_ms: int
) -> None:
    harness.restart(spec_of(ttl_ms))

    assert is_kept(harness, goes_ms - 1)
    assert not is_kept(harness, goes_ms)


def test_without_a_ttl_nothing_goes(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec]
) -> None:
    harness.restart(spec_of(0))

    assert is_kept(harness, 10_000)


def test_a_key_touched_without_a_ttl_leaves_no_timer_of_it(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], kind: Any
) -> None:
    left = timers(harness)
    assert len(left) == 1

    harness.restart(spec_of(0))
    assert timers(harness) == left
    harness.run([At(5_000), kind[1](40), Watermark(40)])

    assert timers(harness) == []


def test_a_key_touched_without_a_ttl_leaves_no_timer_of_a_longer_one_either(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], kind: Any
) -> None:
    harness.restart(spec_of(1_000))
    assert is_kept(harness, 150)
    assert [time_ms for _, time_ms in timers(harness)] == [1_500.0]

    harness.restart(spec_of(0))
    harness.run([At(5_000), kind[1](40), Watermark(40)])

    assert timers(harness) == []


def test_a_key_touched_without_a_ttl_leaves_no_timer_from_before_an_extension_either(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], kind: Any
) -> None:
    """Its timer has not fired since, so it stands where the first run set it."""
    harness.restart(spec_of(0, ttl_extension_ms=1_000))
    harness.run([At(120), kind[1](40), Watermark(40)])

    assert timers(harness) == []


def test_a_timer_that_fires_before_extended_lives_end_is_found_again(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], kind: Any
) -> None:
    harness.restart(spec_of(100, ttl_extension_ms=1_000))
    assert is_kept(harness, 150)
    assert [time_ms for _, time_ms in timers(harness)] == [1_150.0]

    harness.restart(spec_of(0, ttl_extension_ms=2_000))
    harness.run([At(160), kind[1](40), Watermark(40)])

    assert timers(harness) == []


@pytest.mark.parametrize("ttl_ms", [0, 100])
def test_timers_that_a_ttl_left_are_state_of_the_operator(
    spec_of: Callable[..., OperatorSpec], ttl_ms: int
) -> None:
    """So a savepoint with them is restored into a plan without the TTL."""
    operator = spec_of(ttl_ms).operator()

    names = [each.name for each in operator.states]
    assert {"processing_timers", "cleanup_timers"} & {*names}
    assert len({*names}) == len(names)
    assert (operator.processing_timers is None) == (ttl_ms == 0)


def test_a_key_that_goes_without_a_ttl_takes_its_timer_along() -> None:
    """All of its rows were taken back, and nothing comes for it any more."""
    for made, row in ((lag.spec, ("a", 1)), (ordered.spec, ("a", 1, 1))):
        harness = OperatorHarness.on_heap(made(ttl_ms=(100,)))
        harness.run([insert(*row)])
        assert len(timers(harness)) == 1

        harness.restart(made())
        harness.run([delete(*row)])

        assert harness.stored_names() == set()


def test_a_key_that_goes_under_a_longer_ttl_takes_the_timer_of_the_shorter_one_along() -> None:
    for made, row in ((lag.spec, ("a", 1)), (ordered.spec, ("a", 1, 1))):
        harness = OperatorHarness.on_heap(made(ttl_ms=(100,)))
        harness.run([insert(*row)])

        harness.restart(made(ttl_ms=(1_000,)))
        harness.run([At(10), delete(*row)])

        assert harness.stored_names() == set()


def test_a_timer_that_an_earlier_version_set_in_extended_lives_goes_with_its_key() -> None:
    """It told when the key goes, and not where the timer is."""
    session = SessionStand(heap_stand()).begin(TtlClock(0))
    service = session.timers(TimersDescriptor(name="timers"))
    for end_ms in (150, 1_150):
        idle = IdleCleanup(0, extension_ms=1_000)
        session.set_key(b'["k"]', 0)
        idle.open(KeyTimers(service, session), 0)
        service.register(b'["k"]', 0, end_ms)
        idle.cancel([150, 100])
    service.load((0,), 10_000)

    assert list(service.due(10_000)) == []


def test_a_key_touched_while_there_was_no_ttl_does_not_go_by_what_came_before(
    harness: OperatorHarness, spec_of: Callable[..., OperatorSpec], kind: Any
) -> None:
    harness.restart(spec_of(0))
    harness.run([At(5_000), kind[1](40), Watermark(40)])
    harness.restart(spec_of(100))

    assert is_kept(harness, 6_000)


def test_a_key_whose_rows_wait_while_its_ttl_is_made_longer_goes_once_they_came_out() -> None:
    """The timer of the shorter one fires meanwhile."""
    harness = OperatorHarness.on_heap(over_spec(100))
    harness.run([summed(10)])
    harness.restart(over_spec(1_000))
    harness.run([At(150), At(160), Watermark(20)])

    assert is_kept(harness, 1_499)
    assert not is_kept(harness, 1_500)
