"""Whether a plan may become a pipeline: one check for validation and for creation.

A plan that is refused here would be refused by the dataflow later, and one that is taken runs: both
ask the same functions. Findings come all at once where the plan's reader can go on, else the first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson
import structlog

from operators.expressions.errors import UnsupportedExpression
from service.plan import check_document, load_plan, unsupported, validate, wrong_tables
from service.plan.errors import PlanError, PlanSyntaxError
from service.plan.local_zone import with_zone
from service.runtime.dataflow import check_plan, stateful_nodes
from service.runtime.dataflow_errors import (
    UnsupportedChangelog,
    UnsupportedConnector,
    UnsupportedNode,
)
from service.runtime.materializer_options import check_materializer_options
from service.runtime.node_errors import REFUSALS

if TYPE_CHECKING:
    from service.plan import CompiledPlan
    from service.plan import Finding as PlanFinding
    from service.runtime.node_errors import Refusal
    from service.runtime.records import PipelineOptions
    from service.settings import Settings

log = structlog.get_logger()
PlanDocument = dict[str, Any] | str | bytes
_UNSUPPORTED = (UnsupportedConnector, UnsupportedChangelog, UnsupportedNode, UnsupportedExpression)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a plan."""

    kind: Literal["invalid", "unsupported", "warning"]
    """invalid: Flink would not run it either; unsupported: we cannot yet; warning: it runs."""
    code: str
    message: str
    hint: str = ""
    node_id: int | None = None
    type: str | None = None
    """Of the node, as the plan writes it."""
    path: str = ""

    @property
    def shown(self) -> dict[str, Any]:
        """As HTTP shows it; what is empty is null."""
        named = {name: value if value != "" else None for name, value in asdict(self).items()}
        return {"severity": "warning" if self.kind == "warning" else "error", **named}


def admit(document: PlanDocument, options: PipelineOptions, settings: Settings) -> CompiledPlan:
    """The plan, ready to become a pipeline with these options.

    Raises:
        PlanError, DataflowError, ExpressionError, InvalidSpec: it may not; the first reason, with
            the node's id and type and the place in the document.
    """
    plan = _with_options(load_plan(storable(document)), options)
    check_plan(plan, settings)
    admit_options(plan, options, settings)
    return plan


def dangers(plan: CompiledPlan) -> list[Finding]:
    """Why a table that the plan writes may be wrong: whoever starts it is told, and the log."""
    found = [_warning(each) for each in wrong_tables(plan)]
    for each in found:
        log.warning("table may be wrong", code=each.code, node=each.node_id, reason=each.message)
    return found


def _with_options(plan: CompiledPlan, options: PipelineOptions) -> CompiledPlan:
    """The plan that names what options say of it.

    Raises:
        InvalidProperty: it names something else.
    """
    zone = options.local_time_zone
    return plan if zone is None else load_plan(with_zone(plan.document, zone))


def admit_options(plan: CompiledPlan, options: PipelineOptions, settings: Settings) -> None:
    """Check that a plan that was taken may go on with these options.

    Raises:
        InvalidPipelineOption: nothing in the plan follows one of them.
        InvalidSpec: an operator cannot be as they ask.
    """
    check_materializer_options(plan, options)
    stateful_nodes(plan, options.resolved(settings.execution))


def findings(
    document: PlanDocument, options: PipelineOptions, settings: Settings
) -> tuple[CompiledPlan | None, list[Finding]]:
    """The plan, if it can be read, every reason that is found against it, and warnings."""
    try:
        plan, problems = check_document(storable(document))
    except PlanError as error:
        return None, [_finding(error)]
    if plan is None:
        return None, [_finding(each) for each in problems]
    found = [
        Finding(
            kind="unsupported",
            code=UnsupportedNode.code,
            message=f"{each.type} is not supported: {each.reason}",
            node_id=each.node_id,
            type=each.type,
            path=each.path,
        )
        for each in unsupported(plan)
    ]
    if not found:
        found += _runtime_finding(plan, options, settings)
    ttl_ms = options.resolved(settings.execution).default_ttl_ms
    return plan, [*found, *(_warning(each) for each in validate(plan, default_ttl_ms=ttl_ms))]


def storable(document: PlanDocument) -> PlanDocument:
    """The document, if it can be kept as JSON.

    Raises:
        PlanSyntaxError: a number in it does not fit 64 bits, or a text is none of Unicode's.
    """
    if isinstance(document, dict):
        try:
            orjson.dumps(document)
        except (TypeError, ValueError) as error:
            # Its text names the rule that is broken, and no value.
            raise PlanSyntaxError(f"the plan cannot be kept as JSON: {error}") from error
    return document


def _runtime_finding(
    plan: CompiledPlan, options: PipelineOptions, settings: Settings
) -> list[Finding]:
    """The first thing that the dataflow would refuse, if it would."""
    try:
        plan = _with_options(plan, options)
        check_plan(plan, settings)
        admit_options(plan, options, settings)
    except REFUSALS as error:
        return [_finding(error)]
    return []


def _warning(found: PlanFinding) -> Finding:
    return Finding(
        kind="invalid" if found.severity == "error" else "warning",
        code=found.code,
        message=found.message,
        hint=found.hint,
        node_id=found.node_id,
        type=found.type or None,
        path=found.path,
    )


def _finding(error: Refusal) -> Finding:
    return Finding(
        kind="unsupported" if isinstance(error, _UNSUPPORTED) else "invalid",
        code=error.code,
        message=str(getattr(error, "message", error)),
        hint=getattr(error, "hint", ""),
        node_id=error.node_id,
        type=error.node_type,
        path=error.path,
    )
