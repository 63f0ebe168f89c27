"""Correlate nodes as a plan writes and describes them.

Source: Flink `StreamExecCorrelate` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from service.plan.correlate import REPLICATE
from service.plan.rex import Call, CorrelVariable, FieldAccess, InputRef, Rex
from service.sql.physical.expression_text import prefix_text
from service.sql.to_json import rex_to_json
from state.types import row_type

if TYPE_CHECKING:
    from service.sql.physical.nodes import CorrelateSpec, Node
    from service.sql.terms import Row

_VARIABLE = "$cor0"
"""A node has one of its own, so that all may have the same name."""


def correlate_json(spec: CorrelateSpec) -> dict[str, Any]:
    """The properties of a correlate node."""
    return {
        "joinType": spec.kind,
        "functionCall": rex_to_json(named_call(spec)),
        "condition": None if spec.condition is None else rex_to_json(spec.condition),
    }


def correlate_text(spec: CorrelateSpec, node: Node) -> str:
    """The line of a correlate node, but for the types of its columns."""
    call = named_call(spec)
    name = f"${call.name}${call.version}"
    shown = ", ".join(prefix_text(each, ()) for each in call.operands)
    names = ",".join(prefix_text(each, node.input.row.names) for each in call.operands)
    parts = [
        f"invocation=[{name}({shown})]",
        f"correlate=[table({name}({names}))]",
        f"select=[{','.join(node.row.names)}]",
        f"joinType=[{spec.kind}]",
    ]
    if spec.condition is not None:
        parts.append(f"condition=[{prefix_text(spec.condition, ())}]")
    return f"Correlate({', '.join(parts)})"


def named_call(spec: CorrelateSpec) -> Call:
    """The function; UNNEST reads fields of a correlation variable."""
    if spec.call.name == REPLICATE:
        return spec.call
    operands = tuple(_named(each, spec.row) for each in spec.call.operands)
    return replace(spec.call, operands=operands)


def _named(rex: Rex, row: Row) -> Rex:
    match rex:
        case InputRef():
            variable = CorrelVariable(_VARIABLE, row_type(row.names, row.types, nullable=False), "")
            return FieldAccess(row.names[rex.index], variable, rex.path)
        case FieldAccess():
            return replace(rex, expression=_named(rex.expression, row))
        case Call():
            return replace(rex, operands=tuple(_named(each, row) for each in rex.operands))
        case _:
            return rex
