"""What kinds of JSON values are called in messages."""

from __future__ import annotations


def json_name(value: object) -> str:
    """What a JSON value is, for messages that must not repeat it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
