"""Numbers of sort keys are in the order of the bytes of sort keys, for every type that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ordering import SortColumn, SortKeys
from operators.sort_codes import CODE_MAX, has_codes, sort_codes
from operators.spec import RowSpec
from state.arrow_values import to_column
from state.types import LogicalType, parse_type
from tests.state.codec_strategies import scalar_types
from tests.state.test_lexicographic import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_types = st.builds(LogicalType.with_nullable, scalar_types().filter(has_codes), st.booleans())


def check(types: Sequence[LogicalType], order: Sequence[SortColumn], rows: Sequence[Any]) -> None:
    names = tuple(f"c{at}" for at in range(len(types)))
    keys = SortKeys(RowSpec(types=tuple(types), names=names), order)
    texts = [keys.text(row) for row in rows]
    columns = [to_column(kind, [row[at] for row in rows]) for at, kind in enumerate(types)]
    # A slice: what lies before it in memory is not looked at.
    behind = [each.slice(1) for each in columns]
    for count, given_columns in ((0, columns), (1, behind)):
        codes = sort_codes(given_columns, types, order).tolist()
        expected = texts[count:]
        ranks = {text: rank for rank, text in enumerate(sorted(set(expected)))}
        found = {code: rank for rank, code in enumerate(sorted(set(codes)))}
        assert [found[each] for each in codes] == [ranks[each] for each in expected]
        assert all(each < CODE_MAX for each in codes)


@given(st.data())
def test_they_are_in_the_order_of_the_texts(data: st.DataObject) -> None:
    types = data.draw(st.lists(_types, min_size=1, max_size=3))
    order = [
        SortColumn(
            column=at, descending=data.draw(st.booleans()), nulls_last=data.draw(st.booleans())
        )
        for at in range(len(types))
    ]
    pools = [data.draw(st.lists(value_of(each), min_size=1, max_size=5)) for each in types]
    row = st.tuples(*(st.sampled_from(pool) for pool in pools))
    check(types, order, data.draw(st.lists(row, min_size=1, max_size=12)))


@pytest.mark.parametrize("descending", [True, False])
def test_the_ends_of_the_largest_integers(*, descending: bool) -> None:
    kind = parse_type("BIGINT")
    rows = [(each,) for each in (2**63 - 1, None, -(2**63), 0, -1)]
    check([kind], [SortColumn(column=0, descending=descending)], rows)


def test_a_nested_type_has_none() -> None:
    assert not has_codes(parse_type("ARRAY<INT>"))
