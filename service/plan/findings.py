"""What is to be said about a plan: errors that refuse it, and warnings that do not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from operators.changelog import RowKind
from service.plan.changelog_modes import node_modes
from service.plan.determinism import undetermined
from service.plan.keys import upsert_keys
from service.plan.missing_retractions import missing_retractions
from service.plan.nodes import Calc, Sink
from service.plan.rex import Call, walk
from service.plan.state_warnings import state_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.plan.determinism import Undetermined
    from service.plan.document import CompiledPlan
    from service.plan.errors import PlanError
    from service.plan.nodes import ExecNode


WRONG_TABLES = frozenset(
    {
        "plan.key-mismatch",
        "plan.missing-retraction",
        "plan.non-deterministic-update",
        "plan.split-by-order",
    }
)
"""Codes of warnings that a sink's table may be wrong: whoever starts a pipeline is told, too."""
WARNINGS_MAX = 1_000
"""Doubts about times to live that are listed: each may be about any two nodes of a plan."""


_BY_ORDER = frozenset({"$FIRST_VALUE$1", "$LAST_VALUE$1", "$LISTAGG$1"})
_SECOND_STEPS = frozenset({"group-aggregate", "global-group-aggregate"})
_FIRST_STEPS = _SECOND_STEPS | {"incremental-group-aggregate"}
_BETWEEN_STEPS = frozenset(
    {"calc", "exchange", "expand", "local-group-aggregate", "mini-batch-assigner"}
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a plan."""

    severity: Literal["error", "warning"]
    code: str
    message: str
    hint: str = ""
    node_id: int | None = None
    type: str = ""
    """The node's type, as the plan writes it."""
    path: str = ""
    """JSON pointer into the document."""

    @classmethod
    def of(cls, error: PlanError) -> Finding:
        """An error as a finding."""
        return cls("error", error.code, error.message, error.hint, error.node_id, "", error.path)


def validate(plan: CompiledPlan, *, default_ttl_ms: int = 0) -> list[Finding]:
    """What is doubtful about a plan that loads: warnings; those about times to live come last.

    Of the latter at most `WARNINGS_MAX` are given.

    Errors are found while loading: `check_document` has them all.

    Args:
        plan: The plan.
        default_ttl_ms: Of states of which the plan says nothing.
    """
    findings = [*wrong_tables(plan)]
    modes = node_modes(plan)
    for node in plan.nodes:
        findings.extend(_of_state(node))
        if isinstance(node.view, Sink):
            findings.extend(_of_materializer(node, node.view))
    doubts = state_warnings(plan, modes, default_ttl_ms=default_ttl_ms)
    findings.extend(_warning(*doubt) for doubt in islice(doubts, WARNINGS_MAX))
    return findings


def wrong_tables(plan: CompiledPlan) -> list[Finding]:
    """Why a sink of a plan may not have the table that its query says; the codes `WRONG_TABLES`."""
    keys, modes = upsert_keys(plan), node_modes(plan)
    sinks = ((node, node.view) for node in plan.nodes if isinstance(node.view, Sink))
    return [
        *(
            finding
            for node, sink in sinks
            for finding in _of_sink(node, sink, keys[node.id], modes[node.id].kinds)
        ),
        *map(_of_undetermined, undetermined(plan)),
        *(
            _warning(
                node,
                "plan.missing-retraction",
                f"the plan lacks what {node.type_text} would need: {reason}",
                node.path,
                "compile the statement here (POST /v1/plans/compile), which plans it with the "
                "row before",
            )
            for node, reason in missing_retractions(plan)
        ),
        *(finding for node in plan.nodes for finding in _of_split(plan, node)),
    ]


def _of_state(node: ExecNode) -> Iterator[Finding]:
    declared = node.raw.get("state")
    if declared and not node.has_state:
        yield _warning(
            node,
            "plan.state-ignored",
            f"{node.type_text} has no state that a plan can configure: its entries are ignored",
            f"{node.path}/state",
        )
    if not node.has_state:
        return
    for entry in node.state:
        is_zero = not any(digit in entry.ttl_text for digit in "123456789")
        if entry.ttl_ms == 0 and not is_zero:
            yield _warning(
                node,
                "plan.ttl-truncated",
                f"ttl {entry.ttl_text!r} is less than a millisecond, so the state never expires",
                f"{entry.path}/ttl",
                "write '0 ms' if that is meant, otherwise at least '1 ms'",
            )


def _of_split(plan: CompiledPlan, node: ExecNode) -> Iterator[Finding]:
    """Aggregates by the order of rows, over the buckets of a split DISTINCT.

    A call goes by order in both steps; it is told of at the second one.
    """
    if node.node_type.short not in _SECOND_STEPS:
        return
    calls = node.raw.get("aggCalls")
    named = [each.get("internalName") for each in calls or () if isinstance(each, dict)]
    ordered = sorted({str(each).split("$")[1] for each in named if each in _BY_ORDER})
    if ordered and _is_over_buckets(plan, node):
        yield _warning(
            node,
            "plan.split-by-order",
            f"{' and '.join(ordered)} of a group is taken from the buckets of a split DISTINCT, "
            "which do not know the order of their rows: it may be another row's value than the "
            "first, the last, or the next one that came",
            node.path,
            "compile the statement without table.optimizer.distinct-agg.split.enabled",
        )


def _is_over_buckets(plan: CompiledPlan, node: ExecNode) -> bool:
    """Whether a node aggregates what another one grouped by the bucket of a value, too."""
    aggregates = 0
    inputs = plan.inputs(node.id)
    while len(inputs) == 1:
        (below,) = inputs
        view = below.view
        if isinstance(view, Calc) and aggregates:
            called = [each for column in view.projection for each in walk(column)]
            names = {each.name for each in called if isinstance(each, Call)}
            if {"HASH_CODE", "MOD"} <= names:
                return True
        aggregates += below.node_type.short in _FIRST_STEPS
        if below.node_type.short not in _FIRST_STEPS | _BETWEEN_STEPS:
            return False
        inputs = plan.inputs(below.id)
    return False


def _of_sink(
    node: ExecNode, sink: Sink, upsert_key: tuple[int, ...] | None, kinds: frozenset[RowKind]
) -> Iterator[Finding]:
    if (
        sink.primary_key
        and not sink.require_upsert_materialize
        and kinds - {RowKind.INSERT}
        and (upsert_key is None or set(upsert_key) != set(sink.primary_key))
    ):
        yield _warning(
            node,
            "plan.key-mismatch",
            f"changes reach table {sink.table.identifier} by another key than its primary key, "
            "and there is no upsert materializer: rows may be lost, or stay when they should go",
            node.path,
            "compile the statement with ON CONFLICT DO DEDUPLICATE",
        )


def _of_materializer(node: ExecNode, sink: Sink) -> Iterator[Finding]:
    if not sink.require_upsert_materialize:
        return
    if not sink.primary_key:
        yield _warning(
            node,
            "plan.materializer-without-key",
            f"table {sink.table.identifier} has no primary key for its upsert materializer",
            node.path,
        )
    elif not sink.input_upsert_key and sink.conflict_behavior in (None, "DEDUPLICATE"):
        yield _warning(
            node,
            "plan.materializer-without-upsert-key",
            f"no upsert key reaches table {sink.table.identifier}: its materializer tells rows "
            "apart by all of their columns, so a retraction must match a whole row",
            node.path,
            "select the columns of the key as well, if the rows have one",
        )


def _of_undetermined(found: Undetermined) -> Finding:
    what = {"metadata": "what records tell of themselves", "look-up": "what it looks up"}
    by = what.get(found.by, found.by)
    if found.columns:
        said = f"{', '.join(found.columns)} of {found.node.type_text} depends on {by}"
        cure = "select the key of the rows as well, leave the column out"
    else:
        said = f"which rows {found.node.type_text} gives depends on {by}"
        cure = "leave the condition out, compare with a column"
    return _warning(
        found.node,
        "plan.non-deterministic-update",
        f"{said}, which is another when a row is taken back: what it was is not found then, and "
        "rows stay that should go",
        found.node.path,
        f"{cure}, or compile with 'table.optimizer.non-deterministic-update.strategy' = "
        "'TRY_RESOLVE'",
    )


def _warning(node: ExecNode, code: str, message: str, path: str, hint: str = "") -> Finding:
    return Finding("warning", code, message, hint, node.id, node.type_text, path)
