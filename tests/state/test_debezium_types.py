"""Values that do not say what they are, by the schema of an event or by what a table says.

Expected values are those of Java's `Instant`, `LocalDate` and `BigDecimal` for the same numbers and
bytes, as Debezium's converters make them.
"""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Context, Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.debezium_types import BY_SHORT_NAME
from state.json_lines import LineDecoder
from state.line_shapes import DebeziumLines
from state.types import parse_type

CONNECT = "org.apache.kafka.connect.data."


def name_of(short: str) -> str:
    return BY_SHORT_NAME[short].name


def decoded(kind: str, value: object, **shape: Any) -> tuple[list[Any], list[tuple[int, str]]]:
    """The column of a table with one, of an event with this value."""
    logical = parse_type(kind)
    lines = DebeziumLines(columns={"v": logical}, **shape)
    found = LineDecoder([logical], ["v"], lines).decode(event(value, shape.get("in_payload")))
    return found.columns[0].to_pylist(), found.rejected


def event(value: object, schema: object = None) -> bytes:
    payload = {"op": "c", "before": None, "after": {"v": value}}
    if schema is None:
        return orjson.dumps(payload)
    return orjson.dumps({"schema": None, "payload": payload})


def with_schema(kind: str, value: object, name: str, **field: Any) -> Any:
    """The same of an event whose schema gives the field this name."""
    logical = parse_type(kind)
    image = {"type": "struct", "fields": [{"field": "v", "name": name, **field}]}
    fields = [{**image, "field": each} for each in ("before", "after")]
    # What every event of a connector has beside its rows.
    fields.append(
        {"type": "struct", "name": "io.debezium.connector.postgresql.Source", "field": "source"}
    )
    document = {"schema": {"type": "struct", "fields": fields}}
    document["payload"] = {"op": "u", "before": {"v": None}, "after": {"v": value}}
    lines = DebeziumLines(columns={"v": logical}, in_payload=True)
    found = LineDecoder([logical], ["v"], lines).decode(orjson.dumps(document))
    assert list(found.kinds) == ([1, 2] if not found.rejected else [])
    return found.columns[0].to_pylist()[1:], found.rejected


def base64_of(unscaled: int) -> str:
    size = (unscaled.bit_length() + 8) // 8
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("short", "value", "kind", "expected"),
    [
        # microseconds, none of them lost, and right before 1970
        ("MicroTimestamp", 1_700_000_000_123_456, "TIMESTAMP(6)", at("2023-11-14 22:13:20.123456")),
        ("MicroTimestamp", -1, "TIMESTAMP(6)", at("1969-12-31 23:59:59.999999")),
        ("MicroTimestamp", -1, "TIMESTAMP(3)", at("1969-12-31 23:59:59.999")),
        ("MicroTimestamp", -62_135_596_800_000_000, "TIMESTAMP(6)", at("0001-01-01 00:00:00")),
        ("MicroTimestamp", 253_402_300_799_999_999, "TIMESTAMP(6)",
         at("9999-12-31 23:59:59.999999")),
        ("MicroTimestamp", -1, "TIMESTAMP_LTZ(6)", at("1969-12-31 23:59:59.999999+00:00")),
        ("NanoTimestamp", 1_700_000_000_123_456_789, "TIMESTAMP(6)",
         at("2023-11-14 22:13:20.123456")),
        ("NanoTimestamp", -1, "TIMESTAMP(6)", at("1969-12-31 23:59:59.999999")),
        ("Timestamp", -1, "TIMESTAMP(3)", at("1969-12-31 23:59:59.999")),
        ("Timestamp", 0, "TIMESTAMP_LTZ(3)", at("1970-01-01 00:00:00+00:00")),
        ("Date", -1, "DATE", dt.date(1969, 12, 31)),
        ("Date", 19_782, "DATE", dt.date(2024, 2, 29)),
        # times of the day
        ("Time", 86_399_999, "TIME(3)", 86_399_999),
        ("MicroTime", 43_200_123_456, "TIME(3)", 43_200_123),
        ("NanoTime", 43_200_123_456_789, "TIME(3)", 43_200_123),
        ("ZonedTime", "00:30:00.5+02:00", "TIME(3)", 81_000_500),
        ("ZonedTime", "10:00:00Z", "TIME(0)", 36_000_000),
        # an instant, wherever it was written
        ("ZonedTimestamp", "2024-01-01T01:00:00.123456+02:00", "TIMESTAMP_LTZ(6)",
         at("2023-12-31 23:00:00.123456+00:00")),
        ("ZonedTimestamp", "2024-01-01T01:00:00Z", "TIMESTAMP_LTZ(3)",
         at("2024-01-01 01:00:00+00:00")),
        # decimals, also where the text is one of digits alone
        ("Decimal", base64_of(123_456), "DECIMAL(10, 2)", Decimal("1234.56")),
        ("Decimal", base64_of(-1), "DECIMAL(10, 2)", Decimal("-0.01")),
        ("Decimal", "1234", "DECIMAL(10, 0)", Decimal(0xD76DF8 - (1 << 24))),
        ("Decimal", base64_of(10**37), "DECIMAL(38, 0)", Decimal(10**37)),
        ("VariableScaleDecimal", {"scale": 3, "value": base64_of(1_500)}, "DECIMAL(10, 2)",
         Decimal("1.50")),
        ("VariableScaleDecimal", {"scale": -2, "value": base64_of(7)}, "BIGINT", 700),
        # a column of another type takes the value as it is
        ("MicroTimestamp", 7, "BIGINT", 7),
        ("Decimal", base64_of(7), "BYTES", b"\x07"),
        ("Date", None, "DATE", None),
    ],
)  # fmt: skip  # a table: a case a line
def test_values_by_the_schema_and_by_the_table(
    short: str, value: object, kind: str, expected: object
) -> None:
    is_text = parse_type(kind).root.name in ("BIGINT", "VARBINARY")
    scale = {} if is_text else {"parameters": {"scale": str(parse_type(kind).scale or 0)}}

    assert with_schema(kind, value, name_of(short), **scale) == ([expected], [])
    if BY_SHORT_NAME[short].suits(parse_type(kind)):
        found = decoded(kind, value, types={"v": BY_SHORT_NAME[short]})
        assert found == ([expected], [])


@pytest.mark.parametrize("short", ["Date", "Time", "Timestamp", "Decimal"])
def test_kafka_connects_own_types_are_known_too(short: str) -> None:
    cases = {"Date": (1, "DATE", dt.date(1970, 1, 2)), "Time": (1, "TIME(3)", 1)}
    cases |= {"Timestamp": (1, "TIMESTAMP(3)", at("1970-01-01 00:00:00.001"))}
    value, kind, expected = cases.get(short, (base64_of(5), "DECIMAL(3, 1)", Decimal("0.5")))

    found = with_schema(kind, value, f"{CONNECT}{short}", parameters={"scale": "1"})

    assert found == ([expected], [])


def test_the_scale_of_a_decimal_is_that_of_the_schema() -> None:
    named = (base64_of(15), f"{CONNECT}Decimal")
    for kind, expected in (("DECIMAL(10, 4)", Decimal("1.5000")), ("STRING", "1.5")):
        assert with_schema(kind, *named, parameters={"scale": "1"}) == ([expected], [])


@pytest.mark.parametrize(
    ("short", "value", "kind", "words"),
    [
        ("MicroTimestamp", "now", "TIMESTAMP(6)", "a string in place of microseconds"),
        ("MicroTimestamp", 1.5, "TIMESTAMP(6)", "in place of microseconds"),
        ("MicroTimestamp", True, "TIMESTAMP(6)", "in place of microseconds"),
        # PostgreSQL's infinity
        ("MicroTimestamp", 9_223_372_036_825_200_000, "TIMESTAMP(6)", "outside of the years"),
        ("Date", 2_932_897, "DATE", "outside of the years"),
        ("MicroTime", 86_400_000_000, "TIME(3)", "outside of a day"),
        ("ZonedTime", "25:00:00Z", "TIME(3)", "time with its offset"),
        ("ZonedTimestamp", "2024-01-01T01:00:00", "TIMESTAMP_LTZ(3)", "another form"),
        ("ZonedTimestamp", "0001-01-01T00:00:00+01:00", "TIMESTAMP_LTZ(3)", "outside of the years"),
        ("Decimal", "?", "DECIMAL(10, 2)", "not base64"),
        ("Decimal", "", "DECIMAL(10, 2)", "no digits"),
        ("Decimal", base64_of(10**10), "DECIMAL(5, 0)", "out of range"),
        ("Decimal", 7, "DECIMAL(5, 0)", "in place of the bytes"),
        ("VariableScaleDecimal", {"value": "Bw=="}, "DECIMAL(5, 0)", "scale and value"),
        ("VariableScaleDecimal", {"scale": 1, "value": base64_of(15)}, "INT", "a fraction"),
    ],
)
def test_what_is_no_such_value_is_a_dead_letter(
    short: str, value: object, kind: str, words: str
) -> None:
    rows, rejected = with_schema(kind, value, name_of(short), parameters={"scale": "0"})

    assert rows == []
    ((_, reason),) = rejected
    assert words in reason
    assert "v" in reason


@given(micros=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_no_microsecond_is_lost(micros: int) -> None:
    (found,), _ = decoded("TIMESTAMP(6)", micros, types={"v": BY_SHORT_NAME["MicroTimestamp"]})

    assert (found - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) == micros  # noqa: DTZ001 - no zone


@given(unscaled=st.integers(1 - 10**38, 10**38 - 1), scale=st.integers(0, 38))
def test_no_digit_is_lost(unscaled: int, scale: int) -> None:
    types = {"v": BY_SHORT_NAME["Decimal"]}

    (found,), _ = decoded(f"DECIMAL(38, {scale})", base64_of(unscaled), types=types)

    assert int(found.scaleb(scale, Context(prec=50))) == unscaled


def test_a_line_without_a_schema_is_read_as_before() -> None:
    plain = decoded("TIMESTAMP(6)", "2024-01-01 00:00:00", in_payload=True)

    assert plain == ([at("2024-01-01 00:00:00")], [])
