"""$WELFORD_M2$1, of which deviations and variances are computed: exact in any order."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.aggregate.aggregates import aggregator
from operators.aggregate.call import AggregateCall
from state.types import parse_type

NUMBERS = st.lists(st.floats(-1e9, 1e9, width=32, allow_subnormal=False), max_size=6)


def function(argument: str = "DOUBLE") -> Any:
    call = AggregateCall(
        function="$WELFORD_M2$1",
        name="m2",
        arguments=(0,),
        argument_types=(parse_type(argument),),
        result_type=parse_type("DOUBLE"),
        needs_retraction=True,
    )
    return aggregator(call)


def taken(values: list[Any], argument: str = "DOUBLE") -> Any:
    made = function(argument)
    held = made.create()
    for each in values:
        held = made.accumulate(held, (each,))
    return held


def defined(values: list[float]) -> float | None:
    """By the definition, in fractions."""
    if not values:
        return None
    exact = [Fraction(each) for each in values]
    return float(statistics.pvariance(exact) * len(exact))


def same(found: float | None, expected: float | None) -> bool:
    """Whether these are equal but for digits beyond the hundredth of what was added up."""
    if found is None or expected is None:
        return found is expected
    return math.isclose(found, expected, rel_tol=1e-15, abs_tol=1e-60)


@given(NUMBERS)
def test_it_is_the_sum_of_squared_distances_from_the_mean(values: list[float]) -> None:
    assert same(function().value(taken(values)), defined(values))


@given(NUMBERS, NUMBERS)
def test_rows_that_are_taken_back_leave_nothing(kept: list[float], gone: list[float]) -> None:
    made = function()
    held = taken([*gone, *kept])
    for each in gone:
        held = made.retract(held, (each,))

    assert same(made.value(held), defined(kept))


@given(NUMBERS, NUMBERS)
def test_rows_may_be_taken_back_before_they_come(kept: list[float], early: list[float]) -> None:
    """As in the first phase of two: a part that takes more back than it has is merged."""
    made = function()
    part = made.create()
    for each in early:
        part = made.retract(part, (each,))

    assert same(made.value(made.merge(taken([*kept, *early]), part)), defined(kept))


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_what_is_no_number_counts_until_it_is_taken_back(strange: float) -> None:
    made = function()
    held = taken([1.0, strange, 3.0])
    stored = made.from_json(made.to_json(held))

    assert math.isnan(made.value(stored))
    assert made.value(made.retract(stored, (strange,))) == 2.0


@pytest.mark.parametrize(
    ("argument", "values"), [("DECIMAL(5, 2)", [Decimal("1.10"), Decimal("2.30")]), ("INT", [1, 4])]
)
def test_accumulators_are_stored_as_they_are(argument: str, values: list[Any]) -> None:
    made, held = function(argument), taken(values, argument)

    assert made.from_json(made.to_json(held)) == held
