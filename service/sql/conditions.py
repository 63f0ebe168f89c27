"""Conditions, bound as Flink binds them.

Comparisons, AND, OR and NOT, IS, IN, BETWEEN, LIKE and SIMILAR TO.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import Call, Literal, Rex
from service.sql import types
from service.sql.coercion import as_choice, as_comparable
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.quantifiers import is_quantified, values_of
from service.sql.rex import OPPOSITES, bounded, call, search, type_of
from state.types import STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.sql.expressions import ExpressionBinder
    from state.types import LogicalType

_COMPARISONS = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.GT: ">",
    exp.LTE: "<=",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def _comparison(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    operator = _COMPARISONS[type(node)]
    if isinstance(node.expression, (exp.Any, exp.All)) and not is_quantified(node):
        return _of_list(binder, node)
    if isinstance(node.this, exp.Tuple) and operator in ("=", "<>"):
        return binder.rex(_of_each(node.this, node.expression, type(node), binder))
    return _compared(binder, binder.rex(node.this), binder.rex(node.expression), node)


def _compared(binder: ExpressionBinder, left: Rex, right: Rex, node: exp.Expression) -> Rex:
    operator = _COMPARISONS[type(node)]
    by_order = operator in ("<", ">", "<=", ">=")
    left, right = _comparable(binder, left, right, node, by_order=by_order)
    nullable = type_of(left).nullable or type_of(right).nullable
    never_null = "DISTINCT" in operator
    made = types.BOOLEAN.with_nullable(nullable and not never_null)
    return call(operator, [left, right], made)


def _of_list(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    """`v > ANY (1, w)`, or ALL: the values are brought to the type of v, as those of IN are."""
    quantifier = node.expression
    is_any = isinstance(quantifier, exp.Any)
    choices = values_of(quantifier)
    if not choices:
        raise ValidationError("ANY, SOME or ALL () has no values", binder.position(node))
    if isinstance(node.this, exp.Tuple):
        rows = [type(node)(this=node.this, expression=each) for each in choices]
        joined = exp.or_ if is_any else exp.and_
        return binder.rex(joined(*rows, wrap=False, copy=False))
    value = binder.rex(node.this)
    parts = [_compared(binder, value, as_choice(value, binder.rex(e)), node) for e in choices]
    if len(parts) == 1:
        return parts[0]
    made = types.BOOLEAN.with_nullable(types.any_nullable([type_of(each) for each in parts]))
    return bounded(call("OR" if is_any else "AND", parts, made))


def _of_each(
    left: exp.Expression,
    right: exp.Expression,
    kind: type[exp.Expression],
    binder: ExpressionBinder,
) -> exp.Expression:
    """The comparison of two rows: all of their values are equal, or one is not."""
    if not left.expressions:
        raise ValidationError("a row has at least one value", binder.position(left))
    if not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
        raise ValidationError(
            f"a row of {len(left.expressions)} values is compared with something else",
            binder.position(left),
        )
    pairs = zip(left.expressions, right.expressions, strict=True)
    parts = [kind(this=one, expression=other) for one, other in pairs]
    joined = exp.and_ if kind is exp.EQ else exp.or_
    made: exp.Expression = joined(*parts, wrap=False, copy=False)
    return made


def _comparable(
    binder: ExpressionBinder, left: Rex, right: Rex, node: exp.Expression, *, by_order: bool = False
) -> tuple[Rex, Rex]:
    made = as_comparable(left, right, by_order=by_order)
    if made is None:
        kinds = type_of(left).root.name, type_of(right).root.name
        raise ValidationError(
            f"{kinds[0]} cannot be compared with {kinds[1]}",
            binder.position(node),
            hint="a CAST of one of them can",
        )
    return made


def _logical(binder: ExpressionBinder, node: exp.Expression, *, negated: bool = False) -> Rex:
    """AND or OR; negated each of its parts is, as in Flink, and the other of the two holds them."""
    name = "AND" if isinstance(node, exp.And) != negated else "OR"
    operands: list[Rex] = []
    pending: list[exp.Expression] = [node]
    while pending:
        part = pending.pop()
        if type(part) is type(node):
            pending += [part.expression, part.this]
        else:
            bound = _not(binder, exp.Not(this=part)) if negated else binder.condition(part)
            if isinstance(bound, Call) and bound.name == name:
                operands += bound.operands
            else:
                operands.append(bound)
    nullable = types.any_nullable([type_of(each) for each in operands])
    return call(name, operands, types.BOOLEAN.with_nullable(nullable))


def _not(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    inner, negated = node.this, True
    while isinstance(inner, (exp.Paren, exp.Not)):
        negated ^= isinstance(inner, exp.Not)
        inner = inner.this
    if not negated:
        return binder.condition(inner)
    if isinstance(inner, exp.Is):
        return _is(binder, inner, negated=True)
    if isinstance(inner, exp.Between):
        return _between(binder, inner, negated=True)
    if isinstance(inner, exp.And | exp.Or):
        return _logical(binder, inner, negated=True)
    operand = binder.condition(inner)
    if isinstance(operand, Call) and operand.name in OPPOSITES:
        # As in Flink, where NaN is neither below nor not below a number.
        return call(OPPOSITES[operand.name], operand.operands, type_of(operand))
    if isinstance(operand, Call) and operand.name == "NOT":
        return operand.operands[0]
    return call("NOT", [operand], type_of(operand))


def _is(binder: ExpressionBinder, node: exp.Expression, *, negated: bool = False) -> Rex:
    right = node.expression
    if isinstance(right, exp.Not):
        return _is(binder, exp.Is(this=node.this, expression=right.this), negated=not negated)
    if isinstance(right, exp.JSON):
        return _is_json(binder, node, right, negated=negated)
    if not isinstance(right, exp.Null | exp.Boolean):
        raise UnsupportedSql(f"IS {right.key.upper()} is not supported", binder.position(node))
    word = "NULL" if isinstance(right, exp.Null) else str(right.this).upper()
    name = f"IS {'NOT ' if negated else ''}{word}"
    is_null = isinstance(right, exp.Null)
    operand = binder.rex(node.this) if is_null else binder.condition(node.this)
    return call(name, [operand], types.BOOLEAN.with_nullable(False))


def _is_json(
    binder: ExpressionBinder, node: exp.Expression, kind: exp.Expression, *, negated: bool
) -> Rex:
    operand = binder.rex(node.this)
    if type_of(operand).root not in STRING_ROOTS:
        raise ValidationError("IS JSON is asked of a text", binder.position(node))
    name = f"IS {'NOT ' if negated else ''}JSON {str(kind.this or 'VALUE').upper()}"
    return call(name, [operand], types.BOOLEAN.with_nullable(False), syntax="POSTFIX")


def _in(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    if node.args.get("query") is not None:
        raise UnsupportedSql(
            "IN with a subquery is supported only as a condition of WHERE", binder.position(node)
        )
    if not node.expressions:
        raise ValidationError("IN () has no values", binder.position(node))
    if isinstance(node.this, exp.Tuple):
        equal = [_of_each(node.this, each, exp.EQ, binder) for each in node.expressions]
        return binder.rex(exp.or_(*equal, wrap=False, copy=False))
    value = binder.rex(node.this)
    choices = [as_choice(value, binder.rex(each)) for each in node.expressions]
    nullable = types.any_nullable([type_of(value), *map(type_of, choices)])
    made = types.BOOLEAN.with_nullable(nullable)
    pairs = [_comparable(binder, value, choice, node) for choice in choices]
    if all(isinstance(choice, Literal) and choice.value is not None for _, choice in pairs):
        return search(pairs[0][0], [(choice, choice) for _, choice in pairs], made)
    equal = [call("=", pair, made) for pair in pairs]
    return equal[0] if len(equal) == 1 else bounded(call("OR", equal, made))


def _between(binder: ExpressionBinder, node: exp.Expression, *, negated: bool = False) -> Rex:
    """BETWEEN, where NOT is in the comparisons, as in Flink: NaN is neither inside nor outside."""
    value, *ends = (binder.rex(part) for part in (node.this, node.args["low"], node.args["high"]))
    roots = {type_of(each).root for each in (value, *ends)}
    if roots & STRING_ROOTS and TypeRoot.DECIMAL in roots:
        # Flink brings all three to one type.
        raise UnsupportedSql(
            "BETWEEN of strings and DECIMALs is not supported", binder.position(node)
        )
    low, high = (_comparable(binder, value, end, node, by_order=True) for end in ends)
    nullable = types.any_nullable([type_of(each) for each in (*low, *high)])
    made = types.BOOLEAN.with_nullable(nullable)
    is_symmetric = bool(node.args.get("symmetric"))
    are_values = all(
        isinstance(end, Literal) and end.value is not None for end in (low[1], high[1])
    )
    if are_values and not negated and not is_symmetric:
        return search(low[0], [(low[1], high[1])], made)
    within = [_range(low, high, made, negated=negated)]
    if is_symmetric:
        within.append(_range(high, low, made, negated=negated))
    found = within[0] if len(within) == 1 else call("AND" if negated else "OR", within, made)
    return bounded(found)


def _range(low: tuple[Rex, Rex], high: tuple[Rex, Rex], made: LogicalType, *, negated: bool) -> Rex:
    """Whether a value is at least one end and at most the other; each end with the value first."""
    above, below, both = ("<", ">", "OR") if negated else (">=", "<=", "AND")
    return call(both, [call(above, low, made), call(below, high, made)], made)


def _like(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    return _like_of(binder, node, [binder.rex(node.this), binder.rex(node.expression)])


def _escape(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    like = node.this
    return _like_of(
        binder, like, [binder.rex(each) for each in (like.this, like.expression, node.expression)]
    )


def _like_of(binder: ExpressionBinder, node: exp.Expression, operands: list[Rex]) -> Rex:
    """LIKE, or NOT LIKE, which is a mark of the same node; or SIMILAR TO."""
    name = "SIMILAR TO" if isinstance(node, exp.SimilarTo) else "LIKE"
    if name == "SIMILAR TO" and any(type_of(each).root not in STRING_ROOTS for each in operands):
        raise ValidationError("SIMILAR TO compares texts", binder.position(node))
    binder.require_types(operands, node)
    made = types.BOOLEAN.with_nullable(types.any_nullable([type_of(each) for each in operands]))
    found = call(name, operands, made)
    return call("NOT", [found], made) if node.args.get("negate") else found


CONDITIONS: dict[type, Callable[[ExpressionBinder, exp.Expression], Rex]] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.And: _logical,
    exp.Or: _logical,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.SimilarTo: _like,
    exp.Escape: _escape,
}
"""By the kind of node: what binds it."""
