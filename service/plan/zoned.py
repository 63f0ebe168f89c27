"""Expressions of another time zone than UTC, put in terms of UTC.

What reads the zone is written anew with the functions of `operators.expressions.zones`, so that
whoever evaluates an expression needs to know no zone. What has no exact counterpart becomes a call
that nobody computes, whose name says why.

Source: Flink's `casting` rules, `ExtractCallGen`, `FloorCeilCallGen`, `CurrentTimePointCallGen`,
`DateTimeUtils` (2.3), checked by running them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from operators.expressions.rex import Call, FieldAccess, Literal, Rex
from state.types import STRING_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LTZ: Final = TypeRoot.TIMESTAMP_LTZ
_NOW: Final = LogicalType(_LTZ, nullable=False, precision=3)
_COMPARING: Final = ("=", "<>", "<", "<=", ">", ">=")
_CARRYING: Final = frozenset(
    {
        "ARRAY", "ARRAY_CONTAINS", "BETWEEN", "CARDINALITY", "CASE", "COALESCE",
        "CURRENT_WATERMARK", "ELEMENT", "GREATEST", "IF", "IFNULL", "IN", "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM", "IS NOT NULL", "IS NULL", "ITEM", "LEAST", "MAP", "NULLIF",
        "PROCTIME", "PROCTIME_MATERIALIZE", "REINTERPRET", "ROW", "SEARCH", "TYPEOF", *_COMPARING,
        "ARRAY_APPEND", "ARRAY_CONCAT", "ARRAY_DISTINCT", "ARRAY_EXCEPT", "ARRAY_INTERSECT",
        "ARRAY_MAX", "ARRAY_MIN", "ARRAY_POSITION", "ARRAY_PREPEND", "ARRAY_REMOVE",
        "ARRAY_REVERSE", "ARRAY_SLICE", "ARRAY_SORT", "ARRAY_UNION", "MAP_ENTRIES",
        "MAP_FROM_ARRAYS", "MAP_KEYS", "MAP_UNION", "MAP_VALUES",
    }
)  # fmt: skip  # a list of names, several a line
"""What hands instants on, or compares them with others: no zone is needed."""


def localized(rex: Rex, zone: str) -> Rex:
    """The expression of a zone as one of UTC.

    Args:
        rex: An expression as the plan has it.
        zone: Its `table.local-time-zone`, another than UTC.
    """
    if isinstance(rex, FieldAccess):
        return replace(rex, expression=localized(rex.expression, zone))
    if not isinstance(rex, Call):
        return rex
    call = replace(rex, operands=tuple(localized(each, zone) for each in rex.operands))
    rule = _RULES.get(call.name)
    if reads_zone(rex):
        found = rule(call, zone) if rule is not None else None
        return found or replace(call, name=f"{call.name} in the time zone {zone}")
    return call


def is_refused(call: Call) -> bool:
    """Whether the call reads the zone and has no exact counterpart in UTC."""
    rule = _RULES.get(call.name)
    return reads_zone(call) and (rule is None or rule(call, "UTC") is None)


def reads_zone(call: Call) -> bool:
    """Whether the value of a call, not that of its operands, depends on the zone."""
    if call.name in _ALWAYS:
        return True
    operands = [found for each in call.operands if (found := type_of(each)) is not None]
    if call.name in _OF_TEXTS:
        return any(each.root in STRING_ROOTS for each in operands)
    if call.name in ("CAST", "TRY_CAST"):
        return _is_zoned_cast(operands, call.type)
    if not any(map(_has_instant, operands)):
        return False
    if call.name in _CARRYING:
        return _is_mixed(operands)
    if call.name in ("+", "-"):
        # So many milliseconds or months are added to the instant in UTC.
        return _is_mixed(operands)
    return True


def type_of(rex: Rex) -> LogicalType | None:
    """The type of an expression, where it has one."""
    found = getattr(rex, "type", None)
    return found if isinstance(found, LogicalType) else None


_ALWAYS: Final = frozenset(
    {"CURRENT_DATE", "CURRENT_TIME", "FROM_UNIXTIME", "LOCALTIME", "LOCALTIMESTAMP"}
)
_OF_TEXTS: Final = frozenset({"TO_TIMESTAMP_LTZ", "UNIX_TIMESTAMP"})


def _is_zoned_cast(operands: list[LogicalType], target: LogicalType | None) -> bool:
    kinds = [each for each in (*operands, target) if each is not None]
    kept = [each for each in kinds if each.root is not TypeRoot.NULL]
    return any(map(_has_instant, kept)) and {each.root for each in kept} != {_LTZ}


def _has_instant(logical: LogicalType) -> bool:
    return logical.root is _LTZ or any(map(_has_instant, logical.children))


def _is_mixed(operands: list[LogicalType]) -> bool:
    """Whether an instant meets a time that has no zone."""
    local = {TypeRoot.TIMESTAMP, TypeRoot.DATE, TypeRoot.TIME, *STRING_ROOTS}
    return any(map(_has_instant, operands)) and any(each.root in local for each in operands)


# What becomes of a call


def _internal(name: str, operands: tuple[Rex, ...], logical: LogicalType, at: Call) -> Call:
    return Call(name, 1, "built-in", operands, logical, "FUNCTION", None, at.path)


def _moved(name: str, operands: tuple[Rex, ...], zone: str, at: Call) -> Call:
    """A function of `operators.expressions.zones`; its value is a TIMESTAMP_LTZ as the first."""
    logical = type_of(operands[0]) or _NOW
    text = LogicalType(TypeRoot.VARCHAR, nullable=False, length=len(zone))
    return _internal(name, (*operands, Literal(zone, text, at.path)), logical, at)


def _cast(call: Call, zone: str) -> Call | None:
    source, target = type_of(call.operands[0]), call.type
    if source is None or target is None:
        return None
    if source.root is _LTZ and target.root in {
        TypeRoot.TIMESTAMP, TypeRoot.DATE, TypeRoot.TIME, *STRING_ROOTS,
    }:  # fmt: skip  # a list of names, several a line
        return _on_operand("LOCAL_OF_INSTANT", call, 0, zone)
    if target.root is not _LTZ:
        return None
    if source.root in STRING_ROOTS:
        return _moved("INSTANT_OF_LOCAL", (call,), zone, call)
    if source.root is TypeRoot.DATE or source.root is TypeRoot.TIMESTAMP:
        # Digits are cut off the instant, not off the local time.
        whole = replace(target, precision=source.precision or 0)
        local = _internal("CAST", call.operands, whole, call)
        moved = _moved("INSTANT_OF_LOCAL", (local,), zone, call)
        return replace(call, operands=(moved,))
    return None


def _on_operand(name: str, call: Call, index: int, zone: str) -> Call | None:
    """The same call of the operand's local time; None where it is no instant."""
    found = type_of(call.operands[index])
    if found is None or found.root is not _LTZ:
        return None
    operands = list(call.operands)
    operands[index] = _moved(name, (operands[index],), zone, call)
    return replace(call, operands=tuple(operands))


def _compared(call: Call, zone: str) -> Call | None:
    """The same of instants: what has no zone is a local time of this one."""
    operands: list[Rex] = []
    for each in call.operands:
        found = type_of(each)
        if found is None or found.root not in TIMESTAMP_ROOTS:
            return None
        if found.root is TypeRoot.TIMESTAMP:
            local = _internal("CAST", (each,), replace(found, root=_LTZ), call)
            operands.append(_moved("INSTANT_OF_LOCAL", (local,), zone, call))
        else:
            operands.append(each)
    return replace(call, operands=tuple(operands))


def _extract(call: Call, zone: str) -> Call | None:
    return _on_operand("CLOCK_OF_INSTANT", call, 1, zone) if len(call.operands) == 2 else None


def _date_format(call: Call, zone: str) -> Call | None:
    return _on_operand("LOCAL_OF_INSTANT", call, 0, zone)


def _to_unit(call: Call, zone: str) -> Call | None:
    local = _on_operand("CLOCK_OF_INSTANT", call, 0, zone)
    if local is None or len(call.operands) != 2:
        return None
    return _moved("INSTANT_OF_CLOCK", (local, call.operands[0]), zone, call)


def _today(call: Call, zone: str) -> Call | None:
    if call.type is None:
        return None
    now = _internal("CURRENT_TIMESTAMP", (), _NOW, call)
    local = _moved("LOCAL_OF_INSTANT", (now,), zone, call)
    return _internal("CAST", (local,), call.type, call)


def _from_unixtime(call: Call, zone: str) -> Call | None:
    seconds = replace(type_of(call.operands[0]) or _NOW, root=TypeRoot.BIGINT)
    text = LogicalType(TypeRoot.VARCHAR, nullable=False, length=len(zone))
    operands = (call.operands[0], Literal(zone, text, call.path))
    moved = _internal("CLOCK_OF_SECONDS", operands, seconds, call)
    return replace(call, operands=(moved, *call.operands[1:]))


_RULES: Final[Mapping[str, Callable[[Call, str], Call | None]]] = {
    **dict.fromkeys(_COMPARING, _compared),
    "CAST": _cast,
    "TRY_CAST": _cast,
    "EXTRACT": _extract,
    "FLOOR": _to_unit,
    "CEIL": _to_unit,
    "CEILING": _to_unit,
    "DATE_FORMAT": _date_format,
    "CURRENT_DATE": _today,
    "LOCALTIMESTAMP": _today,
    "FROM_UNIXTIME": _from_unixtime,
}
