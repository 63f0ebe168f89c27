"""Several calls over rows in memory: as the batch definition, in parts, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregate import AccumulatorCodec, Aggregates
from operators.changelog import Change, RowKind
from operators.testing.batch_aggregate import aggregate
from state.errors import StateCorrupt
from tests.operators.aggregate.calls import call, changelogs, every_call, taken_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate import Accumulators

ORDERED = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG", "ARRAY_AGG")
MODEST = settings(max_examples=40)
"""Each example computes 73 calls."""


def accumulated(aggregates: Aggregates, changes: Sequence[Change]) -> Accumulators:
    accumulators = aggregates.create()
    for change in changes:
        if change.kind.is_retraction:
            aggregates.retract(accumulators, change.row)
        else:
            aggregates.accumulate(accumulators, change.row)
    return accumulators


def codec_of(aggregates: Aggregates) -> AccumulatorCodec:
    return AccumulatorCodec(aggregates.calls, aggregates.functions, len(aggregates.distinct))


@MODEST
@given(changes=changelogs())
def test_every_call_is_what_the_definition_says(changes: list[Change]) -> None:
    calls = every_call(needs_retraction=True)
    aggregates = Aggregates(calls)
    found = aggregates.values(accumulated(aggregates, changes))
    assert found == tuple(aggregate(each, changes) for each in calls)


@MODEST
@given(changes=changelogs(retracts=False))
def test_without_retraction_the_same(changes: list[Change]) -> None:
    calls = every_call(needs_retraction=False)
    aggregates = Aggregates(calls, counts_rows=False)
    found = aggregates.values(accumulated(aggregates, changes))
    assert found == tuple(aggregate(each, changes) for each in calls)


@MODEST
@given(changes=changelogs(), cut=st.integers(0, 14))
def test_parts_can_be_merged(changes: list[Change], cut: int) -> None:
    """Where a cut falls makes no difference but to order, which is that of values in each part."""
    calls = [each for each in every_call(needs_retraction=True) if each.function not in ORDERED]
    aggregates = Aggregates(calls)
    whole = accumulated(aggregates, changes)
    merged = accumulated(aggregates, changes[:cut])
    aggregates.merge(merged, accumulated(aggregates, changes[cut:]))
    assert aggregates.values(merged) == aggregates.values(whole)
    assert merged.rows == whole.rows


@MODEST
@given(changes=changelogs(retracts=False), cut=st.integers(0, 14))
def test_parts_of_what_only_grows_can_be_merged(changes: list[Change], cut: int) -> None:
    """Order included, but that of distinct values: a set that calls share has one order."""
    for needs_retraction in (False, True):
        every = every_call(needs_retraction=needs_retraction)
        aggregates = Aggregates(
            [each for each in every if not (each.is_distinct and each.function in ORDERED)]
        )
        merged = accumulated(aggregates, changes[:cut])
        aggregates.merge(merged, accumulated(aggregates, changes[cut:]))
        assert aggregates.values(merged) == aggregates.values(accumulated(aggregates, changes))


@MODEST
@given(changes=changelogs())
def test_accumulators_come_back_from_their_json(changes: list[Change]) -> None:
    aggregates = Aggregates(every_call(needs_retraction=True))
    codec = codec_of(aggregates)
    held = accumulated(aggregates, changes)
    again = codec.decode(codec.encode(held))
    assert codec.encode(again) == codec.encode(held)
    assert aggregates.values(again) == aggregates.values(held)


@MODEST
@given(changes=changelogs())
def test_what_is_taken_back_leaves_nothing(changes: list[Change]) -> None:
    aggregates = Aggregates(every_call(needs_retraction=True))
    left = accumulated(aggregates, [*changes, *taken_back(changes)])
    fresh = aggregates.create()
    assert left.rows == 0
    assert left.distinct == fresh.distinct
    assert aggregates.values(left) == aggregates.values(fresh)


def test_accumulators_are_readable() -> None:
    calls = [
        call("COUNT", [], name="order_cnt"),
        call("SUM", name="quantity_cnt"),
        call("COUNT", [2], name="buy_uv", is_distinct=True),
    ]
    aggregates = Aggregates(calls)
    held = accumulated(aggregates, [Change(RowKind.INSERT, ("a", 5, "u1", True))])
    assert codec_of(aggregates).encode(held) == (
        b'{"rows":1,"order_cnt":1,"quantity_cnt":5,"buy_uv":1,"distinct":[[["u1"],[1]]]}'
    )


def test_a_call_may_be_renamed() -> None:
    old, new = Aggregates([call("SUM", name="a")]), Aggregates([call("SUM", name="b")])
    held = accumulated(old, [Change(RowKind.INSERT, ("a", 5, None, None))])
    assert codec_of(old).name == codec_of(new).name
    assert new.values(codec_of(new).decode(codec_of(old).encode(held))) == (5,)


@pytest.mark.parametrize("stored", [b"", b"[]", b"{}", b'{"rows":1}', b'{"rows":1,"s":1,"t":2}'])
def test_other_bytes_are_refused(stored: bytes) -> None:
    aggregates = Aggregates([call("SUM", needs_retraction=True)])
    with pytest.raises(StateCorrupt):
        codec_of(aggregates).decode(stored)
