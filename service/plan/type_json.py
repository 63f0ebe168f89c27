"""Logical types as a plan holds them: SQL text, or an object where the text cannot say it all.

The object form stands for types with a time attribute, an empty literal's length 0, symbols and
user types, and for every row, array or map that has one of them inside.

Source: Flink `LogicalTypeJsonSerializer` and `LogicalTypeJsonDeserializer` (2.3).
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, get_args

from service.plan.errors import InvalidType
from service.plan.json_names import json_name
from state.types import (
    LogicalType,
    LogicalTypeError,
    TimeAttribute,
    TypeParseError,
    TypeRoot,
    parse_type,
    row_type,
)

_TIME_KINDS: tuple[str, ...] = get_args(TimeAttribute)
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_TZ, TypeRoot.TIMESTAMP_LTZ)
_LENGTHS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)


def parse_type_json(value: object, path: str) -> LogicalType:
    """The type that this JSON value stands for; the caller has limited its depth.

    Raises:
        InvalidType: It is none; the error's path is that of the innermost type.
    """
    if isinstance(value, str):
        return _parse_text(value, path)
    if not isinstance(value, dict):
        raise InvalidType(
            f"a type must be text or an object, not {json_name(value)}",
            hint="write it as SQL, for example 'BIGINT NOT NULL'",
            path=path,
        )
    try:
        parsed = _parse_object(value, path)
    except LogicalTypeError as problem:
        raise InvalidType(str(problem), path=path) from problem
    return parsed.with_nullable(_flag(value, "nullable", path, default=True))


def _parse_text(text: str, path: str) -> LogicalType:
    try:
        parsed = parse_type(text)
    except TypeParseError as problem:
        raise InvalidType(
            str(problem), hint="types are written in Flink's SQL syntax", path=path
        ) from problem
    if not _is_resolved(parsed):
        raise InvalidType(
            f"unknown type {text!r}",
            hint="user-defined types are not written as SQL text",
            path=path,
        )
    return parsed


@lru_cache(maxsize=1024)
def _is_resolved(logical: LogicalType) -> bool:
    return logical.root is not TypeRoot.UNRESOLVED and all(map(_is_resolved, logical.children))


def _parse_object(value: dict[str, Any], path: str) -> LogicalType:
    name = value.get("type")
    if name == "DISTINCT_TYPE":
        # A distinct type has the values of the type that it is made of.
        return parse_type_json(value.get("sourceType"), f"{path}/sourceType")
    root = _root(name, path)
    if root in _TIMES:
        return _parse_time(root, value, path)
    if root in _LENGTHS:
        return LogicalType(root, length=_integer(value, "length", path))
    match root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return LogicalType(
                root, children=(parse_type_json(value.get("elementType"), f"{path}/elementType"),)
            )
        case TypeRoot.MAP:
            key = parse_type_json(value.get("keyType"), f"{path}/keyType")
            item = parse_type_json(value.get("valueType"), f"{path}/valueType")
            return LogicalType(root, children=(key, item))
        case TypeRoot.ROW:
            return _parse_row(value, path)
        case TypeRoot.STRUCTURED:
            return _parse_structured(value, path)
        case TypeRoot.RAW:
            return LogicalType(root, arguments=(str(value.get("class", "")),))
        case TypeRoot.SYMBOL | TypeRoot.DESCRIPTOR | TypeRoot.NULL:
            return LogicalType(root)
        case _:
            raise InvalidType(
                f"type {name!r} has no object form",
                hint="write it as SQL text",
                path=f"{path}/type",
            )


def _root(name: object, path: str) -> TypeRoot:
    try:
        return TypeRoot(name)
    except ValueError:
        raise InvalidType(f"unknown type {name!r}", path=f"{path}/type") from None


def _parse_time(root: TypeRoot, value: dict[str, Any], path: str) -> LogicalType:
    parsed = LogicalType(root, precision=_integer(value, "precision", path))
    kind = value.get("kind", "REGULAR")
    if kind == "REGULAR":
        return parsed
    if kind not in _TIME_KINDS:
        raise InvalidType(
            f"a timestamp cannot be {kind!r}",
            hint=f"one of REGULAR, {', '.join(_TIME_KINDS)}",
            path=f"{path}/kind",
        )
    return dataclasses.replace(parsed, time_attribute=kind)


def _parse_row(value: dict[str, Any], path: str) -> LogicalType:
    names, types = _parse_fields(value.get("fields"), ("name", "fieldType"), f"{path}/fields")
    return row_type(names, types)


def _parse_structured(value: dict[str, Any], path: str) -> LogicalType:
    attributes = value.get("attributes")
    name = value.get("implementationClass") or value.get("class") or value.get("objectIdentifier")
    if attributes is None:
        # The plan was compiled without catalogue objects: only the name is known.
        return LogicalType(TypeRoot.UNRESOLVED, arguments=(str(name),))
    names, types = _parse_fields(attributes, ("name", "attributeType"), f"{path}/attributes")
    return LogicalType(
        TypeRoot.STRUCTURED, children=types, field_names=names, arguments=(str(name),)
    )


def _parse_fields(
    fields: object, keys: tuple[str, str], path: str
) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    if not isinstance(fields, list):
        raise InvalidType(f"the fields must be a list, not {json_name(fields)}", path=path)
    names: list[str] = []
    types: list[LogicalType] = []
    for index, field in enumerate(fields):
        here = f"{path}/{index}"
        if not isinstance(field, dict) or not isinstance(field.get(keys[0]), str):
            raise InvalidType("a field must be an object with a name", path=here)
        names.append(field[keys[0]])
        types.append(parse_type_json(field.get(keys[1]), f"{here}/{keys[1]}"))
    return tuple(names), tuple(types)


def _integer(value: dict[str, Any], key: str, path: str) -> int:
    number = value.get(key)
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidType(
            f"{key} must be an integer, not {json_name(number)}", path=f"{path}/{key}"
        )
    return number


def _flag(value: dict[str, Any], key: str, path: str, *, default: bool) -> bool:
    flag = value.get(key, default)
    if not isinstance(flag, bool):
        raise InvalidType(
            f"{key} must be true or false, not {json_name(flag)}", path=f"{path}/{key}"
        )
    return flag
