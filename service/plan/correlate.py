"""Correlate nodes: the rows that a table function makes of each row of the input.

    UNNEST_ROWS(c)                    the elements of a collection
    UNNEST_ROWS_WITH_ORDINALITY(c)    the same, each with its number from 1
    REPLICATE_ROWS(n, a, b, ..)       the row (a, b, ..) n times; of INTERSECT ALL and EXCEPT ALL

What a collection's elements are as columns: of an ARRAY or MULTISET one column, or those of a ROW;
of a MAP key and value. A plan names columns of the input by fields of a correlation variable; here
they are references like everywhere else.

Source: Flink `LogicalUnnestRule`, `UnnestRowsFunctionBase`, `ReplicateRowsFunction` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from service.plan.errors import InvalidExpression, InvalidProperty
from service.plan.node_shapes import same_kind
from service.plan.nodes import Correlate, JoinKind
from service.plan.rex import Call, CorrelVariable, FieldAccess, InputRef, Rex, parse_rex
from state.types import INTEGER_BITS, LogicalType, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from service.plan.errors import PlanError
    from service.plan.nodes import ExecNode
    from service.plan.properties import JsonObject

ORDINALITY = "UNNEST_ROWS_WITH_ORDINALITY"
REPLICATE = "REPLICATE_ROWS"
UNNESTS = frozenset({"UNNEST_ROWS", ORDINALITY})
RUN_KINDS = ("INNER", "LEFT")
"""Ways to join that there are for what depends on the other side."""
_JOIN_KINDS: tuple[JoinKind, ...] = get_args(JoinKind)
_COLLECTIONS = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET})
_NUMBER = LogicalType(TypeRoot.INTEGER, nullable=False)


def read_correlate(
    node: JsonObject, _: LogicalType, __: Mapping[str, Mapping[str, Any]] | None
) -> Correlate:
    """The view of a correlate node.

    Raises:
        PlanError: A property is missing, or is not what it must be.
    """
    kind = node.choice("joinType", _JOIN_KINDS)
    path = node.at("functionCall")
    call = parse_rex(node.value.get("functionCall"), path)
    if not isinstance(call, Call):
        raise InvalidExpression("a table function is called", path=path)
    condition = None
    if node.has("condition"):
        condition = parse_rex(node.value["condition"], node.at("condition"))
    operands = tuple(map(_over_input, call.operands))
    return Correlate(kind, replace(call, operands=operands), condition)


def made_types(call: Call) -> tuple[LogicalType, ...] | None:
    """The columns of the rows that a table function makes; None if it is not one of ours.

    Raises:
        InvalidExpression: Its operands are not what it takes.
    """
    if call.origin != "built-in" or call.version != 1:
        return None
    if call.name == REPLICATE:
        count, *columns = map(type_of, call.operands or _missing(call))
        if count.root not in INTEGER_BITS:
            raise _wrong(call, f"it cannot repeat a row {format_type(count)} times")
        return tuple(columns)
    if call.name not in UNNESTS:
        return None
    if len(call.operands) != 1:
        raise _wrong(call, f"it takes one collection, not {len(call.operands)}")
    collection = type_of(call.operands[0])
    if collection.root not in _COLLECTIONS:
        raise _wrong(call, f"{format_type(collection)} is not a collection")
    made = element_types(collection)
    return (*made, _NUMBER) if call.name == ORDINALITY else made


def element_types(collection: LogicalType) -> tuple[LogicalType, ...]:
    """The columns that an element of a collection is."""
    if collection.root is TypeRoot.MAP:
        return collection.children
    (element,) = collection.children
    return element.children if element.root is TypeRoot.ROW else (element,)


def type_of(rex: Rex) -> LogicalType:
    """The type of an operand.

    Raises:
        InvalidExpression: It has none, or is a field that there is not.
    """
    if isinstance(rex, FieldAccess):
        row = type_of(rex.expression)
        if rex.name not in row.field_names:
            raise InvalidExpression(f"the row has no field {rex.name!r}", path=f"{rex.path}/name")
        field = row.children[row.field_names.index(rex.name)]
        return field.with_nullable(field.nullable or row.nullable)
    if rex.type is None:
        raise InvalidExpression("an expression needs a type", path=rex.path)
    return rex.type


def check_correlate(node: ExecNode, view: Correlate, row: LogicalType) -> Iterator[PlanError]:
    """What of a correlate node does not fit its input or its output; `row` is the input's type."""
    try:
        made = made_types(view.call)
    except InvalidExpression as problem:
        yield problem
        return
    if made is None:
        return
    if len(node.output_type.children) != len(row.children) + len(made):
        yield InvalidProperty(
            f"the input has {len(row.children)} columns and {view.call.name} makes {len(made)}, "
            f"but the output has {len(node.output_type.children)}",
            path=f"{node.path}/outputType",
        )
        return
    yield from _check_kinds((*row.children, *made), node)


def not_run(view: Correlate) -> tuple[str, str] | None:
    """Why a correlate node is not run, and the property that says so; None: it is."""
    if made_types(view.call) is None:
        return "functionCall", f"the table function {view.call.name} is not supported"
    if view.kind not in RUN_KINDS:
        return "joinType", f"{view.kind} cannot join a side that depends on the other one"
    return None


def _check_kinds(given: Sequence[LogicalType], node: ExecNode) -> Iterator[PlanError]:
    for at, (found, output) in enumerate(zip(given, node.output_type.children, strict=True)):
        if not same_kind(found, output):
            yield InvalidProperty(
                f"column {at} is {found.root.value}, but the output says {output.root.value}",
                path=f"{node.path}/outputType",
            )


def _over_input(rex: Rex) -> Rex:
    """An operand whose correlation variable has become the input's row."""
    if isinstance(rex, FieldAccess):
        if not isinstance(rex.expression, CorrelVariable):
            return replace(rex, expression=_over_input(rex.expression))
        row = rex.expression.type
        if rex.name not in row.field_names:
            raise InvalidExpression(f"the row has no field {rex.name!r}", path=f"{rex.path}/name")
        index = row.field_names.index(rex.name)
        return InputRef(index, row.children[index], rex.path)
    if isinstance(rex, Call):
        return replace(rex, operands=tuple(map(_over_input, rex.operands)))
    return rex


def _wrong(call: Call, message: str) -> InvalidExpression:
    return InvalidExpression(f"{call.name}: {message}", path=call.path)


def _missing(call: Call) -> tuple[Rex, ...]:
    raise _wrong(call, "it has no operands")
