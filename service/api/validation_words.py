"""What is wrong with a value of a request, in our words: pydantic's are those of Python."""

from __future__ import annotations

import re

_OBJECT, _TRUTH, _NUMBER = "must be an object", "must be true or false", "must be a whole number"
_WORDS = {
    "missing": "is required",
    "extra_forbidden": "is not known here",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": "must be an array",
    "string_type": "must be a string",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "int_type": _NUMBER,
    "int_parsing": _NUMBER,
    "int_from_float": _NUMBER,
}
_SHOULD = re.compile(r"(Input|String|List|Dictionary) should ")


def in_words(kind: str, message: str) -> str:
    """The message of a problem that pydantic tells, by its kind.

    >>> in_words("int_type", "Input should be a valid integer")
    'must be a whole number'
    >>> in_words("less_than_equal", "Input should be less than or equal to 5")
    'must be less than or equal to 5'
    >>> in_words("too_long", "List should have at most 2 items after validation, not 3")
    'must have at most 2 items, not 3'
    """
    if kind in _WORDS:
        return _WORDS[kind]
    if found := _SHOULD.match(message):
        return "must " + message[found.end() :].replace(" after validation", "")
    return message
