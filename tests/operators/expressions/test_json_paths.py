"""Documents and their texts."""

from __future__ import annotations

import pytest

from operators.expressions.json_paths import JsonError, parse_json, to_json


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[]", "[]"),
        ("{}", "{}"),
        ("[ [ ], { } , [1, [2]] ]", "[[],{},[1,[2]]]"),
        ('{"b": [1.50, null], "a": {"c": "x\\n"}}', '{"a":{"c":"x\\n"},"b":[1.50,null]}'),
        ('{"\\ud83d\\ude00": true, "\\uffff": 2}', '{"\U0001f600":true,"\uffff":2}'),
    ],
)
def test_a_text_is_written_again(text: str, written: str) -> None:
    assert to_json(parse_json(text)) == written


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_what_can_be_read_can_be_written(opens: str, closes: str) -> None:
    """Writing called itself more often than reading did, and ended the query."""
    text = opens * 700 + "1" + closes * 700
    assert to_json(parse_json(text)) == text


def test_what_is_nested_too_deeply_is_no_json() -> None:
    with pytest.raises(JsonError):
        parse_json("[" * 100_000 + "]" * 100_000)
