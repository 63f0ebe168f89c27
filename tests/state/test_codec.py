"""Canonical rows: one form for each value, and columns that agree with single rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.arrow_values import python_values, to_column
from state.codec import CodecError, RowCodec
from state.types import LogicalType, parse_type
from tests.state.codec_strategies import types, values

Table = tuple[list[LogicalType], list[tuple[Any, ...]]]


def codec_of(*texts: str) -> RowCodec:
    return RowCodec([parse_type(each) for each in texts], [f"c{n}" for n in range(len(texts))])


def at(*parts: int) -> dt.datetime:
    """A time without a zone, as TIMESTAMP has it."""
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=None)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(types(), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*map(values, columns)), max_size=6))
    return columns, rows


def of_table(table: Table) -> tuple[RowCodec, list[pa.Array]]:
    columns, rows = table
    codec = RowCodec(columns, [f"c{n}" for n in range(len(columns))])
    data = zip(*rows, strict=True) if rows else [()] * len(columns)
    return codec, [to_column(t, list(each)) for t, each in zip(columns, data, strict=True)]


@given(tables())
@settings(deadline=None)
def test_columns_encode_as_single_rows_do(table: Table) -> None:
    codec, columns = of_table(table)

    rows = codec.encode_columns(columns).to_pylist()

    assert rows == [codec.encode(each) for each in table[1]]


@given(tables(), st.booleans())
@settings(deadline=None)
def test_leading_columns_are_those_of_whole_rows(table: Table, is_array: bool) -> None:
    codec, columns = of_table(table)
    rows = codec.encode_columns(columns)
    whole = codec.decode_columns(rows)

    for count in range(1, len(columns) + 1):
        leading = codec.decode_leading(rows if is_array else rows.to_pylist(), count)
        # As canonical rows, since NaN differs from itself.
        short = RowCodec(codec.types[:count], codec.names[:count])
        assert short.encode_columns(leading).equals(short.encode_columns(whole[:count]))


def test_what_is_behind_leading_numbers_is_not_parsed() -> None:
    codec = codec_of("BIGINT", "DECIMAL(5, 2)", "STRING", "INT")

    first, second = codec.decode_leading([b'[-7,"1.50",what,ever]', b"[null,null,]"], 2)

    assert first.to_pylist() == [-7, None]
    assert second.to_pylist() == [Decimal("1.50"), None]
    with pytest.raises(CodecError):
        codec.decode_leading([b'[-7,"1.50",what,ever]'], 3)


@given(tables(), st.data())
@settings(deadline=None)
def test_slices_and_chunks_encode_as_whole_columns_do(table: Table, data: st.DataObject) -> None:
    codec, columns = of_table(table)
    start = data.draw(st.integers(0, len(table[1])))
    whole = codec.encode_columns(columns).to_pylist()

    sliced = codec.encode_columns([each.slice(start) for each in columns]).to_pylist()
    chunks = [pa.chunked_array([each.slice(0, start), each.slice(start)]) for each in columns]

    assert sliced == whole[start:]
    assert codec.encode_columns(chunks).to_pylist() == whole


@given(tables())
@settings(deadline=None)
def test_rows_survive_decoding_and_are_stable(table: Table) -> None:
    codec, _ = of_table(table)
    for values_of_row in table[1]:
        row = codec.encode(values_of_row)

        assert codec.encode(codec.decode(row)) == row
        assert orjson.dumps(orjson.loads(row)) == row
        assert not {b"\n", b"\t"} & {row[n : n + 1] for n in range(len(row))}


@given(tables())
@settings(deadline=None)
def test_decoded_columns_hold_the_decoded_rows(table: Table) -> None:
    codec, _ = of_table(table)
    rows = [codec.encode(each) for each in table[1]]

    columns = codec.decode_columns(rows)

    assert [each.type for each in columns] == list(codec.arrow_types)
    assert codec.encode_columns(columns).to_pylist() == rows
    found = zip(*map(python_values, codec.types, columns), strict=True)
    assert [repr(each) for each in found] == [repr(codec.decode(each)) for each in rows]


EXAMPLES: list[tuple[str, Any, bytes]] = [
    ("BOOLEAN", True, b"[true]"),
    ("BIGINT", -(2**63), b"[-9223372036854775808]"),
    ("DOUBLE", 1, b"[1.0]"),
    ("DOUBLE", -0.0, b"[-0.0]"),
    ("DOUBLE", float("nan"), b'["NaN"]'),
    ("DOUBLE", float("-inf"), b'["-Infinity"]'),
    ("DOUBLE", 1e16, b"[1e+16]"),
    ("FLOAT", 0.1, b"[0.1]"),
    ("FLOAT", 1e15, b"[1000000000000000.0]"),
    ("FLOAT", 16777217, b"[16777216.0]"),
    ("DECIMAL(10, 2)", Decimal("-0"), b'["0.00"]'),
    ("DECIMAL(10, 2)", Decimal("1E+3"), b'["1000.00"]'),
    ("DECIMAL(38, 10)", Decimal("-1E-10"), b'["-0.0000000001"]'),
    ("DECIMAL(38, 0)", 10**38 - 1, b'["99999999999999999999999999999999999999"]'),
    ("STRING", 'q"\\\n\x00\x7fé', b'["q\\"\\\\\\n\\u0000\x7f\xc3\xa9"]'),
    ("BYTES", b"\x00\x01\x02", b'["AAEC"]'),
    ("DATE", dt.date(1, 1, 1), b'["0001-01-01"]'),
    ("TIME(3)", dt.time(1, 2, 3, 40_000), b'["01:02:03.04"]'),
    ("TIME", dt.time(1, 2, 3, 40_000), b'["01:02:03"]'),
    ("TIMESTAMP(6)", at(2020, 1, 1), b'["2020-01-01T00:00:00"]'),
    ("TIMESTAMP(6)", at(9999, 12, 31, 23, 59, 59, 10), b'["9999-12-31T23:59:59.00001"]'),
    ("TIMESTAMP(3)", at(1960, 1, 1, 0, 0, 0, 1999), b'["1960-01-01T00:00:00.001"]'),
    ("TIMESTAMP_LTZ(3)", dt.datetime(2020, 1, 1, tzinfo=dt.UTC), b'["2020-01-01T00:00:00Z"]'),
    (
        "TIMESTAMP_LTZ(3)",
        dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        b'["2019-12-31T22:00:00Z"]',
    ),
    ("ARRAY<INT>", [1, None], b"[[1,null]]"),
    ("MAP<STRING, INT>", {"b": 1, "a": None}, b'[[["a",null],["b",1]]]'),
    ("MAP<INT, INT>", [(10, 1), (9, 2)], b"[[[10,1],[9,2]]]"),
    ("MULTISET<STRING>", {"x": 2}, b'[[["x",2]]]'),
    ("ROW<a INT, b STRING>", (1, None), b"[[1,null]]"),
    ("ROW<a INT, b STRING>", {"b": "x", "a": 1}, b'[[1,"x"]]'),
    ("INT", None, b"[null]"),
]


@pytest.mark.parametrize(("text", "value", "row"), EXAMPLES)
def test_the_canonical_form_of(text: str, value: Any, row: bytes) -> None:
    assert codec_of(text).encode([value]) == row


def test_a_row_without_columns_is_an_empty_array() -> None:
    codec = RowCodec([], [])

    assert codec.encode([]) == b"[]"
    assert codec.decode(b"[]") == ()
    assert codec.encode_columns([], length=2).to_pylist() == [b"[]", b"[]"]
    assert codec.decode_columns([b"[]"]) == []


def test_nans_of_any_bits_are_one_value() -> None:
    bits = pa.array(
        [0x7FF8000000000000, 0x7FF8000000000001, -0x8000000000000 & (2**64 - 1)], pa.uint64()
    )

    rows = codec_of("DOUBLE").encode_columns([bits.view(pa.float64())]).to_pylist()

    assert rows == [b'["NaN"]'] * 3


WRONG: list[tuple[str, Any]] = [
    ("INT", True),
    ("INT", 1.0),
    ("INT", 2**31),
    ("TINYINT", -129),
    ("BOOLEAN", 1),
    ("STRING", b"x"),
    ("STRING", "\ud800"),
    ("BYTES", "x"),
    ("DOUBLE", "1"),
    ("DOUBLE", 10**400),
    ("FLOAT", 1e39),
    ("DECIMAL(4, 2)", Decimal(100)),
    ("DECIMAL(4, 2)", Decimal("0.001")),
    ("DECIMAL(4, 2)", Decimal("NaN")),
    ("DECIMAL(4, 2)", 1.5),
    ("DATE", at(2020, 1, 1)),
    ("TIMESTAMP(3)", dt.date(2020, 1, 1)),
    ("TIMESTAMP(3)", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("TIMESTAMP_LTZ(3)", at(2020, 1, 1)),
    ("ARRAY<INT>", "12"),
    ("ARRAY<INT>", ["1"]),
    ("MAP<STRING, INT>", 5),
    ("MAP<STRING, INT>", [("a", 1), ("a", 2)]),
    ("MAP<STRING, INT>", {None: 1}),
    ("ROW<a INT>", (1, 2)),
    ("ROW<a INT>", "1"),
]


@pytest.mark.parametrize(("text", "value"), WRONG)
def test_a_value_of_another_type_is_refused_by_column(text: str, value: Any) -> None:
    codec = codec_of("INT", text)

    with pytest.raises(CodecError) as caught:
        codec.encode([1, value])

    assert caught.value.column == "c1"


@pytest.mark.parametrize("row", [b"", b"{}", b"7", b"[1]", b"[1,2,3]", b'[1,"x"', b"nul"])
def test_other_bytes_are_no_row(row: bytes) -> None:
    codec = codec_of("INT", "DATE")

    with pytest.raises(CodecError):
        codec.decode(row)
    with pytest.raises(CodecError):
        codec.decode_columns([row])


@pytest.mark.parametrize(
    "text", ["DATE", "TIME(3)", "TIMESTAMP(3)", "DECIMAL(3, 1)", "ARRAY<TIME>"]
)
def test_text_that_is_no_value_is_no_row_and_not_told(text: str) -> None:
    codec = codec_of(text)
    row = b'[["12:0x"]]' if text.startswith("ARRAY") else b'["12:0x"]'

    for read in (codec.decode, lambda each: codec.decode_columns([each])):
        with pytest.raises(CodecError) as caught:
            read(row)
        assert "12:0x" not in str(caught.value)


@pytest.mark.parametrize("row", [b"[1,25", b"1,25]", b"[1,2\n5]", b'{"a":1}', b"[1,2]\n[3,4]"])
@pytest.mark.parametrize("at", range(3))
def test_rows_that_are_cut_off_are_not_read_by_what_is_left(row: bytes, at: int) -> None:
    rows = [b"[1,2]", b"[3,4]"]
    rows.insert(at, row)

    for each in (rows, [row]):
        with pytest.raises(CodecError):
            codec_of("INT", "INT").decode_columns(each)


def test_times_beyond_the_year_9999_are_refused() -> None:
    for text, number in (("DATE", 2_932_897), ("TIMESTAMP(3)", -62_135_596_800_000_001)):
        codec = codec_of(text)
        width = pa.int32() if text == "DATE" else pa.int64()
        with pytest.raises(CodecError, match="out of range"):
            codec.encode_columns([pa.array([number], width).view(codec.arrow_types[0])])


def test_bytes_that_are_not_utf8_are_refused() -> None:
    column = pa.array([b"ok", b"\xff"]).view(pa.string())

    with pytest.raises(CodecError, match="not UTF-8"):
        codec_of("STRING").encode_columns([column])
