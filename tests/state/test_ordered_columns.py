"""Texts of whole columns are those of single values, for every type."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from state.arrow_values import to_column
from state.lexicographic import lexicographic_codec
from state.ordered_columns import ordered_texts
from state.types import parse_type
from state.values import CodecError
from tests.state.test_lexicographic import ORDERS, cases


def check(codec: Any, rows: list[Any]) -> None:
    columns = [to_column(kind, [row[at] for row in rows]) for at, kind in enumerate(codec.types)]
    behind = [each.slice(1) for each in columns]
    expected = [codec.encode(row) for row in rows]
    assert ordered_texts(codec, columns).to_pylist() == expected
    assert ordered_texts(codec, behind).to_pylist() == expected[1:]


@given(cases(parts=3, count=4))
def test_they_are_those_of_single_rows(case: Any) -> None:
    codec, _, rows = case
    check(codec, rows)


@pytest.mark.parametrize("name", ["TINYINT", "SMALLINT", "INT", "BIGINT"])
@pytest.mark.parametrize("order", ORDERS)
def test_whole_numbers_up_to_their_ends(name: str, order: Any) -> None:
    kind = parse_type(name)
    top = 1 << ({"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[name] - 1)
    numbers = (-top, 1 - top, -10, -1, 0, 1, 9, top - 1)
    check(lexicographic_codec([kind], [order]), [(each,) for each in (*numbers, None)])
    present = lexicographic_codec([kind.with_nullable(False)], [order])
    check(present, [(each,) for each in numbers])


def test_null_where_it_must_not_be_is_refused() -> None:
    kind = parse_type("INT NOT NULL")
    with pytest.raises(CodecError):
        ordered_texts(lexicographic_codec([kind]), [to_column(kind, [1, None])])
