"""What the first of two phases sends for each aggregate: its accumulator, column by column.

Some accumulators are a class with views into state inside; plans show it, so its shape is here.

Source: Flink `AggregateUtil`, the aggregate functions' accumulators (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql.errors import UnsupportedSql
from service.sql.functions import SQUARES
from service.sql.physical.serializers import knows_serializer, list_snapshot
from service.sql.terms import AggregateCall, Row
from service.sql.types import BIGINT, DOUBLE, INT, STRING
from state.types import INTEGER_BITS, NUMBER_ROOTS, LogicalType, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Sequence

_OBJECTS = frozenset({"JSON_OBJECTAGG_NULL_ON_NULL", "JSON_OBJECTAGG_ABSENT_ON_NULL"})
_MERGEABLE = _OBJECTS | {
    "COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX", "LISTAGG", "ARRAY_AGG", "COLLECT", SQUARES,
}  # fmt: skip  # a list of names, several a line
_BITS = 64
_CLASSES = "org.apache.flink.table.runtime.functions.aggregate."
_MAP_VIEW = "org.apache.flink.table.api.dataview.MapView"


def is_mergeable(call: AggregateCall) -> bool:
    """Whether two accumulators of an aggregate can become one."""
    return call.function in _MERGEABLE


def check_phases(row: Row, calls: Sequence[AggregateCall]) -> None:
    """Refuse two phases where we do not know what the first one sends.

    Raises:
        UnsupportedSql: An aggregate keeps values of a type whose form in Java is not known here.
    """
    for each in calls:
        if each.function != "ARRAY_AGG":
            continue
        element = row.types[each.arguments[0]]
        if not knows_serializer(element):
            raise UnsupportedSql(
                f"ARRAY_AGG of {format_type(element)} in two phases is not supported",
                hint="SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'",
            )


def local_columns(
    row: Row,
    grouping: tuple[int, ...],
    calls: Sequence[AggregateCall],
    *,
    retracts: bool,
    call_retracts: Sequence[bool] | None = None,
    counts_rows: bool = False,
) -> Row:
    """The columns of the first phase: groups, accumulators, sets of distinct values.

    Args:
        row: Of the input.
        grouping: Its columns.
        calls: The aggregates.
        retracts: The input takes rows back.
        call_retracts: Which calls must be able to; None: all if `retracts`.
        counts_rows: Rows are counted, even if none is taken back: a hopping window goes on only
            while it has rows.
    """
    names = [row.names[index] for index in grouping]
    kinds = [row.types[index] for index in grouping]
    number = 0
    if call_retracts is None:
        call_retracts = [retracts for _ in calls]
    for call, may_retract in zip(calls, call_retracts, strict=True):
        given = [row.types[index] for index in call.arguments]
        for base, kind in _accumulator(call, given, retracts=may_retract):
            names.append(f"{base}${number}")
            kinds.append(kind)
            number += 1
    if (retracts or counts_rows) and not any(_counts_rows(call) for call in calls):
        names.append(f"count1${number}")
        kinds.append(BIGINT)
    for position, columns in enumerate(_distinct(calls)):
        sharing = sum(call.is_distinct and call.arguments == columns for call in calls)
        names.append(f"distinct${position}")
        key = _key_of([row.types[column] for column in columns])
        kinds.append(_map_view(key, calls=sharing, retracts=retracts))
    return Row(tuple(names), tuple(kinds))


def buffer_columns(
    row: Row, grouping: tuple[int, ...], calls: Sequence[AggregateCall], *, retracts: bool
) -> Row:
    """The columns of the incremental phase: groups and accumulators."""
    local = local_columns(row, grouping, calls, retracts=retracts)
    count = len(local) - len(_distinct(calls))
    return Row(local.names[:count], local.types[:count])


def count_star_at(calls: Sequence[AggregateCall]) -> int | None:
    """Which call counts all rows; None if none does."""
    return next((at for at, call in enumerate(calls) if _counts_rows(call)), None)


def _counts_rows(call: AggregateCall) -> bool:
    return call.function == "COUNT" and not call.arguments and call.filter is None


def _distinct(calls: Sequence[AggregateCall]) -> list[tuple[int, ...]]:
    """What sets of distinct values are of: LISTAGG's separator is a part of them."""
    found = [call.arguments for call in calls if call.is_distinct and call.arguments]
    return list(dict.fromkeys(found))


def _key_of(kinds: Sequence[LogicalType]) -> LogicalType:
    if len(kinds) == 1:
        return kinds[0]
    names = tuple(f"f{at}" for at in range(len(kinds)))
    return LogicalType(TypeRoot.ROW, children=tuple(kinds), field_names=names)


def _accumulator(
    call: AggregateCall, given: Sequence[LogicalType], *, retracts: bool
) -> list[tuple[str, LogicalType]]:
    """Names and types of an aggregate's accumulator."""
    value = given[0].with_nullable(True) if given else BIGINT
    match call.function:
        case "COUNT":
            return [("count" if call.arguments else "count1", BIGINT)]
        case "SUM" | "$SUM0":
            total = ("sum", call.type.with_nullable(True))
            is_null_aware = retracts and call.function == "SUM"
            return [total, ("count", BIGINT)] if is_null_aware else [total]
        case "AVG":
            return [("sum", _average_sum(value)), ("count", BIGINT)]
        case "MIN" | "MAX":
            name = call.function.lower()
            kind = _extreme(call.function, value) if retracts else value
            return [(name, kind)]
        case "LISTAGG" if retracts:
            return [("listagg", _list_with_retract(has_separator=len(given) > 1))]
        case "LISTAGG":
            return [("accDelimiter", STRING), ("concatAcc", STRING)]
        case "ARRAY_AGG":
            return [("array_agg", _linked_lists(value))]
        case "COLLECT":
            return [("collect", _structured("CollectAggFunction$CollectAccumulator", value, INT))]
        case function if function in _OBJECTS:
            kept = _structured("JsonObjectAggFunction$Accumulator", STRING, STRING)
            return [(function.lower(), kept)]
        case function if function == SQUARES:
            return [(function.lower(), _WELFORD)]
        case _:
            return [(call.function.lower(), value)]


_WELFORD = LogicalType(
    TypeRoot.STRUCTURED,
    children=(BIGINT.with_nullable(False), *[DOUBLE.with_nullable(False)] * 2),
    field_names=("n", "mean", "m2"),
    arguments=(f"{_CLASSES}WelfordM2AggFunction$WelfordM2Accumulator",),
)


def _structured(name: str, key: LogicalType, value: LogicalType) -> LogicalType:
    """An accumulator that is a view of a map."""
    view = LogicalType(
        TypeRoot.RAW, children=(key.with_nullable(False), value), arguments=(_MAP_VIEW,)
    )
    return LogicalType(
        TypeRoot.STRUCTURED,
        children=(view,),
        field_names=("map",),
        arguments=(f"{_CLASSES}{name}",),
    )


def _linked_lists(value: LogicalType) -> LogicalType:
    """An accumulator that is a list of values, and one of those taken back too early."""
    kept = LogicalType(TypeRoot.RAW, arguments=("java.util.LinkedList", list_snapshot(value)))
    return LogicalType(
        TypeRoot.STRUCTURED,
        children=(kept, kept),
        field_names=("list", "retractList"),
        arguments=(f"{_CLASSES}ArrayAggFunction$ArrayAggAccumulator",),
    )


def _average_sum(value: LogicalType) -> LogicalType:
    if value.root in INTEGER_BITS:
        return BIGINT
    if value.root is TypeRoot.DECIMAL:
        return LogicalType(TypeRoot.DECIMAL, precision=38, scale=value.scale)
    assert value.root in NUMBER_ROOTS, "an average is of numbers"
    return DOUBLE


def _map_view(key: LogicalType, *, calls: int, retracts: bool) -> LogicalType:
    """The set of distinct values: a view of a map from value to how often it is there.

    Calls with filters of their own share a set: each has a bit of the number, or, where values are
    taken back, a number of its own.
    """
    count = BIGINT.with_nullable(False)
    has_many = calls > (1 if retracts else _BITS)
    value = LogicalType(TypeRoot.ARRAY, children=(count,)) if has_many else count
    return LogicalType(
        TypeRoot.RAW,
        children=(key, value),
        arguments=(_MAP_VIEW,),
    )


def _extreme(function: str, value: LogicalType) -> LogicalType:
    """All values with their counts, to find the next best when one is taken back."""
    name = function.capitalize()
    view = LogicalType(
        TypeRoot.RAW,
        children=(value.with_nullable(False), BIGINT),
        arguments=(_MAP_VIEW,),
    )
    return LogicalType(
        TypeRoot.STRUCTURED,
        children=(value, BIGINT, view),
        field_names=(function.lower(), "mapSize", "map"),
        arguments=(
            "org.apache.flink.table.runtime.functions.aggregate."
            f"{name}WithRetractAggFunction${name}WithRetractAccumulator",
        ),
    )


def _list_with_retract(*, has_separator: bool) -> LogicalType:
    view = LogicalType(
        TypeRoot.RAW,
        children=(STRING.with_nullable(False),),
        arguments=("org.apache.flink.table.api.dataview.ListView",),
    )
    name = "ListAggWsWithRetract" if has_separator else "ListAggWithRetract"
    return LogicalType(
        TypeRoot.STRUCTURED,
        children=(view, view, *([STRING] if has_separator else [])),
        field_names=("list", "retractList", *(["delimiter"] if has_separator else [])),
        arguments=(f"{_CLASSES}{name}AggFunction${name}Accumulator",),
    )
