"""Keys in addresses: what is read, what is written, and that the two meet."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.runtime.inspection_errors import KeyMalformed
from service.runtime.key_text import KeyText, ShownRow
from state.types import parse_type


def keys_of(*types: str) -> KeyText:
    names = [f"k{n}" for n in range(len(types))]
    return KeyText([parse_type(each) for each in types], names)


def follow(keys: KeyText, href: str) -> tuple[Any, ...]:
    """What the route hands over when a client follows a link."""
    parts = urlsplit(f"/keys/{href}")
    text = unquote(parts.path.removeprefix("/keys/"))
    query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    return keys.parse(text, query["key"][0] if "key" in query else None)


def round_trip(keys: KeyText, values: tuple[Any, ...]) -> str:
    """The link of a key, which must lead to the same canonical key."""
    canonical = keys.codec.encode(values)
    href = keys.href(keys.shown.values(canonical))
    assert "/" not in urlsplit(f"/keys/{href}").path.removeprefix("/keys/")
    assert keys.codec.encode(follow(keys, href)) == canonical
    return href


@pytest.mark.parametrize(
    ("kind", "text", "canonical"),
    [
        ("STRING", "N14228", b'["N14228"]'),
        ("STRING", "", b'[""]'),
        ("STRING", "-", b'["-"]'),
        ("STRING", "null", b'["null"]'),
        ("STRING", "a,b", b'["a,b"]'),
        ("INT", "-17", b"[-17]"),
        ("BIGINT", "9223372036854775807", b"[9223372036854775807]"),
        ("BOOLEAN", "true", b"[true]"),
        ("DOUBLE", "-0.0", b"[-0.0]"),
        ("DECIMAL(10, 2)", "1.5", b'["1.50"]'),
        ("DATE", "2013-01-01", b'["2013-01-01"]'),
        ("TIMESTAMP(3)", "2013-01-01 05:15:00", b'["2013-01-01T05:15:00"]'),
        ("TIMESTAMP(3)", "2013-01-01T05:15:00.25", b'["2013-01-01T05:15:00.25"]'),
    ],
)
def test_a_simple_key_is_its_text(kind: str, text: str, canonical: bytes) -> None:
    keys = keys_of(kind)

    assert keys.codec.encode(keys.parse(text, None)) == canonical


SHOWN: list[tuple[str, Any]] = [
    ("BOOLEAN", True),
    ("BIGINT", -(2**63)),
    ("FLOAT", 0.1),
    ("DOUBLE", -0.0),
    ("DOUBLE", float("nan")),
    ("DECIMAL(38, 10)", Decimal("-1.5")),
    ("STRING", "T T"),
    ("BYTES", b"\x00T"),
    ("DATE", dt.date(2013, 1, 1)),
    ("TIME(3)", dt.time(5, 15, 0, 250_000)),
    ("TIMESTAMP(6)", dt.datetime(2013, 1, 1, 5, 15, 0, 1)),  # noqa: DTZ001 - it has no zone
    ("TIMESTAMP_LTZ(3)", dt.datetime(2013, 1, 1, 5, 15, tzinfo=dt.UTC)),
    ("ARRAY<TIMESTAMP(0)>", [dt.datetime(2013, 1, 1), None]),  # noqa: DTZ001 - it has no zone
    ("MAP<STRING, DATE>", [("T", dt.date(2013, 1, 1))]),
    ("ROW<`a` INT, `b` TIMESTAMP(0)>", (1, dt.datetime(2013, 1, 1))),  # noqa: DTZ001 - it has no zone
    ("INT", None),
]


@pytest.mark.parametrize(("kind", "value"), SHOWN)
def test_a_row_is_shown_as_sinks_write_it(kind: str, value: Any) -> None:
    logical = parse_type(kind)
    shown = ShownRow([logical], ["c"])
    canonical = shown.codec.encode([value])
    (line,) = shown.codec.encode_json_lines(None, shown.codec.decode_columns([canonical]))

    assert orjson.dumps(shown.row(canonical)) == bytes(line)


def test_several_columns_are_joined_by_commas() -> None:
    keys = keys_of("STRING", "INT")

    assert keys.parse("JFK,7", None) == ("JFK", 7)
    assert keys.parse(",7", None) == ("", 7)
    assert round_trip(keys, ("JFK", 7)) == "JFK,7"


@pytest.mark.parametrize("text", ["JFK", "a,b,7", "JFK,x", ""])
def test_a_text_with_other_parts_is_refused(text: str) -> None:
    with pytest.raises(KeyMalformed):
        keys_of("STRING", "INT").parse(text, None)


def test_the_long_form_takes_what_no_text_can_say() -> None:
    keys = keys_of("STRING", "INT")

    assert keys.parse("-", '["a,b", 1]') == ("a,b", 1)
    assert keys.parse("-", "[null, 1]") == (None, 1)
    assert round_trip(keys, ("a,b", 1)).startswith("-?key=")
    assert round_trip(keys, (None, 1)).startswith("-?key=")


@pytest.mark.parametrize("query", ["", "nonsense", "{}", "[]", "[1]", '["a", 1, 2]', '["a", "b"]'])
def test_a_long_form_that_does_not_fit_is_refused_without_telling_values(query: str) -> None:
    with pytest.raises(KeyMalformed) as refused:
        keys_of("STRING", "INT").parse("-", query)

    assert "nonsense" not in refused.value.message


def test_nested_keys_have_the_long_form_only() -> None:
    keys = keys_of("ARRAY<INT>")

    assert round_trip(keys, ([1, 2],)).startswith("-?key=")
    with pytest.raises(KeyMalformed):
        keys.parse("[1,2]", None)


TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(["", "-", ".", "..", "/", ",", "%", "%2F", "a b", "?", "#", "\\", "null"]),
)


@given(TEXTS, st.none() | TEXTS, st.integers(-(2**63), 2**63 - 1))
def test_every_key_is_found_again_by_its_own_link(one: str, other: str | None, number: int) -> None:
    round_trip(keys_of("STRING"), (one,))
    round_trip(keys_of("STRING", "BIGINT"), (one, number))
    round_trip(keys_of("STRING", "STRING", "BIGINT"), (one, other, number))


@given(st.floats())
def test_every_double_is_found_again(number: float) -> None:
    round_trip(keys_of("DOUBLE"), (number,))


@given(TEXTS, TEXTS)
def test_a_prefix_is_a_prefix_of_the_canonical_key(begin: str, rest: str) -> None:
    keys = keys_of("STRING", "INT")

    assert keys.codec.encode((begin + rest, 1)).startswith(keys.prefix(begin))


@pytest.mark.parametrize(
    ("kind", "text", "begins"),
    [
        ("INT", "12", b"[12"),
        ("DATE", "2013-0", b'["2013-0'),
        ("TIMESTAMP(3)", "2013-01-01 0", b'["2013-01-01T0'),
        ("DECIMAL(10, 2)", "1.", b'["1.'),
    ],
)
def test_a_prefix_is_written_as_the_column_is(kind: str, text: str, begins: bytes) -> None:
    assert keys_of(kind).prefix(text) == begins
