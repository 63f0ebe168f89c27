"""Expressions as descriptions write them: columns by name, operators between their operands.

Source: Flink `FlinkRexUtil.getExpressionString` with `ExpressionFormat.Infix` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, FieldAccess, InputRef, Literal, SargLiteral, SymbolLiteral
from state.types import INTERVAL_ROOTS, STRING_ROOTS, TypeRoot, format_type

if TYPE_CHECKING:
    from service.plan.rex import Bound, Rex, SargRange
    from state.types import LogicalType

_BETWEEN = frozenset(
    {"=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "||", "AND", "OR",
     "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
)  # fmt: skip  # a list of names, several a line
_BEHIND = frozenset(
    {"IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"}
)


def infix_text(rex: Rex, names: tuple[str, ...]) -> str:
    """An expression over columns of these names.

    >>> from service.sql.rex import call, literal, ref
    >>> from state.types import parse_type
    >>> kind = parse_type("INT")
    >>> infix_text(call(">", [ref(0, kind), literal(5, kind)], kind), ("score",))
    '(score > 5)'
    """
    match rex:
        case InputRef(index):
            return names[index] if index < len(names) else f"${index}"
        case Literal():
            return literal_text(rex)
        case SymbolLiteral("JSON_ON_NULL"):
            return f"{rex.value}_ON_NULL"
        case SymbolLiteral():
            return f"FLAG({rex.value})"
        case SargLiteral():
            return "Sarg[" + ", ".join(map(_range, rex.ranges)) + "]"
        case Call():
            return _call(rex, [infix_text(each, names) for each in rex.operands])
        case FieldAccess():
            return f"{infix_text(rex.expression, names)}.{rex.name}"
        case _:
            return str(getattr(rex, "name", type(rex).__name__))


def prefix_text(rex: Rex, names: tuple[str, ...]) -> str:
    """An expression as Calcite writes it: operators before their operands, types of literals.

    >>> from service.sql.rex import call, literal, ref
    >>> from state.types import parse_type
    >>> kind = parse_type("BIGINT")
    >>> prefix_text(call(">", [ref(0, kind), literal(5, kind)], kind), ("score",))
    '>(score, 5:BIGINT)'
    """
    match rex:
        case Literal(str() as value, kind) if kind.root in STRING_ROOTS:
            suffix = f':{type_text(kind.with_nullable(True))} CHARACTER SET "UTF-16LE"'
            return character_text(value) + (suffix if kind.root is TypeRoot.VARCHAR else "")
        case Literal(int() as value, kind) if not isinstance(value, bool):
            is_plain = kind.root is TypeRoot.INTEGER or kind.root in INTERVAL_ROOTS
            shown = literal_text(rex)
            return shown if is_plain else f"{shown}:{type_text(kind.with_nullable(True))}"
        case Call():
            operands = [prefix_text(each, names) for each in rex.operands]
            if rex.name in ("CAST", "TRY_CAST"):
                return _call(rex, operands)
            return f"{rex.name}({', '.join(operands)})"
        case _:
            return infix_text(rex, names)


def _call(rex: Call, operands: list[str]) -> str:
    if rex.name in _BETWEEN and len(operands) > 1:
        return "(" + f" {rex.name} ".join(operands) + ")"
    if rex.name in _BEHIND and len(operands) == 1:
        return f"{operands[0]} {rex.name}"
    if rex.name in ("CAST", "TRY_CAST") and rex.type is not None:
        return f"{rex.name}({operands[0]} AS {type_text(rex.type.with_nullable(True))})"
    return f"{rex.name}({', '.join(operands)})"


def literal_text(literal: Literal) -> str:
    """A value as descriptions write it: its type only where it cannot be seen."""
    value, kind = literal.value, literal.type
    if value is None:
        return f"null:{type_text(kind.with_nullable(True))}"
    if kind.root in STRING_ROOTS:
        return _quoted(str(value))
    if isinstance(value, bool):
        return str(value).lower()
    if kind.root in INTERVAL_ROOTS:
        return f"{value}:INTERVAL {'MONTH' if 'YEAR' in kind.root.name else 'SECOND'}"
    return str(value)


def character_text(value: str) -> str:
    """A text as Calcite writes it."""
    return f"_UTF-16LE{_quoted(value)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def type_text(kind: LogicalType) -> str:
    """A type as Calcite calls it."""
    if kind.time_attribute is not None:
        name = "TIMESTAMP" if kind.root is TypeRoot.TIMESTAMP else "TIMESTAMP_LTZ"
        shown = f"{name}({kind.precision}) *{kind.time_attribute}*"
        return shown if kind.nullable else f"{shown} NOT NULL"
    text = format_type(kind)
    return f"INTEGER{text[3:]}" if kind.root is TypeRoot.INTEGER else text


def _range(part: SargRange) -> str:
    if part.lower is not None and part.lower == part.upper:
        return _value(part.lower)
    low = "(-∞" if part.lower is None else ("[" if part.lower.is_inclusive else "(")
    low += "" if part.lower is None else _value(part.lower)
    high = "+∞)" if part.upper is None else _value(part.upper)
    high += "" if part.upper is None else ("]" if part.upper.is_inclusive else ")")
    return f"{low}..{high}"


def _value(bound: Bound) -> str:
    return f"'{bound.value}'" if isinstance(bound.value, str) else str(bound.value)
