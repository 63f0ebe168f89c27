"""JSON_VALUE, JSON_QUERY, JSON_EXISTS and IS JSON in Python; Spark's columns call these, too.

Of JSON NULL is NULL. A value of another JSON type than is returned (`RETURNING INT` of a text) ends
the query, as it ends a job of Flink, whatever ON ERROR says.

Source: Flink `SqlJsonUtils`, `JsonValueCallGen` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from operators.expressions.errors import EvaluationFailed
from operators.expressions.json_paths import (
    Document,
    JsonError,
    JsonPath,
    is_scalar,
    parse_json,
    parse_path,
    read,
    scalar_text,
    to_json,
)
from state.types import LENGTH_MAX, STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run
    from operators.expressions.site import Site

_INT = range(-(1 << 31), 1 << 31)
_NOTHING = "a JSON function finds nothing, and ON EMPTY says ERROR"
_WRONG = "a JSON function finds no JSON, no path or no such value, and ON ERROR says ERROR"
_KINDS: dict[str, Callable[[Document], bool]] = {
    "VALUE": lambda _: True,
    "OBJECT": lambda found: isinstance(found, dict),
    "ARRAY": lambda found: isinstance(found, list),
    "SCALAR": is_scalar,
}
IS_JSON = {
    f"IS {negation}JSON {kind}": (kind, bool(negation))
    for negation in ("", "NOT ")
    for kind in _KINDS
}
"""The predicates: what kind of JSON they ask for, and whether the answer is turned round."""


@dataclass(frozen=True, slots=True)
class _On:
    """What a function gives for nothing, or for an error."""

    behaviour: str = "NULL"
    default: Run | None = None

    def value(self, row: Row, message: str) -> Any:
        """What stands for it in a row.

        Raises:
            EvaluationFailed: It is ERROR.
        """
        match self.behaviour:
            case "ERROR":
                raise EvaluationFailed(message)
            case "DEFAULT":
                assert self.default is not None, "a default has a value"
                return self.default(row)
            case "TRUE" | "FALSE":
                return self.behaviour == "TRUE"
            case "EMPTY_ARRAY":
                return "[]"
            case "EMPTY_OBJECT":
                return "{}"
            case _:
                return None


def json_value(site: Site) -> Run:
    """JSON_VALUE: a value without parts, as a text, INT, DOUBLE or BOOLEAN."""
    text, find, is_lax = _search(site)
    convert = _conversion(site)
    on = {"EMPTY": _On(), "ERROR": _On()}
    rest = list(site.operands[2:])
    while rest:
        behaviour, default = str(rest.pop(0).literal), None
        if behaviour == "DEFAULT":
            given = rest.pop(0)
            if given.type.root is not site.type.root and not (
                {given.type.root, site.type.root} <= STRING_ROOTS
            ):
                site.refuse("DEFAULT must be of the type that is returned")
            default = given.run
        on[str(rest.pop(0).literal)] = _On(behaviour, default)

    def result(row: Row, found: Document) -> Any:
        if found is None or (is_lax and not is_scalar(found)):
            return on["EMPTY"].value(row, _NOTHING)
        if not is_scalar(found):
            return on["ERROR"].value(row, _WRONG)
        return convert(found)

    return _run(text, find, on["ERROR"], result)


def json_query(site: Site) -> Run:
    """JSON_QUERY: an object or array, as a text."""
    text, find, is_lax = _search(site)
    if site.type.root not in STRING_ROOTS:
        site.refuse("it returns texts only")
    wrapper, empty, error = (str(each.literal) for each in site.operands[2:5])
    on_empty, on_error = _On(empty), _On(error)

    def result(row: Row, found: Document) -> Any:
        is_wrapped = wrapper == "WITH_UNCONDITIONAL_ARRAY" or (
            wrapper == "CONDITIONAL_ARRAY" and not isinstance(found, list)
        )
        if found is not None and is_wrapped:
            found = [found]
        if found is None or (is_lax and is_scalar(found)):
            return on_empty.value(row, _NOTHING)
        return on_error.value(row, _WRONG) if is_scalar(found) else to_json(found)

    return _run(text, find, on_error, result)


def json_exists(site: Site) -> Run:
    """JSON_EXISTS: whether a path leads to something."""
    text, find, _ = _search(site)
    on_error = _On(str(site[2].literal) if len(site) > 2 else "FALSE")
    return _run(text, find, on_error, lambda _row, found: found is not None)


def is_json(site: Site) -> Run:
    """IS JSON and its like: NULL is none."""
    site.of_type(0, STRING_ROOTS)
    kind, negated = IS_JSON[site.name]
    test, operand = _KINDS[kind], site[0].run

    def run(row: Row) -> bool:
        given = operand(row)
        try:
            found = given is not None and test(parse_json(given))
        except JsonError:
            found = False
        return found is not negated

    return run


def _search(site: Site) -> tuple[Run, Callable[[str], Document], bool]:
    """The JSON, what finds the value in it that the path leads to, and whether that is lax."""
    site.of_type(0, STRING_ROOTS)
    written = site.text(1, "the path")
    path = parse_path(written)
    if path is None:
        site.refuse(
            f"the path {written!r} is not read",
            hint="$, .name, ['name'], [0] and [*], with lax or strict before them",
        )
    return site[0].run, partial(_find, path=path), path.is_lax


def _run(
    text: Run,
    find: Callable[[str], Document],
    on_error: _On,
    result: Callable[[Row, Document], Any],
) -> Run:
    """What a function gives of a row: NULL of no text, else its result of what was found."""

    def run(row: Row) -> Any:
        given = text(row)
        if given is None:
            return None
        try:
            found = find(given)
        except JsonError:
            return on_error.value(row, _WRONG)
        return result(row, found)

    return run


def _find(text: str, path: JsonPath) -> Document:
    try:
        document = parse_json(text)
    except JsonError:
        if path.is_lax:
            return None
        raise
    return read(document, path)


def _conversion(site: Site) -> Callable[[Document], Any]:
    kind: LogicalType = site.type
    match kind.root:
        case root if root in STRING_ROOTS and kind.length == LENGTH_MAX:
            return scalar_text
        case TypeRoot.INTEGER:
            return lambda found: _of(found, int, found in _INT if isinstance(found, int) else False)
        case TypeRoot.DOUBLE:
            return lambda found: float(_of(found, Decimal, True))
        case TypeRoot.BOOLEAN:
            return lambda found: _of(found, bool, True)
        case _:
            return site.refuse("RETURNING is STRING, INT, DOUBLE or BOOLEAN")


def _of(found: Document, kind: type, fits: bool) -> Any:
    if type(found) is not kind or not fits:
        raise EvaluationFailed("a JSON value is of another type than JSON_VALUE returns")
    return found
