"""The text of ordered keys sorts as their values do; it is exact, prefix-free and plain."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.lexicographic import ASCENDING, DESCENDING, Order, lexicographic_codec
from state.types import LogicalType, TypeRoot, UnsupportedType, parse_type
from state.values import CodecError
from tests.state.codec_strategies import present, scalar_types, values

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERS = [Order(descending=d, nulls_last=n) for d in (False, True) for n in (False, True)]
_orders = st.sampled_from(ORDERS)
_types = st.builds(LogicalType.with_nullable, scalar_types(), st.booleans())


def cut(logical: LogicalType, value: Any) -> Any:
    """The value without the digits of a second that its type does not have."""
    if not isinstance(value, dt.datetime | dt.time):
        return value
    unit = 10 ** (6 - (logical.precision or 0))
    return value.replace(microsecond=value.microsecond // unit * unit)


def compare(orders: Sequence[Order], one: Sequence[Any], other: Sequence[Any]) -> int:
    """-1, 0 or 1 by the order of tuples that is meant, without any encoding."""
    for order, x, y in zip(orders, one, other, strict=True):
        if x is None or y is None:
            found = (x is None) - (y is None)
            found = found if order.nulls_last else -found
        elif isinstance(x, float):
            found = _compare_floats(x, y)
            found = -found if order.descending else found
        else:
            found = (x > y) - (x < y)
            found = -found if order.descending else found
        if found:
            return found
    return 0


def _compare_floats(x: float, y: float) -> int:
    """NaN last, -0.0 before 0.0."""
    keys = [(math.isnan(z), 0.0 if math.isnan(z) else z, math.copysign(1, z)) for z in (x, y)]
    if math.isnan(x) and math.isnan(y):
        return 0
    return (keys[0] > keys[1]) - (keys[0] < keys[1])


def value_of(logical: LogicalType) -> st.SearchStrategy[Any]:
    """Values of the type as state holds them, null where it may be."""
    drawn = values(logical) if logical.nullable else present(logical)
    return drawn.map(lambda value: cut(logical, value))


@st.composite
def cases(draw: st.DrawFn, parts: int, count: int) -> tuple[Any, list[Order], list[Any]]:
    """A codec of up to so many parts, its orders, and so many tuples that share beginnings."""
    types = draw(st.lists(_types, min_size=1, max_size=parts))
    orders = [draw(_orders) for _ in types]
    pools = [draw(st.lists(value_of(each), min_size=1, max_size=4)) for each in types]
    row = st.tuples(*(st.sampled_from(pool) for pool in pools))
    rows = draw(st.lists(row, min_size=count, max_size=count))
    return lexicographic_codec(types, orders), orders, rows


@given(cases(parts=1, count=4))
def test_bytes_of_one_value_sort_as_the_values(case: tuple[Any, list[Order], list[Any]]) -> None:
    check_order(*case)


@given(cases(parts=4, count=4))
def test_bytes_of_tuples_sort_as_the_tuples(case: tuple[Any, list[Order], list[Any]]) -> None:
    check_order(*case)


def check_order(codec: Any, orders: list[Order], rows: list[Any]) -> None:
    """Each pair, both ways, and all together with something behind them."""
    texts = [codec.encode(each) for each in rows]
    for one, x in zip(rows, texts, strict=True):
        for other, y in zip(rows, texts, strict=True):
            assert (x > y) - (x < y) == compare(orders, one, other)
    behind = sorted((x + b"\t%03d" % at, at) for at, x in enumerate(texts))
    by_model = sorted(
        range(len(rows)), key=cmp_to_key(lambda a, b: compare(orders, rows[a], rows[b]))
    )
    assert [at for _, at in behind] == by_model


@given(cases(parts=4, count=4))
def test_no_text_begins_another_or_holds_a_tab_or_newline(
    case: tuple[Any, list[Order], list[Any]],
) -> None:
    codec, _, rows = case
    texts = {codec.encode(each) for each in rows}

    assert not any(b"\t" in each or b"\n" in each for each in texts)
    assert not any(x != y and y.startswith(x) for x in texts for y in texts)


@given(cases(parts=4, count=2))
def test_what_is_decoded_is_what_was_encoded(case: tuple[Any, list[Order], list[Any]]) -> None:
    codec, orders, rows = case

    for row in rows:
        again = codec.decode(codec.encode(row))
        assert compare(orders, again, row) == 0
        assert [type(each) for each in again] == [type(each) for each in row]


@given(_types, _orders, st.data())
def test_the_exact_reverse_is_descending_with_nulls_the_other_way(
    logical: LogicalType, order: Order, data: st.DataObject
) -> None:
    one, other = (data.draw(value_of(logical)) for _ in range(2))
    reverse = Order(descending=not order.descending, nulls_last=not order.nulls_last)
    forth, back = (lexicographic_codec([logical], [each]) for each in (order, reverse))

    assert (forth.encode([one]) < forth.encode([other])) == (
        back.encode([one]) > back.encode([other])
    )


@given(_types, _orders, st.binary(max_size=24))
def test_other_bytes_are_refused_or_read_as_a_value(
    logical: LogicalType, order: Order, data: bytes
) -> None:
    codec = lexicographic_codec([logical], [order])

    try:
        found = codec.decode(data)
    except CodecError:
        return
    assert len(found) == 1


def text(type_text: str, value: Any, order: Order = ASCENDING) -> bytes:
    return lexicographic_codec([parse_type(f"{type_text} NOT NULL")], [order]).encode([value])


@pytest.mark.parametrize(
    ("type_text", "value", "ascending", "descending"),
    [
        ("TINYINT", -128, b"-872", b"128"),
        ("TINYINT", 127, b"127", b"-873"),
        ("INT", 0, b"0000000000", b"0000000000"),
        ("INT", -42, b"-9999999958", b"0000000042"),
        ("BIGINT", -(2**63), b"-0776627963145224192", b"9223372036854775808"),
        ("BIGINT", 2**63 - 1, b"9223372036854775807", b"-0776627963145224193"),
        ("DECIMAL(5, 2)", Decimal("-12.50"), b"-987.50", b"012.50"),
        ("DECIMAL(3, 3)", Decimal("0.125"), b".125", b"-.875"),
        ("DOUBLE", 12.5, b"e001:1.2500000000000000", b"-e-999:8.7500000000000000"),
        ("DOUBLE", 5e-324, b"e-676:5.0000000000000000", b"-e324:5.0000000000000000"),
        ("FLOAT", 0.10000000149011612, b"e-999:1.00000000", b"-e001:9.00000000"),
        ("DOUBLE", -0.0, b"-zero", b"0"),
        ("DOUBLE", -math.inf, b"-INF", b"inf"),
        ("DOUBLE", math.nan, b"nan", b"(nan)"),
        ("STRING", "", b"\x01", b"~"),
        ("STRING", "a b", b"a b\x01", b"9edf9d~"),
        ("STRING", "\x00\t\n\x1b", b"\x1b@\x1bI\x1bJ\x1b[\x01", b"fff6f5e4~"),
        ("BYTES", b"\x00\xff", b"00ff.", b"ff00~"),
        ("BOOLEAN", True, b"true", b"TRUE"),
        ("DATE", dt.date(2020, 1, 31), b"2020-01-31", b"7979-98-68"),
        ("TIME(3)", dt.time(10, 0, 0, 500_000), b"10:00:00.500", b"89:99:99.499"),
        ("TIMESTAMP(0)", dt.datetime(1, 1, 1), b"0001-01-01T00:00:00", b"9998-98-98T99:99:99"),  # noqa: DTZ001 - no zone
        (
            "TIMESTAMP_LTZ(3)",
            dt.datetime(2020, 1, 31, 11, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            b"2020-01-31T10:00:00.000Z",
            b"7979-98-68T89:99:99.999Z",
        ),
    ],
)
def test_texts_are_readable(
    type_text: str, value: Any, ascending: bytes, descending: bytes
) -> None:
    assert text(type_text, value) == ascending
    assert text(type_text, value, DESCENDING) == descending


def test_a_text_sorts_before_those_that_it_begins() -> None:
    words = ["", "\x00", "\t", "\x1f", " ", "a", "a\x00", "a\t", "a ", "aa", "b", "é", "日", "😀"]

    assert sorted(words, key=lambda each: text("STRING", each)) == words
    assert sorted(words, key=lambda each: text("STRING", each, DESCENDING)) == words[::-1]


def test_code_points_sort_as_such_and_not_as_utf_16() -> None:
    assert text("STRING", "\uffff") < text("STRING", "\U00010000")


def test_doubles_sort_over_their_whole_range() -> None:
    above = [5e-324, 1e-5, 0.1, 0.3, 1.0, 9.999999999999998, 10.0, 2.0**53, 1.7976931348623157e308]
    rising = [-math.inf, *(-x for x in reversed(above)), -0.0, 0.0, *above, math.inf, math.nan]
    mixed = rising[1::2] + rising[::2]

    assert sorted(mixed, key=lambda x: text("DOUBLE", x)) == rising
    assert sorted(rising, key=lambda x: text("DOUBLE", x, DESCENDING)) == rising[::-1]


def test_nulls_go_where_they_are_told() -> None:
    def order(order: Order) -> list[int | None]:
        codec = lexicographic_codec([parse_type("INT")], [order])
        return sorted([None, -1, 0, 1], key=lambda each: codec.encode([each]))

    assert order(Order()) == [None, -1, 0, 1]
    assert order(Order(nulls_last=True)) == [-1, 0, 1, None]
    assert order(Order(descending=True)) == [None, 1, 0, -1]
    assert order(Order(descending=True, nulls_last=True)) == [1, 0, -1, None]


def test_the_name_tells_what_the_bytes_depend_on() -> None:
    def name(*types: str, order: Order = ASCENDING) -> str:
        return lexicographic_codec([*map(parse_type, types)], [order] * len(types)).name

    assert name("BIGINT NOT NULL", "VARCHAR(9)") == (
        "lexicographic/1 BIGINT NOT NULL ASC, STRING ASC NULLS FIRST"
    )
    assert name("CHAR(3)") == name("STRING")
    assert name("BINARY(3) NOT NULL", order=DESCENDING) == "lexicographic/1 BYTES NOT NULL DESC"
    assert name("DECIMAL(5, 2)") != name("DECIMAL(5, 1)")
    assert name("INT NOT NULL", order=Order(nulls_last=True)) == name("INT NOT NULL")
    assert name("INT", order=Order(nulls_last=True)) != name("INT")


@pytest.mark.parametrize("type_text", ["ARRAY<INT>", "MAP<INT, INT>", "ROW<a INT>", "TIMESTAMP(9)"])
def test_types_without_an_order_are_refused(type_text: str) -> None:
    with pytest.raises(UnsupportedType):
        lexicographic_codec([parse_type(type_text)])


def test_orders_and_types_must_pair() -> None:
    with pytest.raises(ValueError, match="2 orders for 1 types"):
        lexicographic_codec([LogicalType(TypeRoot.DATE)], [ASCENDING, DESCENDING])
    with pytest.raises(ValueError, match="0 orders for 0 types"):
        lexicographic_codec([])


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ((1,), "1 values"),
        ((None, "a"), "null"),
        (("secret", "a"), "a string"),
        ((2**31, "a"), "an integer out of range"),
        ((1, 2), "an integer"),
        ((1, "\ud800"), "half of a surrogate pair"),
    ],
)
def test_wrong_values_are_refused_without_showing_them(row: tuple[Any, ...], found: str) -> None:
    codec = lexicographic_codec([parse_type("INT NOT NULL"), parse_type("STRING")])

    with pytest.raises(CodecError, match=found) as error:
        codec.encode(row)

    assert "secret" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"0000000001", b"000000001,=a\x01", b"0000000001,=a"])
def test_bytes_of_another_form_are_refused(data: bytes) -> None:
    codec = lexicographic_codec([parse_type("INT NOT NULL"), parse_type("STRING")])

    with pytest.raises(CodecError, match="found other bytes"):
        codec.decode(data)
