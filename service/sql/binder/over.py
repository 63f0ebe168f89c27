"""OVER: functions over windows of rows.

SUM gives NULL for a window without values, which Flink writes as a CASE over COUNT and $SUM0,
unless its argument is never null; AVG is a quotient of these. Deviations and variances are computed
of the sums of values and of squares, in the type of the values, as Flink does.

Source: Calcite `RexBuilder.makeOver`, `SqlToRelConverter.convertOver`,
`StandardConvertletTable.AvgVarianceConvertlet`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from service.plan.rex import Literal, Rex
from service.sql import types
from service.sql.constant_folding import folded, folded_bound
from service.sql.deviations import computed, deviation_of
from service.sql.dialect import position_of
from service.sql.errors import PlanningError, UnsupportedSql, ValidationError
from service.sql.functions import (
    AGGREGATE_FUNCTIONS,
    OF_NUMBERS,
    RANK_FUNCTIONS,
    SYNONYMS,
    aggregate_type,
)
from service.sql.rex import (
    Expression,
    Frame,
    FrameBound,
    OverCall,
    SortKey,
    call,
    cast,
    literal,
    type_of,
)
from state.types import INTEGER_BITS, NUMBER_ROOTS, STRING_ROOTS, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.sql.errors import Position
    from service.sql.expressions import ExpressionBinder
    from service.sql.source_text import Fragment
    from state.types import LogicalType

UNBOUNDED = FrameBound("UNBOUNDED")
CURRENT_ROW = FrameBound("CURRENT_ROW")
_RUNNING = {
    True: Frame(True, UNBOUNDED, CURRENT_ROW),
    False: Frame(False, UNBOUNDED, CURRENT_ROW),
}


_COUNT = types.BIGINT.with_nullable(False)
_PARTS = ("partition_by", "order", "spec")
"""What a window says."""
_NEED_THE_REST = ("PERCENT_RANK", "CUME_DIST")
"""What needs rows that are still to come."""


class OverBinder:
    """Binds the OVER functions of one select list."""

    def __init__(self, fragment: Fragment, named: Mapping[str, exp.Expression]) -> None:
        self._fragment = fragment
        self._named = named

    def bind(self, node: exp.Expression, binder: ExpressionBinder) -> Expression:
        """The function of an OVER clause.

        Raises:
            ValidationError: The window is not declared, or its bounds mean nothing.
            UnsupportedSql: A function or frame that we do not plan.
            PlanningError: A function that streams do not have: it needs the rows that come later.
        """
        function, window = node.this, self._window(node)
        position = position_of(node, self._fragment)
        if not isinstance(function, exp.Anonymous):
            raise UnsupportedSql(f"{function.key.upper()} .. OVER is not supported", position)
        name = SYNONYMS.get(function.name.upper(), function.name.upper())
        partition = tuple(binder.rex(each) for each in window.get("partition_by", ()))
        keys = window["order"].expressions if "order" in window else ()
        order = tuple(self._key(each, binder) for each in keys)
        if name in RANK_FUNCTIONS:
            made = types.BIGINT.with_nullable(False)
            frame = _RUNNING[name == "ROW_NUMBER"]
            return OverCall(name, (), partition, order, frame, made)
        if name in _NEED_THE_REST:
            raise PlanningError(f"{name} Function is not supported in stream mode.", position)
        if name in ("LAG", "LEAD"):
            lagged = self._neighbour(function, binder)
            return OverCall(name, lagged[0], partition, order, _RUNNING[False], lagged[1])
        if name not in AGGREGATE_FUNCTIONS or AGGREGATE_FUNCTIONS[name].kind == "json":
            raise UnsupportedSql(f"{name} .. OVER is not supported", position)
        given = list(function.expressions)
        is_distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if is_distinct:
            given = list(given[0].expressions)
        operands = tuple(binder.rex(each) for each in given if not isinstance(each, exp.Star))
        least, most = AGGREGATE_FUNCTIONS[name].arguments
        if not least <= len(operands) <= most:
            raise ValidationError(f"{name} does not take {len(operands)} arguments", position)
        kind = AGGREGATE_FUNCTIONS[name].kind
        if kind in OF_NUMBERS and type_of(operands[0]).root not in NUMBER_ROOTS:
            raise ValidationError(f"{name} needs a number", position)
        if kind == "deviation" and is_distinct:
            raise UnsupportedSql(f"{name} of DISTINCT .. OVER is not supported", position)
        frame = self._frame(window.get("spec"), binder)
        base = OverCall(name, operands, partition, order, frame, types.BIGINT, is_distinct)
        return _aggregate(base)

    def _neighbour(
        self, function: exp.Expression, binder: ExpressionBinder
    ) -> tuple[tuple[Rex, ...], LogicalType]:
        """The operands of LAG or LEAD, and the type: NULL unless there is a default that is not."""
        bound = [binder.rex(each) for each in function.expressions]
        operands = (*bound[:1], *map(folded, bound[1:]))
        name, position = function.name.upper(), position_of(function, self._fragment)
        if not 1 <= len(operands) <= 3:
            raise ValidationError(f"{name} does not take {len(operands)} arguments", position)
        if any(type_of(each).root is TypeRoot.NULL for each in operands):
            raise ValidationError("Illegal use of 'NULL'", position)
        given = types.regular(type_of(operands[0]))
        if len(operands) > 1:
            _check_offset(name, operands[1], position)
        if len(operands) > 2:
            _check_default(operands[2], given, position)
        may_be_null = len(operands) < 3 or type_of(operands[2]).nullable
        return operands, given.with_nullable(may_be_null)

    def _window(self, node: exp.Expression, inside: tuple[str, ...] = ()) -> dict[str, Any]:
        """What a window says, and the one that it names: `OVER w`, `OVER (w ROWS ..)`."""
        own = {part: node.args[part] for part in _PARTS if node.args.get(part)}
        alias = node.args.get("alias")
        if alias is None:
            return own
        found = self._named.get(alias.name)
        if found is None or alias.name in inside:
            raise ValidationError(
                f"there is no window {alias.name!r} in the WINDOW clause",
                position_of(node, self._fragment),
            )
        base = self._window(found, (*inside, alias.name))
        # Behind a frame nothing may follow, and nobody divides what is divided.
        taken = set(_PARTS) if "spec" in base else base.keys() | {"partition_by"}
        if taken & own.keys():
            raise ValidationError(
                f"window {alias.name!r} cannot be extended in this way",
                position_of(node, self._fragment),
            )
        return base | own

    def _key(self, node: exp.Expression, binder: ExpressionBinder) -> SortKey:
        is_ascending = not node.args.get("desc")
        return SortKey(binder.rex(node.this), is_ascending, not node.args.get("nulls_first"))

    def _frame(self, spec: exp.Expression | None, binder: ExpressionBinder) -> Frame:
        if spec is None:
            return _RUNNING[False]
        lower = self._bound(spec, "start", binder)
        upper = self._bound(spec, "end", binder) if spec.args.get("end") else CURRENT_ROW
        kind = str(spec.args["kind"]).upper()
        if kind not in ("ROWS", "RANGE"):
            raise UnsupportedSql(
                f"{kind} of OVER is not supported", position_of(spec, self._fragment)
            )
        return Frame(kind == "ROWS", lower, upper)

    def _bound(self, spec: exp.Expression, which: str, binder: ExpressionBinder) -> FrameBound:
        value = spec.args.get(which)
        is_preceding = str(spec.args.get(f"{which}_side") or "").upper() != "FOLLOWING"
        if value == "CURRENT ROW":
            return CURRENT_ROW
        if value == "UNBOUNDED":
            return FrameBound("UNBOUNDED", is_preceding)
        offset = folded_bound(binder.rex(value))
        if not isinstance(offset, Literal):
            raise ValidationError(
                "the bound of a window must be a constant", position_of(spec, self._fragment)
            )
        return FrameBound("BOUNDED", is_preceding, offset)


def _check_offset(name: str, offset: Rex, position: Position) -> None:
    """Refuse an offset that is not one number.

    Flink takes columns, and forgets all rows that the smallest value so far does not reach.
    """
    if not isinstance(offset, Literal):
        raise UnsupportedSql(f"{name} with an offset that is not a constant", position)
    if offset.type.root not in INTEGER_BITS or offset.type.root is TypeRoot.BIGINT:
        raise ValidationError(f"{name} needs an offset of type INT", position)
    if not isinstance(offset.value, int) or offset.value < 0:
        raise ValidationError(f"Offset({offset.value}) should be positive.", position)


def _check_default(default: Rex, given: LogicalType, position: Position) -> None:
    """Refuse a default of another kind than the column's: as it is, it would be in its place."""
    found = type_of(default)
    wanted = f"Please explicitly cast default value {format_type(found)} to {format_type(given)}."
    if _family(found) != _family(given):
        raise ValidationError(wanted, position)
    if isinstance(default, Literal) or found.root in STRING_ROOTS:
        return
    is_same = types.regular(found).with_nullable(True) == given.with_nullable(True)
    if not is_same or found.time_attribute == "PROCTIME":
        raise UnsupportedSql(wanted, position, hint="Flink takes it as it is")


def _family(logical: LogicalType) -> TypeRoot:
    return TypeRoot.VARCHAR if logical.root in STRING_ROOTS else logical.root


def _aggregate(base: OverCall) -> Expression:
    """An aggregate function over a window: the call, or what it is computed from."""

    def over(function: str, made: LogicalType) -> OverCall:
        return replace(base, name=function, type=made)

    name = base.name
    given = [type_of(each) for each in base.operands]
    made = aggregate_type(name, given, may_be_empty=True)
    if AGGREGATE_FUNCTIONS[name].kind == "deviation":
        return _deviation(base, made)
    if name not in ("SUM", "AVG"):
        return over(name, made)
    count = over("COUNT", _COUNT)
    summed = _sum(base, given, count)
    if name == "SUM":
        return summed
    return cast(computed("/", summed, count), made)


def _deviation(base: OverCall, made: LogicalType) -> Expression:
    """(SUM(x * x) - SUM(x) * SUM(x) / COUNT(x)) / COUNT(x), or by one less; its root."""
    value = cast(base.operands[0], made.with_nullable(type_of(base.operands[0]).nullable))
    squared = computed("*", value, value)
    count = replace(base, name="COUNT", operands=(value,), type=_COUNT)
    total, squares = (
        _sum(replace(base, operands=(each,)), [type_of(each)], replace(count, operands=(each,)))
        for each in (value, squared)
    )
    mean_squared = computed("/", computed("*", total, total), count)
    return deviation_of(base.name, computed("-", squares, mean_squared), count, made)


def _sum(base: OverCall, given: list[LogicalType], count: OverCall) -> Expression:
    """SUM over a window: of what is never null, it is there for each row."""
    if not given[0].nullable:
        made = aggregate_type("SUM", given, may_be_empty=False)
        return replace(base, name="SUM", type=made)
    made = aggregate_type("$SUM0", given, may_be_empty=False)
    total = replace(base, name="$SUM0", type=made)
    zero = literal(0, types.BIGINT.with_nullable(False))
    has_rows = call(">", [count, zero], types.BOOLEAN.with_nullable(False))
    sum_type = total.type.with_nullable(True)
    null = literal(None, sum_type)
    return call("CASE", [has_rows, total, null], sum_type)
