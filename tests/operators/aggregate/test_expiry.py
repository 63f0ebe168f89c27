"""What a TTL makes of functions that remember values; each was seen in a job of Flink 2.3."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.aggregate.stored_ends import with_arrival
from operators.changelog import RowKind
from operators.testing.operator_harness import At, Of, OperatorHarness, delete, insert
from state.ttl import TtlConfig
from tests.operators.aggregate.calls import call, spec
from tests.operators.stage import Epoch, Stage

if TYPE_CHECKING:
    from operators.changelog import Change

TTL = TtlConfig(ttl_ms=10)
ENDS = ("FIRST_VALUE", "LAST_VALUE")


def shown(function: str, steps: list[Any], **fields: Any) -> list[Any]:
    """What the function gives after each change, TTL 10, of texts that come and go."""
    operator = spec([call(function, needs_retraction=True)], ttl_ms=(10,), **fields)
    found = OperatorHarness.on_heap(operator).run(steps)
    return [each.row[1] for each in found if each.kind is not RowKind.UPDATE_BEFORE]


def row(value: int, text: str | None = None) -> tuple[Any, ...]:
    return ("a", value, text, None)


def come(text: str | None) -> Change:
    return insert(*row(1, text))


def go(text: str | None) -> Change:
    return delete(*row(1, text))


def test_a_text_taken_out_of_a_list_has_the_others_live_on() -> None:
    steps = [come("x"), At(5), come("y"), come("z"), At(9), go("z"), At(16), come(None)]
    assert shown("LISTAGG", steps) == ["x", "x,y", "x,y,z", "x,y", "x,y"]


def test_a_text_lives_from_when_it_came() -> None:
    steps = [come("x"), At(5), come("y"), At(10), come(None), go("x"), At(15), come(None)]
    assert shown("LISTAGG", steps) == ["x", "x,y", "y", "y", None]


def test_an_array_lives_with_its_group() -> None:
    steps = [come("x"), At(9), come("y"), At(18), come("z"), At(20), go("x"), At(30), come("z")]
    assert shown("ARRAY_AGG", steps) == [["x"], [*"xy"], [*"xyz"], [*"yz"], ["z"]]


@pytest.mark.parametrize(("function", "end"), [("FIRST_VALUE", "x"), ("LAST_VALUE", "y")])
def test_an_expired_value_is_taken_back_before_one_that_lives(function: str, end: str) -> None:
    """Of the two x the first has expired at 12: taking it back leaves the second."""
    steps = [come("x"), At(6), come("x"), At(7), come("y"), At(12), go("x"), go("x")]
    assert shown(function, steps)[-3:] == [end, end, "y"]


def test_a_first_value_that_has_expired_stays_until_it_is_taken_back() -> None:
    steps = [come("x"), At(6), come("y"), At(11), go("y"), come("z"), go("x"), go("z")]
    assert shown("FIRST_VALUE", steps[:-2]) == ["x"] * 4


def test_times_of_a_value_that_comes_again_and_again_do_not_grow() -> None:
    runs: list[list[int]] = []
    for at in range(0, 900, 2):
        runs = with_arrival(with_arrival(runs, at, TTL), at, TTL)
    assert runs == [[888, 890], *([at, 2] for at in range(890, 900, 2))]


def test_what_has_expired_is_taken_back_as_often_as_it_came() -> None:
    """Three x are past their time at 16, and three are not: of six that go the last three count."""
    steps = [come("x"), At(1), come("x"), At(5), come("x"), At(14), come("y")]
    steps += [come("x"), come("x"), At(16), come("x")]
    assert shown("LAST_VALUE", [*steps, *[go("x")] * 5])[-1] == "x"
    assert shown("LAST_VALUE", [*steps, *[go("x")] * 6])[-1] == "y"


def test_what_was_taken_back_too_often_may_be_the_extreme_when_it_comes() -> None:
    """At 11 nobody knows of 5 any more: -1 of it, then none; it is the greatest all the same."""
    steps: list[Any] = [insert(*row(5)), At(6), insert(*row(3)), At(11), insert(*row(6))]
    steps += [delete(*row(6)), delete(*row(5)), insert(*row(5))]
    operator = spec([call("MAX", needs_retraction=True)], ttl_ms=(10,))
    found = OperatorHarness.on_heap(operator).run(steps)
    kept = [each.row[1] for each in found if each.kind is not RowKind.UPDATE_BEFORE]
    assert kept == [5, 5, 6, 3, 3, 5]


changes = st.lists(st.tuples(st.booleans(), st.sampled_from("xyz")), max_size=12)


@given(given=changes, function=st.sampled_from((*ENDS, "LISTAGG", "ARRAY_AGG", "MIN")))
def test_a_ttl_that_never_strikes_changes_no_result(
    given: list[tuple[bool, str]], function: str
) -> None:
    live: list[str] = []
    steps = []
    for comes, text in given:
        if comes:
            live.append(text)
            steps.append(come(text))
        elif text in live:
            live.remove(text)
            steps.append(go(text))
    calls = [call(function, needs_retraction=True), call("COUNT", [], needs_retraction=True)]
    plain = OperatorHarness.on_heap(spec(calls))
    timed = OperatorHarness.on_heap(spec(calls, ttl_ms=(1_000,)))
    assert timed.run(steps) == plain.run(steps)
    if not live:
        assert timed.stored_names() == set()


@pytest.mark.parametrize("function", ENDS)
def test_values_that_came_without_a_ttl_are_taken_over(function: str) -> None:
    harness = OperatorHarness.on_heap(spec([call(function, needs_retraction=True)]))
    harness.run([come("x"), come("y"), come("z")])
    timed = spec([call(function, needs_retraction=True)], ttl_ms=(10,))
    harness.restart(timed)
    end = {"FIRST_VALUE": "x", "LAST_VALUE": "z"}[function]
    found = harness.run([At(5), go(end)])
    assert [each.row[1] for each in found] == [end, "y"]


def test_values_that_outlive_their_group_may_be_taken_back() -> None:
    """Stamps live longer once lives are extended; what came while there was no TTL has none."""
    made = partial(spec, [call("MIN", needs_retraction=True)], bundles=True)
    stage = Stage.on_heap(made(ttl_ms=(100,)))
    stage.run(Epoch((Of(0, insert(*row(1))), Of(0, insert(*row(2)))), 1_000))
    stage.restart(made())
    stage.run(Epoch((Of(0, insert(*row(3))),), 1_001))
    stage.restart(made(ttl_ms=(100,), ttl_extension_ms=500))

    taken = [Of(0, delete(*row(each))) for each in (1, 2, 3)]
    stage.run(Epoch((Of(0, insert(*row(9))), *taken), 1_101))
    stage.run(Epoch((Of(0, delete(*row(9))),), 1_102))
    for time_ms in (3_000, 3_001):
        stage.run(Epoch((), time_ms))

    assert {name for _, name in stage.stored()} <= {b"counters"}
