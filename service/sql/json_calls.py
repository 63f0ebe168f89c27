"""JSON functions with a syntax of their own, with their clauses as Flink's planner writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import SymbolLiteral
from service.sql import types
from service.sql.errors import ValidationError
from service.sql.rex import call, type_of
from state.types import STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.expressions import ExpressionBinder

_ALLOWED = {
    "JSON_VALUE": frozenset({"NULL", "ERROR"}),
    "JSON_QUERY": frozenset({"NULL", "ERROR", "EMPTY_ARRAY", "EMPTY_OBJECT"}),
    "JSON_EXISTS": frozenset({"TRUE", "FALSE", "UNKNOWN", "ERROR"}),
}
_QUERY_CASE = "JSON_QUERY_ON_EMPTY_OR_ERROR"


def json_call(binder: ExpressionBinder, node: exp.Expression, made: LogicalType | None) -> Rex:
    """The call that a function with its clauses is.

    Args:
        binder: Binds its operands.
        node: The function.
        made: What RETURNING says.

    Raises:
        ValidationError: It takes no texts, or has not the clause that is written.
    """
    name, position = node.name, binder.position(node)
    operands = [binder.rex(each) for each in node.expressions]
    if len(operands) != 2 or any(type_of(each).root not in STRING_ROOTS for each in operands):
        raise ValidationError(f"{name} takes a text and a path", position)
    on: dict[str, Rex | str] = {}
    for part in node.args["on"]:
        given, what = part.this, part.expression.name
        is_word = isinstance(given, exp.Var)
        if (
            what in on
            or (not is_word and name != "JSON_VALUE")
            or (is_word and given.name not in _ALLOWED[name])
        ):
            raise ValidationError(f"{name} has no such ON {what}", position)
        on[what] = given.name if is_word else binder.rex(given)
    wrapper = node.args.get("wrapper")
    if (wrapper and name != "JSON_QUERY") or (name == "JSON_EXISTS" and ("EMPTY" in on or made)):
        raise ValidationError(f"{name} has no such clause", position)
    operands += _clauses(name, on, wrapper)
    result = types.BOOLEAN if name == "JSON_EXISTS" else made or types.STRING
    return call(name, operands, result.with_nullable(True))


def json_constructor(binder: ExpressionBinder, node: exp.Expression) -> Rex:
    """The call that JSON_OBJECT or JSON_ARRAY is.

    Raises:
        ValidationError: A name is no text, or may be NULL; or a value has no type.
    """
    name, position = node.name, binder.position(node)
    operands = [binder.rex(each) for each in node.expressions]
    names, values = (operands[::2], operands[1::2]) if name == "JSON_OBJECT" else ([], operands)
    for kind, written in zip(map(type_of, names), node.expressions[::2], strict=False):
        if kind.root not in STRING_ROOTS or kind.nullable:
            raise ValidationError(
                "a name in JSON_OBJECT is a text that is not NULL", binder.position(written)
            )
    if any(type_of(each).root is TypeRoot.NULL for each in values):
        raise ValidationError(f"NULL has no type in {name}", position, hint="CAST(NULL AS STRING)")
    nulls = _symbol("JSON_ON_NULL", node.args["nulls"])
    return call(name, [nulls, *operands], types.STRING.with_nullable(False))


def _clauses(name: str, on: dict[str, Rex | str], wrapper: str | None) -> list[Rex]:
    if name == "JSON_QUERY":
        cases = [_symbol(_QUERY_CASE, str(on.get(each, "NULL"))) for each in ("EMPTY", "ERROR")]
        return [_symbol("JSON_QUERY_WRAPPER", wrapper or "WITHOUT_ARRAY"), *cases]
    if name == "JSON_EXISTS":
        return [_symbol("JSON_EXISTS_ON_ERROR", str(each)) for each in on.values()]
    made: list[Rex] = []
    for what, given in on.items():
        if isinstance(given, str):
            made.append(_symbol("JSON_VALUE_ON_EMPTY_OR_ERROR", given))
        else:
            made += [_symbol("JSON_VALUE_ON_EMPTY_OR_ERROR", "DEFAULT"), given]
        made.append(_symbol("JSON_EMPTY_OR_ERROR", what))
    return made


def _symbol(symbol: str, value: str) -> Rex:
    return SymbolLiteral(symbol, value, LogicalType(TypeRoot.SYMBOL, nullable=False), "")
