"""How documents are written again; what the functions give is recorded of Flink."""

from __future__ import annotations

import pytest

from operators.expressions.json_paths import parse_json, to_json


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"a":[1,{"b":[],"c":{}},[2,null]],"b":"\\"","c":true}',
        "[" * 700 + "]" * 700,
        '{"a":' * 700 + "1" + "}" * 700,
    ],
    ids=["array", "object", "both", "deep arrays", "deep objects"],
)
def test_a_document_is_written_as_it_was_read_however_deep_it_is(text: str) -> None:
    """What can be read must not end the query when it is written."""
    assert to_json(parse_json(text)) == text


def test_names_are_written_in_their_order() -> None:
    assert to_json(parse_json('{"b": [1, 2], "a": {"d": 1.50, "c": "x"}}')) == (
        '{"a":{"c":"x","d":1.50},"b":[1,2]}'
    )
