"""Expressions and types as a plan writes them: the other direction of `service.plan`'s readers.

Source: Flink `RexNodeJsonSerializer` and `LogicalTypeJsonSerializer` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from service.plan.rex import (
    Bound,
    Call,
    CorrelVariable,
    FieldAccess,
    InputRef,
    Literal,
    PatternInputRef,
    Rex,
    SargLiteral,
    SymbolLiteral,
    TableArgument,
)
from state.types import LogicalType, TypeRoot, format_type, row_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.terms import Ordering, Row

_OBJECT_ONLY = frozenset({TypeRoot.SYMBOL, TypeRoot.DESCRIPTOR})


def type_to_json(logical: LogicalType) -> str | dict[str, Any]:
    """SQL text, or an object where a time attribute or an empty literal is inside."""
    if not _needs_object(logical):
        return format_type(logical)
    if logical.root is TypeRoot.RAW:
        return _view(logical)
    if logical.root is TypeRoot.STRUCTURED:
        return _structured(logical)
    value: dict[str, Any] = {"type": logical.root.value}
    if not logical.nullable:
        value["nullable"] = False
    return value | _parameters(logical)


def _needs_object(logical: LogicalType) -> bool:
    if logical.time_attribute is not None or logical.root in _OBJECT_ONLY:
        return True
    if logical.root is TypeRoot.RAW and logical.children:
        return True
    if logical.length == 0:
        return True
    return any(map(_needs_object, logical.children))


def _parameters(logical: LogicalType) -> dict[str, Any]:
    match logical.root:
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ | TypeRoot.TIMESTAMP_TZ:
            return {"precision": logical.precision, "kind": logical.time_attribute or "REGULAR"}
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return {"length": logical.length}
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return {"elementType": type_to_json(logical.children[0])}
        case TypeRoot.MAP:
            key, item = logical.children
            return {"keyType": type_to_json(key), "valueType": type_to_json(item)}
        case TypeRoot.ROW:
            fields = zip(logical.field_names, logical.children, strict=True)
            return {
                "fields": [
                    {"name": name, "fieldType": type_to_json(child)} for name, child in fields
                ]
            }
        case _:
            return {}


def _structured(logical: LogicalType) -> dict[str, Any]:
    """An accumulator class."""
    attributes = zip(logical.field_names, logical.children, strict=True)
    return {
        "type": logical.root.value,
        "implementationClass": logical.arguments[0],
        "attributes": [
            {"name": name, "attributeType": type_to_json(child)} for name, child in attributes
        ],
        "comparison": "EQUALS",
    }


def _view(view: LogicalType) -> dict[str, Any]:
    """A view into state: of a map from value to count, or of a list."""
    name, key = view.arguments[0], view.children[0]
    is_map = len(view.children) == 2
    inner = ", ".join(format_type(child) for child in view.children)
    field = "map" if is_map else "list"
    text = f"STRUCTURED<'{name}', `{field}` {'MAP' if is_map else 'ARRAY'}<{inner}>>"
    value: dict[str, Any] = {"type": "RAW", "class": name}
    described: dict[str, Any] = {"name": field}
    internal = _INTERNAL_CLASSES.get(key.root)
    if internal is not None and is_map:
        described["keyClass"] = {"conversionClass": internal}
    elif internal is not None:
        described["conversionClass"] = "java.util.List"
        described["elementClass"] = {"conversionClass": internal}
    if is_map and view.children[1].root is TypeRoot.ARRAY:
        numbers = {"conversionClass": "[J", "elementClass": {"conversionClass": "long"}}
        described["valueClass"] = numbers
    elif is_map and view.children[1].root in _INTERNAL_CLASSES:
        described["valueClass"] = {"conversionClass": _INTERNAL_CLASSES[view.children[1].root]}
    if len(described) == 1:
        return value | {"externalDataType": text}
    return value | {"externalDataType": {"logicalType": text, "fields": [described]}}


_INTERNAL_CLASSES = {
    TypeRoot.VARCHAR: "org.apache.flink.table.data.StringData",
    TypeRoot.CHAR: "org.apache.flink.table.data.StringData",
    TypeRoot.ROW: "org.apache.flink.table.data.RowData",
    TypeRoot.DECIMAL: "org.apache.flink.table.data.DecimalData",
    TypeRoot.TIMESTAMP: "org.apache.flink.table.data.TimestampData",
    TypeRoot.TIMESTAMP_LTZ: "org.apache.flink.table.data.TimestampData",
    TypeRoot.DATE: "java.lang.Integer",
    TypeRoot.TIME: "java.lang.Integer",
}
"""What a key in a view is to Java, where that is not the class that its type has by default."""


def row_to_json(row: Row, *, nullable: bool = True) -> str | dict[str, Any]:
    """Columns as the type of a row."""
    return type_to_json(row_type(row.names, row.types, nullable=nullable))


def order_to_json(order: Sequence[Ordering]) -> dict[str, Any]:
    """Columns and directions."""
    return {
        "fields": [
            {"index": key.column, "isAscending": key.is_ascending, "nullIsLast": key.nulls_last}
            for key in order
        ]
    }


def rex_list(expressions: Sequence[Rex]) -> list[dict[str, Any]]:
    """Several expressions."""
    return [rex_to_json(rex) for rex in expressions]


def rex_to_json(rex: Rex) -> dict[str, Any]:
    """An expression."""
    match rex:
        case InputRef():
            kind = {"kind": "INPUT_REF", "inputIndex": rex.index}
            return kind | {"type": type_to_json(rex.type)}
        case Literal():
            kind = {"kind": "LITERAL", "value": rex.value}
            return kind | {"type": type_to_json(rex.type)}
        case SymbolLiteral():
            kind = {"kind": "LITERAL", "symbol": rex.symbol, "value": rex.value}
            return kind | {"type": type_to_json(rex.type)}
        case SargLiteral():
            return {"kind": "LITERAL", "sarg": _sarg(rex), "type": type_to_json(rex.type)}
        case Call():
            return _call(rex)
        case FieldAccess():
            return {"kind": "FIELD_ACCESS", "name": rex.name, "expr": rex_to_json(rex.expression)}
        case CorrelVariable():
            kind = {"kind": "CORREL_VARIABLE", "correl": rex.name}
            return kind | {"type": type_to_json(rex.type)}
        case PatternInputRef() | TableArgument():
            raise AssertionError("the binder makes no such expression")
        case _:
            assert_never(rex)


def _call(rex: Call) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": "CALL"}
    if rex.syntax != "FUNCTION":
        value["syntax"] = rex.syntax
    value["internalName"] = f"${rex.name}${rex.version}"
    if rex.operands:
        value["operands"] = rex_list(rex.operands)
    assert rex.type is not None, "the binder gives every call a type"
    return value | {"type": type_to_json(rex.type)}


def _sarg(rex: SargLiteral) -> dict[str, Any]:
    ranges = [
        {
            key: _bound(bound)
            for key, bound in (("lower", each.lower), ("upper", each.upper))
            if bound is not None
        }
        for each in rex.ranges
    ]
    return {"ranges": ranges, "nullAs": rex.null_as}


def _bound(bound: Bound) -> dict[str, Any]:
    return {"value": bound.value, "boundType": "CLOSED" if bound.is_inclusive else "OPEN"}
