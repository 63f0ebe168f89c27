"""Columns of texts: cast whole only where each value is what the exact way makes of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.arrow_values import python_values
from state.json_values import json_decoder
from state.text_columns import typed_column
from state.types import LogicalType, parse_type
from state.values import CodecError
from tests.state.codec_strategies import scalar_types

ODD = [
    *("", "0x10", "1", "-0", "+1", " 7 ", "007", "128", "2147483648", "9223372036854775808"),
    *("true", "True", "inf", "nan", "NaN", "Infinity", "1e400", "1e-400", "3.5e38", "1.", ".5"),
    *("1.5", "-1.555", "999.999", "1e2", "0.1", "16777217.000001", "2013-01-01", "2013-02-30"),
    *("0000-01-01", "9999-12-31", "2013-01-01 10:00", "2013-01-01 10:00:00.123456"),
    *("2013-01-01T10:00:00.1Z", "2013-01-01 24:00:00", "10:00:00", "YWJj", "२", "\n1", "1\n"),
]
TEXTS = st.lists(st.none() | st.sampled_from(ODD) | st.from_regex(r"-?[0-9.e-]{1,6}"), max_size=4)


@given(scalar_types(), st.booleans(), TEXTS)
def test_a_column_is_what_the_exact_way_makes_of_each_text(
    logical: LogicalType, nullable: bool, texts: list[str | None]
) -> None:
    logical = logical.with_nullable(nullable)
    column = typed_column(logical, pa.array(texts, pa.string()))
    if column is None:
        return

    exact = [json_decoder(logical)(each) for each in texts]

    assert list(map(repr, python_values(logical, column))) == list(map(repr, exact))


@pytest.mark.parametrize(
    ("text", "type_text"), [("0x10", "INT"), ("1", "BOOLEAN"), ("inf", "DOUBLE"), ("ab", "BYTES")]
)
def test_what_arrow_takes_and_the_exact_way_does_not_is_left_to_it(
    text: str, type_text: str
) -> None:
    logical = parse_type(type_text)

    assert typed_column(logical, pa.array([text])) is None
    with pytest.raises(CodecError):
        json_decoder(logical)(text)
