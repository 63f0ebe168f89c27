"""Types in Flink's text, held to what Flink 2.3's own parser answered for the same texts."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from state import type_format, type_parse
from state.types import (
    LogicalType,
    LogicalTypeError,
    TypeParseError,
    TypeRoot,
    UnsupportedType,
    arrow_type,
    format_type,
    parse_type,
)
from tests.state.codec_strategies import types

STRING = "VARCHAR(2147483647)"
# Text, and LogicalTypeParser.parse(text).asSerializableString() in Flink 2.3.
FROM_FLINK = [
    ("int null", "INT"),
    ("INTEGER NOT NULL", "INT NOT NULL"),
    ("STRING", STRING),
    ("BYTES", "VARBINARY(2147483647)"),
    ("CHAR", "CHAR(1)"),
    ("VARCHAR", "VARCHAR(1)"),
    ("BINARY", "BINARY(1)"),
    ("VARBINARY(3)", "VARBINARY(3)"),
    ("DECIMAL", "DECIMAL(10, 0)"),
    ("DEC(5)", "DECIMAL(5, 0)"),
    ("NUMERIC(38, 38)", "DECIMAL(38, 38)"),
    ("DOUBLE PRECISION", "DOUBLE"),
    ("TIME", "TIME(0)"),
    ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
    ("TIMESTAMP", "TIMESTAMP(6)"),
    ("TIMESTAMP ( 3 )", "TIMESTAMP(3)"),
    ("TIMESTAMP(3) WITH TIME ZONE", "TIMESTAMP(3) WITH TIME ZONE"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("TIMESTAMP_LTZ", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("TIMESTAMP_LTZ(3) NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
    ("INTERVAL YEAR", "INTERVAL YEAR(2)"),
    ("INTERVAL YEAR(4) TO MONTH", "INTERVAL YEAR(4) TO MONTH"),
    ("INTERVAL MONTH", "INTERVAL MONTH"),
    ("INTERVAL DAY", "INTERVAL DAY(2)"),
    ("INTERVAL DAY(2) TO SECOND(6)", "INTERVAL DAY(2) TO SECOND(6)"),
    ("INTERVAL DAY TO HOUR", "INTERVAL DAY(2) TO HOUR"),
    ("INTERVAL HOUR TO SECOND(3)", "INTERVAL HOUR TO SECOND(3)"),
    ("INTERVAL MINUTE TO SECOND", "INTERVAL MINUTE TO SECOND(6)"),
    ("INTERVAL SECOND(6) NOT NULL", "INTERVAL SECOND(6) NOT NULL"),
    ("ARRAY<INT NOT NULL>", "ARRAY<INT NOT NULL>"),
    ("INT ARRAY", "ARRAY<INT>"),
    ("MULTISET<STRING>", f"MULTISET<{STRING}>"),
    ("MAP<STRING, ARRAY<INT>>", f"MAP<{STRING}, ARRAY<INT>>"),
    (
        "ROW<`k` INT NOT NULL, `v``x` STRING 'it''s'>",
        f"ROW<`k` INT NOT NULL, `v``x` {STRING} 'it''s'>",
    ),
    ("ROW(a INT)", "ROW<`a` INT>"),
    ("ROW<>", "ROW<>"),
    ("ROW()", "ROW<>"),
    ("ROW<`a.b` INT>", "ROW<`a.b` INT>"),
    ("ROW<`a` ROW<`b` INT NOT NULL> NOT NULL>", "ROW<`a` ROW<`b` INT NOT NULL> NOT NULL>"),
    ("NULL", "NULL"),
    ("LEGACY('DECIMAL', 'DECIMAL')", "LEGACY('DECIMAL', 'DECIMAL')"),
    ("STRUCTURED<'a.B', `f` INT>", "STRUCTURED<'a.B', `f` INT>"),
    ("VARIANT NOT NULL", "VARIANT NOT NULL"),
    ("DESCRIPTOR", "DESCRIPTOR"),
    ("BITMAP", "BITMAP"),
]
# Texts that Flink refuses, and where we stop reading.
REFUSED = [
    ("", 0),
    ("'abc'", 0),
    ("VARCHAR(0)", 0),
    ("VARCHAR(2147483648)", 8),
    ("VARCHAR(-1)", 8),
    ("VARCHAR(x)", 8),
    ("DECIMAL(39, 0)", 0),
    ("DECIMAL(5, 6)", 0),
    ("TIMESTAMP(10)", 0),
    ("ROW<a INT, a INT>", 0),
    ("NULL NOT NULL", 0),
    ("ARRAY<INT", 9),
    ("ARRAY<>", 6),
    ("MAP<INT>", 7),
    ("INT NOT", 4),
    ("INT FOO", 4),
    ("INT)", 3),
    ("ROW<`a` INT>>", 12),
    ("INT NOT NULL ARRAY NOT NULL MULTISET", 28),
    ("CHARACTER VARYING(3)", 10),
    ("INTERVAL YEAR(5)", 0),
    ("INTERVAL SECOND TO DAY", 19),
    ("a.b.c.d", 7),
]


@pytest.mark.parametrize(("text", "written"), FROM_FLINK)
def test_a_type_is_read_and_written_as_by_flink(text: str, written: str) -> None:
    assert format_type(parse_type(text)) == written
    assert parse_type(written) == parse_type(text)


@pytest.mark.parametrize(("text", "position"), REFUSED)
def test_what_flink_refuses_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(TypeParseError) as caught:
        parse_type(text)

    assert caught.value.position == position


def test_a_misspelt_type_is_told_by_its_name() -> None:
    with pytest.raises(TypeParseError, match=r"no type is called VARCHR .did you mean VARCHAR"):
        parse_type("VARCHR(3)")


def test_a_missing_backtick_is_refused_though_flink_takes_it() -> None:
    with pytest.raises(TypeParseError, match="position 4"):
        parse_type("ROW<`a INT>")


@given(types())
def test_writing_and_reading_gives_the_type_back(logical: LogicalType) -> None:
    assert parse_type(format_type(logical)) == logical


def test_the_type_of_an_empty_text_is_read_where_we_wrote_it() -> None:
    empty = LogicalType(TypeRoot.CHAR, nullable=False, length=0)

    assert parse_type(format_type(empty), is_ours=True) == empty


def test_nesting_has_a_limit() -> None:
    assert parse_type("ARRAY<" * 63 + "INT" + ">" * 63).root is TypeRoot.ARRAY
    with pytest.raises(TypeParseError, match="too many types"):
        parse_type("ARRAY<" * 100_000)


def test_a_long_text_is_shortened_in_the_message() -> None:
    with pytest.raises(TypeParseError) as caught:
        parse_type("x" * 10_000 + " !")

    assert len(str(caught.value)) < 300


def test_user_defined_types_keep_their_path() -> None:
    logical = parse_type("cat.`d``b`.t NOT NULL")

    assert logical.root is TypeRoot.UNRESOLVED
    assert logical.arguments == ("cat", "d`b", "t")
    assert format_type(logical) == "`cat`.`d``b`.`t` NOT NULL"


ARROW = [
    ("BOOLEAN", pa.bool_()),
    ("TINYINT", pa.int8()),
    ("INT NOT NULL", pa.int32()),
    ("FLOAT", pa.float32()),
    ("DECIMAL(20, 3)", pa.decimal128(20, 3)),
    ("CHAR(3)", pa.string()),
    ("BYTES", pa.binary()),
    ("DATE", pa.date32()),
    ("TIME(3)", pa.int32()),
    ("TIMESTAMP(3)", pa.timestamp("us")),
    ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC")),
    ("ARRAY<INT>", pa.list_(pa.int32())),
    ("MULTISET<INT>", pa.map_(pa.int32(), pa.int32())),
    ("MAP<STRING, DATE>", pa.map_(pa.string(), pa.date32())),
    ("ROW<a INT>", pa.struct([("a", pa.int32())])),
]


@pytest.mark.parametrize(("text", "expected"), ARROW)
def test_the_arrow_type_of(text: str, expected: pa.DataType) -> None:
    assert arrow_type(parse_type(text)) == expected


@pytest.mark.parametrize(
    "text", ["TIMESTAMP(9)", "TIME(6)", "INTERVAL MONTH", "NULL", "ARRAY<VARIANT>", "a.b"]
)
def test_types_without_a_column_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedType) as caught:
        arrow_type(parse_type(text))

    assert format_type(caught.value.logical) in str(caught.value)


def test_a_type_that_contradicts_itself_cannot_be_made() -> None:
    with pytest.raises(LogicalTypeError):
        LogicalType(TypeRoot.ROW, field_names=("a",))
    with pytest.raises(LogicalTypeError):
        LogicalType(TypeRoot.ARRAY)
    with pytest.raises(LogicalTypeError):
        LogicalType(TypeRoot.DECIMAL)


def test_the_examples_in_the_documentation_hold() -> None:
    for module in (type_format, type_parse):
        found = doctest.testmod(module)
        assert found.attempted
        assert not found.failed
