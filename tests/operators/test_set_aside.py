"""Rows without the time that they need, and late ones, are set aside where that is asked for."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from operators.deduplicate.spec import DeduplicateSpec
from operators.errors import MissingRowTime
from operators.join.interval import IntervalJoinSpec
from operators.join.temporal import TemporalJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.temporal_sort import TemporalSortSpec
from operators.testing.operator_harness import (
    Of,
    OperatorHarness,
    Watermark,
    insert,
)
from state.errors import OperatorFailed
from state.types import parse_type

if TYPE_CHECKING:
    from operators.changelog import Change
    from operators.spec import OperatorSpec

TYPES, NAMES = tuple(map(parse_type, ("INT", "TIMESTAMP(3)"))), ("id", "at")
SIDE = InputSpec(types=TYPES, names=NAMES, key=(0,))
ONE = RowSpec(types=TYPES, names=NAMES)
BOTH = RowSpec(types=TYPES * 2, names=(*NAMES, "id0", "at0"))


def at(second: int) -> dt.datetime:
    return dt.datetime.fromisoformat("2020-01-01") + dt.timedelta(seconds=second)


def one(kind: type[OperatorSpec], **fields: Any) -> OperatorSpec:
    return kind.build(inputs=(SIDE,), output=ONE, **fields)


def two(kind: type[OperatorSpec], **fields: Any) -> OperatorSpec:
    return kind.build(inputs=(SIDE, SIDE), output=BOTH, join_type="INNER", **fields)


def specs(**fields: bool) -> dict[str, OperatorSpec]:
    return {
        "sort": one(TemporalSortSpec, rowtime=1, **fields),
        "deduplicate": one(DeduplicateSpec, rowtime=1, keeps_last=True, **fields),
        "deduplicate once": one(DeduplicateSpec, rowtime=1, keeps_last=False, once=True, **fields),
        "deduplicate changes": one(
            DeduplicateSpec, rowtime=1, keeps_last=True, retracts=True, **fields
        ),
        "temporal join": two(
            TemporalJoinSpec, left_time=1, right_time=1, filter_nulls=(True,), **fields
        ),
        "interval join": two(
            IntervalJoinSpec, times=(1, 1), lower_ms=0, upper_ms=0, filter_nulls=(True,), **fields
        ),
    }


def ms(value: dt.datetime) -> int:
    return int(value.replace(tzinfo=dt.UTC).timestamp() * 1000)


def given(inputs: int) -> list[Of | Watermark]:
    """Rows with and without a time, on each side."""
    rows = [insert(1, at(1)), insert(1, None), insert(3, at(1)), insert(None, None)]
    sides = [Of(side, row) for side in range(inputs) for row in rows]
    return [*sides, Watermark(ms(at(9)))]


def without(steps: list[Of | Watermark]) -> list[Of | Watermark]:
    return [each for each in steps if isinstance(each, Watermark) or each.change.row[1]]


def run(spec: OperatorSpec, steps: list[Of | Watermark], **options: Any) -> list[Change]:
    return OperatorHarness.on_heap(spec, **options).run(steps)


@pytest.mark.parametrize("name", specs())
def test_a_row_without_the_time_that_it_needs_is_set_aside(name: str) -> None:
    """On either path: what comes out is what comes of the rows with a time."""
    spec = specs(sets_aside_missing_times=True)[name]
    steps = given(len(spec.inputs))

    for columns_from in (1, 1_000):
        harness = OperatorHarness.on_heap(spec, columns_from=columns_from)
        assert harness.run(steps) == run(spec, without(steps), columns_from=columns_from) != []
        found = sorted((each.key, each.reason) for each in harness.set_aside)
        assert [key for key, _ in found] == sorted([b"[1]", b"[null]"] * len(spec.inputs))
        assert {reason for _, reason in found} == {'event time "at" is NULL'}


@pytest.mark.parametrize("name", specs())
def test_otherwise_it_ends_the_epoch(name: str) -> None:
    spec = specs()[name]

    with pytest.raises(OperatorFailed) as error:
        run(spec, given(len(spec.inputs)), columns_from=1_000)

    assert isinstance(error.value.__cause__, MissingRowTime)


@pytest.mark.parametrize("is_asked", [True, False])
def test_late_rows_are_set_aside_where_that_is_asked_for(*, is_asked: bool) -> None:
    harness = OperatorHarness.on_heap(specs(sets_aside_late=is_asked)["sort"])
    harness.run([insert(1, at(5)), Watermark(ms(at(9))), Watermark(ms(at(10)))])

    harness.run([insert(1, at(1))])

    assert harness.statistics[-1]["late"] == 1
    assert [each.key for each in harness.set_aside] == ([b"[1]"] if is_asked else [])
