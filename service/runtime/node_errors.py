"""Errors that name the node of the plan that they are about.

What reads a property, compiles an expression or builds a spec often knows the place alone, or not
even that. Whoever goes through a plan's nodes does it inside of `at_node`, which adds the rest, so
that no refusal leaves without the node's id, its type and a place in the document.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import ValidationError

from operators.errors import InvalidSpec
from operators.expressions.errors import ExpressionError
from operators.spec import first_problem
from service.plan.errors import InvalidType, PlanError
from service.runtime.dataflow_errors import DataflowError, UnsupportedNode
from state.types import LogicalTypeError, UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode

Refusal = PlanError | DataflowError | ExpressionError | InvalidSpec
REFUSALS = (PlanError, DataflowError, ExpressionError, InvalidSpec)
"""Why a plan may not become a pipeline."""


@contextmanager
def in_plan(plan: CompiledPlan) -> Iterator[None]:
    """Name a node in every refusal of what is done inside, if its id or a place in it is known.

    Raises:
        PlanError, DataflowError, ExpressionError, InvalidSpec: As inside.
    """
    try:
        yield
    except REFUSALS as error:
        for node in plan.nodes if error.node_type is None else ():
            is_below = f"{error.path}/".startswith(f"{node.path}/")
            if node.id == error.node_id or (error.node_id is None and is_below):
                _name(error, node)
        raise


@contextmanager
def at_node(node: ExecNode) -> Iterator[None]:
    """Name a node in every refusal of what is done inside.

    Raises:
        PlanError, DataflowError, ExpressionError, InvalidSpec: As inside; a model that cannot be
            is an InvalidSpec, a type that cannot be an InvalidType or UnsupportedNode.
    """
    try:
        yield
    except REFUSALS as error:
        _name(error, node)
        raise
    except ValidationError as error:
        refusal = InvalidSpec(first_problem(error))
        _name(refusal, node)
        raise refusal from error
    except LogicalTypeError as error:
        kind = UnsupportedNode if isinstance(error, UnsupportedType) else InvalidType
        found = kind(str(error))
        _name(found, node)
        raise found from error


def _name(error: Refusal, node: ExecNode) -> None:
    error.node_id = node.id if error.node_id is None else error.node_id
    if error.node_id == node.id:
        error.node_type = node.type_text
    error.path = error.path or node.path
