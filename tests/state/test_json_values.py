"""Values from outside are taken exactly by type, and never told in an error."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.codec import CodecError, RowCodec
from state.types import LogicalType, parse_type
from tests.state.codec_strategies import types, values


def codec_of(*texts: str) -> RowCodec:
    return RowCodec([parse_type(each) for each in texts], [f"c{n}" for n in range(len(texts))])


def at(*parts: int, zone: dt.tzinfo | None = None) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=zone)


TAKEN: list[tuple[str, Any, Any]] = [
    ("BOOLEAN", True, True),
    ("BOOLEAN", "False", False),
    ("INT", 7, 7),
    ("INT", " -007 ", -7),
    ("BIGINT", "+9223372036854775807", 9223372036854775807),
    ("DOUBLE", 1, 1.0),
    ("DOUBLE", "-0.0", -0.0),
    ("DOUBLE", "1e3", 1000.0),
    ("DOUBLE", "-Infinity", -math.inf),
    ("FLOAT", 0.1, 0.10000000149011612),
    ("DECIMAL(10, 2)", 1, Decimal("1.00")),
    ("DECIMAL(10, 2)", 1.25, Decimal("1.25")),
    ("DECIMAL(10, 2)", "1.005", Decimal("1.01")),
    ("DECIMAL(10, 2)", "-1e3", Decimal("-1000.00")),
    ("DECIMAL(10, 2)", "-0.001", Decimal("0.00")),
    ("DECIMAL(10, 2)", "1e-999999999", Decimal("0.00")),
    ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
    ("VARCHAR(1)", "longer than declared", "longer than declared"),
    ("BYTES", "AAEC", b"\x00\x01\x02"),
    ("BYTES", "", b""),
    ("DATE", "0001-01-01", dt.date(1, 1, 1)),
    ("TIME(3)", "10:00", dt.time(10)),
    ("TIME(3)", "10:00:00.1239", dt.time(10, 0, 0, 123_000)),
    ("TIMESTAMP(6)", "1900-01-01T00:00", at(1900, 1, 1)),
    ("TIMESTAMP(3)", "2020-01-01 00:00:10.1239", at(2020, 1, 1, 0, 0, 10, 123_000)),
    ("TIMESTAMP(6)", "2020-01-01T00:00:10.123456789", at(2020, 1, 1, 0, 0, 10, 123_456)),
    ("TIMESTAMP_LTZ(3)", "2020-01-01 00:00:10Z", at(2020, 1, 1, 0, 0, 10, zone=dt.UTC)),
    ("TIMESTAMP_LTZ(3)", "2020-01-01T00:00:10+02:00", at(2019, 12, 31, 22, 0, 10, zone=dt.UTC)),
    ("TIMESTAMP_LTZ(0)", "2020-01-01 00:00:10.9-0130", at(2020, 1, 1, 1, 30, 10, zone=dt.UTC)),
    ("TIMESTAMP_LTZ(0)", "2020-01-01T00:00-01", at(2020, 1, 1, 1, 0, 0, zone=dt.UTC)),
    ("ARRAY<INT>", [1, "2", None], [1, 2, None]),
    ("MAP<STRING, INT>", {"b": 1, "a": None}, [("a", None), ("b", 1)]),
    ("MAP<INT, INT>", {"2": 1}, [(2, 1)]),
    ("MAP<INT, INT>", [[2, 1]], [(2, 1)]),
    ("ROW<a INT, b STRING>", {"b": "x", "z": 1}, (None, "x")),
    ("ROW<a INT, b STRING>", [1, "x"], (1, "x")),
]


@pytest.mark.parametrize(("text", "value", "expected"), TAKEN)
def test_this_is_taken(text: str, value: Any, expected: Any) -> None:
    assert repr(codec_of(text).decode_json({"c0": value})) == repr((expected,))


REFUSED: list[tuple[str, Any]] = [
    *(("BOOLEAN", each) for each in (1, 0, "yes", "", [])),
    *(("INT", each) for each in (1.0, 1.5, True, "1.0", "", "1_0", "१", "x", 2**31, [], {})),
    *(("BIGINT", each) for each in (2**63, 1e19, "9" * 40, "9" * 5000)),
    *(
        ("DOUBLE", each)
        for each in (True, "", "nan", "inf", "1d", "0x1p3", "1_0", 10**400, "1e400")
    ),
    *(("FLOAT", each) for each in (1e39, "1e39", "x")),
    *(("DECIMAL(4, 2)", each) for each in (True, 100, "99.995", "NaN", "1_0", "", "1e999999999")),
    *(("DECIMAL(4, 2)", each) for each in (math.nan, math.inf, 0.1234567890123456)),
    *(("STRING", each) for each in (1, True, [], {})),
    *(("BYTES", each) for each in ("A", "AA=", "A A=", "-_==", "é", 1)),
    *(("DATE", each) for each in ("2020-1-1", "20200101", "2021-02-29", "0000-01-01", 18262)),
    *(("DATE", each) for each in ("2020-W01-1", "2020-01-01T00:00", "२०२०-01-01", "10000-01-01")),
    *(("TIME(3)", each) for each in ("24:00", "10", "10:60", "10:00:60", "10:00Z", 5)),
    *(("TIMESTAMP(3)", each) for each in ("2020-01-01", "2020-01-01 24:00:00", 0)),
    *(("TIMESTAMP(3)", each) for each in ("2020-01-01 00:00:00Z", "2020-02-30 00:00:00")),
    *(("TIMESTAMP_LTZ(3)", each) for each in ("2020-01-01 00:00:00", "2020-01-01 00:00:00+19:00")),
    *(("TIMESTAMP_LTZ(3)", each) for each in ("0001-01-01 00:00:00+00:01", "2020-01-01Z")),
    *(("ARRAY<INT>", each) for each in (1, {}, ["x"])),
    ("ARRAY<INT NOT NULL>", [None]),
    *(("MAP<INT, INT>", each) for each in ({"1": 1, "01": 2}, [[1, 1], [1, 2]], [[1]], [1], 5)),
    ("MAP<INT, INT>", [[None, 1]]),
    *(("ROW<a INT NOT NULL>", each) for each in ({}, [], [1, 2], {"a": None}, 1)),
    ("INT NOT NULL", None),
]


@pytest.mark.parametrize(("text", "value"), REFUSED)
def test_this_is_refused_by_column(text: str, value: Any) -> None:
    with pytest.raises(CodecError) as caught:
        codec_of("INT", text).decode_json({"c0": 1, "c1": value})

    assert caught.value.column == "c1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(types(), JSON)
@settings(deadline=None)
def test_any_json_gives_a_value_of_the_type_or_an_error_of_ours(
    logical: LogicalType, value: Any
) -> None:
    codec = RowCodec([logical], ["c"])

    try:
        row = codec.decode_json([value])
    except CodecError:
        return

    assert repr(codec.decode(codec.encode(row))) == repr(row)


@given(types(), st.data())
@settings(deadline=None)
def test_what_is_shown_and_what_is_canonical_is_read_back(
    logical: LogicalType, data: st.DataObject
) -> None:
    codec = RowCodec([logical], ["c"])
    row = codec.encode([data.draw(values(logical))])

    shown = orjson.loads(orjson.dumps(codec.to_json(codec.decode(row))))

    assert codec.encode(codec.decode_json(shown)) == row
    assert codec.encode(codec.decode_json(orjson.loads(row))) == row


@pytest.mark.parametrize("data", [None, 7, "x", [], [1, 2, 3]])
def test_a_row_must_be_an_object_or_all_values(data: Any) -> None:
    with pytest.raises(CodecError, match="must be 2 columns"):
        codec_of("INT", "INT").decode_json(data)


def test_other_fields_are_ignored_and_missing_ones_are_null() -> None:
    assert codec_of("INT", "INT").decode_json({"c1": 1, "other": "x"}) == (None, 1)


def test_an_error_never_holds_the_value() -> None:
    secret = "4111-1111"
    for text in ("INT", "DOUBLE", "DECIMAL(5, 2)", "DATE", "TIMESTAMP(3)", "BYTES", "BOOLEAN"):
        with pytest.raises(CodecError) as caught:
            codec_of(text).decode_json([secret])

        error: BaseException | None = caught.value
        while error is not None:
            assert secret not in str(error)
            error = error.__cause__
