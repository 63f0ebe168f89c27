"""Expressions in the spec of an operator: a tree as JSON values, and back.

    InputRef        ["ref", index, type, path]
    Literal         ["lit", value, type, path]
    SymbolLiteral   ["symbol", symbol, value, type, path]
    SargLiteral     ["sarg", [[lower, upper], ...], null_as, type, path]
                    where an end is null or [value, is_inclusive]
    Call            ["call", name, version, origin, [operands], type or null, syntax, kind, path]
    FieldAccess     ["field", name, expression, path]

A type is an object of those of its attributes that are not the default (`state.types`). The service
writes specs and workers of the same version read them, so the form may change from one version to
the next. Nodes that no operator evaluates (a correlation, a pattern, a table argument) have none.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from operators.errors import InvalidSpec
from operators.expressions.errors import UnsupportedExpression
from operators.expressions.rex import (
    Bound,
    Call,
    FieldAccess,
    InputRef,
    Literal,
    Rex,
    SargLiteral,
    SargRange,
    SymbolLiteral,
)
from state.types import LogicalType, LogicalTypeError, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_DEFAULTS = {each.name: each.default for each in fields(LogicalType)}
_TUPLES = ("field_names", "arguments", "field_comments")


def rex_to_json(rex: Rex) -> list[Any]:
    """The expression as JSON values, for a spec.

    Raises:
        UnsupportedExpression: a node in it is none that an operator can evaluate.
    """
    match rex:
        case InputRef():
            return ["ref", rex.index, _type(rex.type), rex.path]
        case Literal():
            return ["lit", rex.value, _type(rex.type), rex.path]
        case SymbolLiteral():
            return ["symbol", rex.symbol, rex.value, _type(rex.type), rex.path]
        case SargLiteral():
            ranges = [[_bound(part.lower), _bound(part.upper)] for part in rex.ranges]
            return ["sarg", ranges, rex.null_as, _type(rex.type), rex.path]
        case Call():
            operands = [rex_to_json(operand) for operand in rex.operands]
            logical = None if rex.type is None else _type(rex.type)
            head = ["call", rex.name, rex.version, rex.origin, operands]
            return [*head, logical, rex.syntax, rex.sql_kind, rex.path]
        case FieldAccess():
            return ["field", rex.name, rex_to_json(rex.expression), rex.path]
        case _:
            name = type(rex).__name__
            raise UnsupportedExpression(
                f"{name} is not supported: it belongs to nodes that are not run here",
                function=name,
                path=rex.path,
            )


def rex_from_json(value: Any) -> Rex:  # JSON of any shape: what does not fit raises, and is refused
    """The expression that `rex_to_json` wrote.

    Raises:
        InvalidSpec: it is something else.
    """
    try:
        kind, *rest = value
        return _READERS[kind](*rest)
    except (TypeError, ValueError, KeyError, LogicalTypeError):
        raise InvalidSpec("an expression in the spec cannot be read") from None


def _type(logical: LogicalType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(logical, name)
        if value == default:
            continue
        if name == "root":
            value = value.value
        elif name == "children":
            value = [_type(child) for child in value]
        found[name] = value
    return found


def _read_type(value: Mapping[str, Any]) -> LogicalType:
    given: dict[str, Any] = dict(value)
    given["root"] = TypeRoot(given["root"])
    if "children" in given:
        given["children"] = tuple(_read_type(child) for child in given["children"])
    for name in _TUPLES:
        if name in given:
            given[name] = tuple(given[name])
    return LogicalType(**given)


def _bound(bound: Bound | None) -> list[Any] | None:
    return None if bound is None else [bound.value, bound.is_inclusive]


def _read_range(value: Iterable[Sequence[Any] | None]) -> SargRange:
    lower, upper = (None if end is None else Bound(*end) for end in value)
    return SargRange(lower, upper)


_READERS: Mapping[str, Callable[..., Rex]] = {
    "ref": lambda index, kind, path: InputRef(index, _read_type(kind), path),
    "lit": lambda value, kind, path: Literal(value, _read_type(kind), path),
    "symbol": lambda symbol, value, kind, path: SymbolLiteral(
        symbol, value, _read_type(kind), path
    ),
    "sarg": lambda ranges, null_as, kind, path: SargLiteral(
        tuple(map(_read_range, ranges)), null_as, _read_type(kind), path
    ),
    "call": lambda name, version, origin, operands, kind, syntax, sql_kind, path: Call(
        name,
        version,
        origin,
        tuple(map(rex_from_json, operands)),
        None if kind is None else _read_type(kind),
        syntax,
        sql_kind,
        path,
    ),
    "field": lambda name, expression, path: FieldAccess(name, rex_from_json(expression), path),
}
