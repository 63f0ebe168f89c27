"""Expressions of a plan (Calcite's RexNode), read from the plan's JSON.

The tree itself is `operators.expressions.rex`, which operators share; everything that has to do
with reading one is here, and the names of the tree are given on.

Source: Flink `RexNodeJsonSerializer` and `RexNodeJsonDeserializer` (2.3). Plans of 1.15 to 1.17
write `containsNull` in a search argument where later ones write `nullAs`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from operators.expressions.rex import (
    Bound,
    Call,
    CorrelVariable,
    FieldAccess,
    FunctionOrigin,
    InputRef,
    Literal,
    NullAs,
    PatternInputRef,
    PlanValue,
    Rex,
    SargLiteral,
    SargRange,
    SymbolLiteral,
    TableArgument,
    walk,
)
from service.plan.deadline import check_time
from service.plan.errors import InvalidExpression
from service.plan.rex_values import check_value
from service.plan.type_json import parse_type_json
from service.plan.zoned import localized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.types import LogicalType

__all__ = [
    "SYNTAXES",
    "ZONE_MARK",
    "Bound",
    "Call",
    "CorrelVariable",
    "FieldAccess",
    "FunctionOrigin",
    "InputRef",
    "Literal",
    "NullAs",
    "PatternInputRef",
    "PlanValue",
    "Rex",
    "SargLiteral",
    "SargRange",
    "SymbolLiteral",
    "TableArgument",
    "parse_rex",
    "walk",
]

SYNTAXES = (
    "FUNCTION", "FUNCTION_STAR", "ORDERED_FUNCTION", "BINARY", "PREFIX", "POSTFIX", "SPECIAL",
    "FUNCTION_ID", "INTERNAL",
)  # fmt: skip  # a list of names, several a line
"""How SQL writes a function; Calcite's `SqlSyntax`."""
ZONE_MARK = "localTimeZone"
"""Property of an expression whose zone is not UTC; `service.plan.local_zone` puts it there."""
_INTERNAL_NAME = re.compile(r"\$(.+)\$([0-9]{1,9})", re.DOTALL)


def parse_rex(value: object, path: str) -> Rex:
    """The expression that this JSON value stands for; the caller has limited its depth.

    Raises:
        InvalidExpression: It is none; the error's path is that of the innermost expression.
        InvalidType: A type in it is none.
    """
    check_time()
    if not isinstance(value, dict):
        raise InvalidExpression("an expression must be an object with a kind", path=path)
    kind = value.get("kind")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidExpression(
            f"unknown kind of expression {kind!r}",
            hint=f"one of {', '.join(_READERS)}",
            path=f"{path}/kind",
        )
    found, zone = read(value, path), value.get(ZONE_MARK)
    return localized(found, zone) if isinstance(zone, str) else found


def _input_ref(value: Mapping[str, Any], path: str) -> InputRef:
    return InputRef(_index(value, "inputIndex", path), _type(value, path), path)


def _literal(value: Mapping[str, Any], path: str) -> Literal | SargLiteral | SymbolLiteral:
    logical = _type(value, path)
    if "sarg" in value:
        return _sarg(value["sarg"], logical, path)
    if "value" not in value:
        raise InvalidExpression("a literal needs a value", path=path)
    if "symbol" in value:
        name = _text(value, "value", path)
        return SymbolLiteral(_text(value, "symbol", path), name, logical, path)
    plain = _plan_value(value["value"], f"{path}/value")
    check_value(plain, logical, f"{path}/value")
    return Literal(plain, logical, path)


def _sarg(value: object, logical: LogicalType, path: str) -> SargLiteral:
    here = f"{path}/sarg"
    if not isinstance(value, dict) or not isinstance(value.get("ranges"), list):
        raise InvalidExpression("a search argument needs a list of ranges", path=here)
    ranges = tuple(
        _sarg_range(entry, logical, f"{here}/ranges/{index}")
        for index, entry in enumerate(value["ranges"])
    )
    if "nullAs" in value:
        null_as = value["nullAs"]
    else:
        null_as = "TRUE" if value.get("containsNull") is True else "UNKNOWN"
    if null_as not in ("UNKNOWN", "TRUE", "FALSE"):
        raise InvalidExpression(
            "nullAs of a search argument must be UNKNOWN, TRUE or FALSE",
            path=f"{here}/nullAs",
        )
    return SargLiteral(ranges, null_as, logical, path)


def _sarg_range(value: object, logical: LogicalType, path: str) -> SargRange:
    if not isinstance(value, dict):
        raise InvalidExpression("a range must be an object", path=path)
    return SargRange(_bound(value, "lower", logical, path), _bound(value, "upper", logical, path))


def _bound(value: Mapping[str, Any], key: str, logical: LogicalType, path: str) -> Bound | None:
    if key not in value:
        return None
    bound, here = value[key], f"{path}/{key}"
    if not isinstance(bound, dict) or bound.get("boundType") not in ("OPEN", "CLOSED"):
        raise InvalidExpression("a bound needs a boundType OPEN or CLOSED", path=here)
    end = _plan_value(bound.get("value"), f"{here}/value")
    if end is None:
        raise InvalidExpression("a bound needs a value", path=f"{here}/value")
    check_value(end, logical, f"{here}/value")
    return Bound(end, bound["boundType"] == "CLOSED")


def _call(value: Mapping[str, Any], path: str) -> Call:
    name, version, origin = _function(value, path)
    operands = value.get("operands", [])
    if not isinstance(operands, list):
        raise InvalidExpression("operands must be a list", path=f"{path}/operands")
    return Call(
        name=name,
        version=version,
        origin=origin,
        operands=tuple(
            parse_rex(operand, f"{path}/operands/{index}") for index, operand in enumerate(operands)
        ),
        type=_type(value, path) if "type" in value else None,
        syntax=_syntax(value, path),
        sql_kind=_text(value, "sqlKind", path) if "sqlKind" in value else None,
        path=path,
    )


def _syntax(value: Mapping[str, Any], path: str) -> str:
    syntax = value.get("syntax", "FUNCTION")
    if syntax not in SYNTAXES:
        raise InvalidExpression(
            f"unknown syntax {syntax!r}",
            hint=f"one of {', '.join(SYNTAXES)}",
            path=f"{path}/syntax",
        )
    return str(syntax)


def _function(value: Mapping[str, Any], path: str) -> tuple[str, int | None, FunctionOrigin]:
    if "internalName" in value:
        internal = _text(value, "internalName", path)
        found = _INTERNAL_NAME.fullmatch(internal)
        if found is None:
            raise InvalidExpression(
                f"unknown function {internal!r}",
                hint="an internal name is a name and a version: $CONCAT$1",
                path=f"{path}/internalName",
            )
        return found[1], int(found[2]), "built-in"
    if "catalogName" in value:
        return _text(value, "catalogName", path), None, "catalog"
    if "class" in value:
        return _text(value, "class", path), None, "class"
    if "systemName" in value:
        return _text(value, "systemName", path), None, "system"
    raise InvalidExpression(
        "a call names no function",
        hint="internalName, catalogName, class or systemName",
        path=path,
    )


def _field_access(value: Mapping[str, Any], path: str) -> FieldAccess:
    name = _text(value, "name", path)
    return FieldAccess(name, parse_rex(value.get("expr"), f"{path}/expr"), path)


def _correl_variable(value: Mapping[str, Any], path: str) -> CorrelVariable:
    return CorrelVariable(_text(value, "correl", path), _type(value, path), path)


def _pattern_input_ref(value: Mapping[str, Any], path: str) -> PatternInputRef:
    alpha = _text(value, "alpha", path)
    return PatternInputRef(alpha, _index(value, "inputIndex", path), _type(value, path), path)


def _table_argument(value: Mapping[str, Any], path: str) -> TableArgument:
    return TableArgument(
        _index(value, "inputIndex", path),
        _indexes(value, "partitionKeys", path),
        _indexes(value, "orderKeys", path),
        _type(value, path),
        path,
    )


_READERS = {
    "INPUT_REF": _input_ref,
    "LITERAL": _literal,
    "CALL": _call,
    "FIELD_ACCESS": _field_access,
    "CORREL_VARIABLE": _correl_variable,
    "PATTERN_INPUT_REF": _pattern_input_ref,
    "TABLE_ARG_CALL": _table_argument,
}


def _type(value: Mapping[str, Any], path: str) -> LogicalType:
    if "type" not in value:
        raise InvalidExpression("an expression needs a type", path=path)
    return parse_type_json(value["type"], f"{path}/type")


def _plan_value(value: object, path: str) -> PlanValue:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidExpression("a value must be a JSON scalar", path=path)


def _text(value: Mapping[str, Any], key: str, path: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not text:
        raise InvalidExpression(f"{key} must be a string", path=f"{path}/{key}")
    return text


def _index(value: Mapping[str, Any], key: str, path: str) -> int:
    index = value.get(key)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise InvalidExpression(f"{key} must be a number from 0", path=f"{path}/{key}")
    return index


def _indexes(value: Mapping[str, Any], key: str, path: str) -> tuple[int, ...]:
    indexes = value.get(key, [])
    if not isinstance(indexes, list):
        raise InvalidExpression(f"{key} must be a list", path=f"{path}/{key}")
    return tuple(
        _index({key: index}, key, f"{path}/{position}") for position, index in enumerate(indexes)
    )
