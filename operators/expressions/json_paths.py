"""JSON as Flink's functions read it: documents, paths into them, and how they are written again.

    path      $  .name  ['name']  [0]  [-1]  [*]  .*     behind it; `lax` or `strict` before it
    document  dict, list, str, bool, int, Decimal, None

What stands behind the first value of a text is passed over. A path with `*` gives a list of all
that it meets; one without gives one value, or is an error, which `lax` takes for nothing. Without a
word before it a path is strict.

Source: Flink `SqlJsonUtils` (2.3) over Jackson and Jayway's JsonPath, by running them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

Document: TypeAlias = Any  # what a text holds is known when it is read
Step: TypeAlias = str | int | None
"""A name, an index, or None: all of them."""

_MODE = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)
_STEP = re.compile(
    r"""\.(?:(\*)|([^\s.\[\](),?*@'"]+))|\[\s*(?:(\*)|(-?\d{1,9})|'([^'\\]*)'|"([^"\\]*)")\s*\]"""
)
_BLANKS = " \t\r\n"
_NUMBER_DIGITS_MAX = 1_000
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"} | {
    "\b": "\\b",
    "\f": "\\f",
}


class JsonError(Exception):
    """A text is no JSON, or has nothing where a path leads."""


class Written(str):
    """What stands in the text of a document as it is."""

    __slots__ = ()


_COMMA = Written(",")


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path, and whether what is not there is nothing or an error."""

    is_lax: bool
    steps: tuple[Step, ...]

    @property
    def is_definite(self) -> bool:
        """Whether it leads to one value at most."""
        return None not in self.steps


def parse_path(text: str) -> JsonPath | None:
    """The path that a text is; None if it is none that we read."""
    mode = _MODE.fullmatch(text)
    is_lax, spec = (mode[1].lower() == "lax", mode[2]) if mode is not None else (False, text)
    spec = spec.strip()
    if not spec.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(spec):
        found = _STEP.match(spec, at)
        if found is None:
            return None
        star, name, every, index, single, double = found.groups()
        if star or every:
            steps.append(None)
        elif index is not None:
            steps.append(int(index))
        else:
            steps.append(next(each for each in (name, single, double) if each is not None))
        at = found.end()
    return JsonPath(is_lax, tuple(steps))


def parse_json(text: str) -> Document:
    """The first value of a text.

    Raises:
        JsonError: It begins with none.
    """
    start = len(text) - len(text.lstrip(_BLANKS))
    try:
        found, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError, InvalidOperation) as problem:
        raise JsonError("the text is no JSON") from problem
    behind = text[end : end + 1]
    is_number = isinstance(found, (int, Decimal)) and not isinstance(found, bool)
    is_word = found is None or isinstance(found, bool)
    if (is_number and behind and behind not in _BLANKS) or (is_word and _goes_on(behind)):
        raise JsonError("the text is no JSON")
    return found


def read(document: Document, path: JsonPath) -> Document:
    """What a path leads to; of a lax one None, or an empty list, where that is nothing.

    Raises:
        JsonError: A strict one leads to nothing, or to `null`, or the document is `null`.
    """
    if document is None:
        raise JsonError("null has no parts")
    out: list[Document] = []
    try:
        _walk(document, path, 0, out, is_definite=True)
    except JsonError:
        if not path.is_lax:
            raise
        return None if path.is_definite else []
    if not path.is_definite:
        return out
    found = out[0] if out else None
    if found is None and not path.is_lax:
        raise JsonError("the path leads to null")
    return found


def to_json(document: Document) -> str:
    """The text of a document: names in their order, no blanks.

    Not by calling itself: what can be read is nested as deeply as Python calls.
    """
    text: list[str] = []
    left: list[Document] = [document]
    while left:
        match left.pop():
            case Written() as written:
                text.append(written)
            case dict() as parts:
                text.append("{")
                left.append(Written("}"))
                names = sorted(parts, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
                for name in reversed(names):
                    left += (parts[name], Written(f"{_quoted(name)}:"), _COMMA)
                if names:
                    left.pop()
            case list() as parts:
                text.append("[")
                left.append(Written("]"))
                for part in reversed(parts):
                    left += (part, _COMMA)
                if parts:
                    left.pop()
            case str() as found:
                text.append(_quoted(found))
            case found:
                text.append(scalar_text(found))
    return "".join(text)


def scalar_text(value: Document) -> str:
    """The text of a value that has no parts; of a text itself."""
    match value:
        case str():
            # Half of a pair of UTF-16 units is a question mark, as Java writes it.
            return value.encode("utf-8", "replace").decode()
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def is_scalar(value: Document) -> bool:
    """Whether a value has no parts."""
    return not isinstance(value, (dict, list))


def _goes_on(behind: str) -> bool:
    """Whether a word is longer than `true` and its like."""
    return behind.isalnum() or behind in ("_", "$")


def _walk(
    model: Document, path: JsonPath, at: int, out: list[Document], *, is_definite: bool
) -> None:
    if at == len(path.steps):
        out.append(model)
        return
    match path.steps[at]:
        case None:
            _walk_all(model, path, at, out)
        case str(name):
            if not isinstance(model, dict):
                _nothing(is_definite=is_definite)
            elif name in model:
                _walk(model[name], path, at + 1, out, is_definite=is_definite)
            elif at + 1 < len(path.steps):
                _nothing(is_definite=is_definite and not path.is_lax)
        case int(index):
            if not isinstance(model, list):
                _nothing(is_definite=is_definite and not path.is_lax)
            elif -len(model) <= index < len(model):
                _walk(model[index], path, at + 1, out, is_definite=is_definite)


def _walk_all(model: Document, path: JsonPath, at: int, out: list[Document]) -> None:
    parts = model.values() if isinstance(model, dict) else model if isinstance(model, list) else ()
    for part in parts:
        _walk(part, path, at + 1, out, is_definite=False)


def _nothing(*, is_definite: bool) -> None:
    if is_definite:
        raise JsonError("the path leads to nothing")


def _quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, scalar_text(text))) + '"'


def _escaped(letter: str) -> str:
    found = _ESCAPES.get(letter)
    if found is not None:
        return found
    return letter if letter >= " " else f"\\u{ord(letter):04X}"


def _decimal(text: str) -> Decimal:
    if len(text) > _NUMBER_DIGITS_MAX:
        raise JsonError("a number is too long")
    found = Decimal(text)
    # Java's numbers have no zero below zero.
    return found or found.copy_abs()


def _whole(text: str) -> int:
    if len(text) > _NUMBER_DIGITS_MAX:
        raise JsonError("a number is too long")
    return int(text)


def _constant(text: str) -> Document:
    raise JsonError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_float=_decimal, parse_int=_whole, parse_constant=_constant)
