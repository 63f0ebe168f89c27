"""Expressions that read the session's time zone, `table.local-time-zone`.

Expressions are computed in UTC. A TIMESTAMP_LTZ is an instant; what tells its fields or its text,
or takes a text for one, depends on the zone, and so do the functions between seconds and texts. In
another zone than UTC these are refused by name: they would silently give other values than Flink.

Source: Flink's `casting` rules, `ExtractCallGen`, `FloorCeilCallGen`, `DateTimeUtils` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.expressions.rex import Call, Literal, SargLiteral, walk
from service.plan.rex import parse_rex
from state.types import STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from operators.expressions.rex import Rex

ZONE_OPTION = "table.local-time-zone"
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"})
_ALWAYS = frozenset(
    {"CURRENT_DATE", "CURRENT_TIME", "FROM_UNIXTIME", "LOCALTIME", "LOCALTIMESTAMP"}
)
_OF_TEXTS = frozenset({"TO_TIMESTAMP_LTZ", "UNIX_TIMESTAMP"})
_COMPARING = frozenset(
    {
        "=", "<>", "<", "<=", ">", ">=", "BETWEEN", "GREATEST", "IN", "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM", "LEAST", "NULLIF", "SEARCH",
    }
)  # fmt: skip  # a list of names, several a line
_CARRYING = frozenset(
    {
        "ARRAY", "ARRAY_CONTAINS", "CARDINALITY", "CASE", "COALESCE", "CURRENT_WATERMARK",
        "ELEMENT", "IF", "IFNULL", "IS NOT NULL", "IS NULL", "ITEM", "MAP", "PROCTIME",
        "PROCTIME_MATERIALIZE", "REINTERPRET", "ROW",
    }
)  # fmt: skip  # a list of names, several a line
_CASTS = frozenset({"CAST", "TRY_CAST"})


def is_utc(zone: str) -> bool:
    """Whether a zone is UTC, by one of its usual names."""
    return zone.strip() in _UTC_NAMES


def zone_readers(properties: Any, path: str, *, literals: bool) -> Iterator[tuple[str, str]]:
    """The functions in a node's properties that read the zone, each with its place.

    Args:
        properties: JSON; expressions are found wherever they stand in it.
        path: Its place in the document.
        literals: Whether a literal of TIMESTAMP_LTZ is one, too: it was a text in SQL.
    """
    if isinstance(properties, dict):
        if properties.get("kind") in ("CALL", "LITERAL", "FIELD_ACCESS"):
            for part in walk(parse_rex(properties, path)):
                name = _reader(part, literals=literals)
                if name is not None:
                    yield name, part.path
            return
        for key, value in properties.items():
            yield from zone_readers(value, f"{path}/{key}", literals=literals)
    elif isinstance(properties, list):
        for index, value in enumerate(properties):
            yield from zone_readers(value, f"{path}/{index}", literals=literals)


def _reader(part: Rex, *, literals: bool) -> str | None:
    if isinstance(part, Literal | SargLiteral):
        is_instant = part.type.root is TypeRoot.TIMESTAMP_LTZ
        return "a TIMESTAMP_LTZ of a text" if literals and is_instant else None
    if isinstance(part, Call) and _reads_zone(part):
        return part.name
    return None


def _reads_zone(call: Call) -> bool:
    if call.name in _ALWAYS:
        return True
    operands = [found for each in call.operands if (found := _type_of(each)) is not None]
    if call.name in _OF_TEXTS:
        return any(each.root in STRING_ROOTS for each in operands)
    if call.name in _CARRYING:
        return False
    if call.name in _CASTS:
        return _is_zoned_cast(operands, call.type)
    if not any(map(_has_instant, operands)):
        return False
    if call.name in _COMPARING:
        return _is_mixed(operands)
    if call.name in ("+", "-"):
        # So many milliseconds are the same in every zone; months are not.
        return _is_mixed(operands) or _has_months([*operands, call.type])
    return True


def _type_of(rex: Rex) -> LogicalType | None:
    found = getattr(rex, "type", None)
    return found if isinstance(found, LogicalType) else None


def _is_zoned_cast(operands: list[LogicalType], target: LogicalType | None) -> bool:
    kinds = [each for each in (*operands, target) if each is not None]
    kept = [each for each in kinds if each.root is not TypeRoot.NULL]
    if not any(map(_has_instant, kept)):
        return False
    return {each.root for each in kept} != {TypeRoot.TIMESTAMP_LTZ}


def _has_instant(logical: LogicalType) -> bool:
    return logical.root is TypeRoot.TIMESTAMP_LTZ or any(map(_has_instant, logical.children))


def _is_mixed(operands: list[LogicalType]) -> bool:
    """Whether an instant meets a time that has no zone."""
    local = {TypeRoot.TIMESTAMP, TypeRoot.DATE, TypeRoot.TIME, *STRING_ROOTS}
    return any(map(_has_instant, operands)) and any(each.root in local for each in operands)


def _has_months(types: list[LogicalType | None]) -> bool:
    return any(each is not None and each.root is TypeRoot.INTERVAL_YEAR_MONTH for each in types)
