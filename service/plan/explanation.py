"""A plan for people: the tree of its operators with keys, changes, state and warnings.

The lines of the tree are Flink's own descriptions, as `EXPLAIN` prints them; what we know besides
stands in braces behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.plan.changelog_modes import node_modes
from service.plan.deadline import check_time
from service.plan.findings import Finding, validate
from service.plan.keys import upsert_keys
from service.plan.state_ttl import StateTtl, state_ttls
from service.plan.support import Unsupported, unsupported
from service.plan.trees import draw_trees
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.plan.changelog_mode import ChangelogMode
    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan explained."""

    text: str
    """For a terminal: one tree for each sink, then states, warnings and what cannot be run."""
    document: dict[str, Any]
    """The same as a JSON value."""
    warnings: tuple[Finding, ...]
    unsupported: tuple[Unsupported, ...]
    plain_tree: str
    """The tree as Flink's `CompiledPlan.explain` has it, without what we know besides."""
    tree_with_modes: str
    """The same with the changes that each node sends, as `EXPLAIN CHANGELOG_MODE` has it."""
    notes: tuple[str, ...]
    """States, warnings and what cannot be run, each with its heading."""

    def sections(self, *, has_modes: bool) -> str:
        """The text of `EXPLAIN PLAN`: Flink's section, then ours."""
        tree = self.tree_with_modes if has_modes else self.plain_tree
        parts = [f"== Optimized Execution Plan ==\n{tree}"]
        for note in self.notes:
            heading, _, lines = note.partition("\n")
            parts.append(f"== {heading.removesuffix(':')} ==\n{lines}")
        return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of one node."""

    node: ExecNode
    inputs: tuple[int, ...]
    mode: ChangelogMode
    key: tuple[str, ...] | None
    states: tuple[StateTtl, ...]


def explain(plan: CompiledPlan, *, default_ttl_ms: int = 0) -> Explanation:
    """Explain a plan; the default time to live is for states of which the plan says none."""
    facts = _facts(plan, default_ttl_ms)
    warnings = tuple(validate(plan, default_ttl_ms=default_ttl_ms))
    missing = tuple(unsupported(plan))
    notes = ["\n".join(_state_lines(facts))]
    if warnings:
        notes.append("\n".join(["Warnings:", *(_warning_line(each) for each in warnings)]))
    if missing:
        notes.append("\n".join(["Not run yet:", *(_missing_line(each) for each in missing)]))
    said = tuple(note for note in notes if note)
    text = "\n\n".join([_tree(facts, plan, _braced), *said]) + "\n"
    return Explanation(
        text,
        _document(plan, facts, warnings, missing),
        warnings,
        missing,
        _tree(facts, plan, _plain),
        _tree(facts, plan, _with_mode),
        said,
    )


def _facts(plan: CompiledPlan, default_ttl_ms: int) -> dict[int, _Facts]:
    modes, keys = node_modes(plan), upsert_keys(plan)
    facts = {}
    for node in plan.nodes:
        inputs = tuple(source.id for source in plan.inputs(node.id))
        key = keys[node.id]
        names = node.output_type.field_names
        facts[node.id] = _Facts(
            node,
            inputs,
            modes[node.id],
            None if key is None else tuple(names[index] for index in key if index < len(names)),
            state_ttls(node, len(inputs), default_ttl_ms=default_ttl_ms),
        )
    return facts


def _tree(facts: dict[int, _Facts], plan: CompiledPlan, line: Callable[[_Facts], str]) -> str:
    """The trees of all sinks."""

    def timed_line(node_id: int) -> str:
        check_time()
        return line(facts[node_id])

    return draw_trees(
        (sink.id for sink in plan.sinks),
        {node_id: each.inputs for node_id, each in facts.items()},
        timed_line,
        lambda node_id: f"Reused(node={node_id})",
    )


def _plain(facts: _Facts) -> str:
    return facts.node.description


def _with_mode(facts: _Facts) -> str:
    is_sink = facts.node.type.endswith("-sink")
    mode = f"changelogMode=[{'NONE' if is_sink else facts.mode.short}]"
    name, bracket, rest = facts.node.description.removesuffix(")").partition("(")
    return f"{name}({rest}{', ' if bracket and rest else ''}{mode})"


def _braced(facts: _Facts) -> str:
    return f"{facts.node.description} {_braces(facts)}"


def _braces(facts: _Facts) -> str:
    key = "none" if facts.key is None else f"[{', '.join(facts.key)}]"
    what = "takes" if facts.node.type.endswith("-sink") else "emits"
    return f"{{node={facts.node.id}, {what}=[{facts.mode.short}], upsertKey={key}}}"


def _state_lines(facts: dict[int, _Facts]) -> list[str]:
    lines = [
        f"  node {each.node.id} {each.node.type_text}, input {state.index}: "
        f"{state.name}, {state.described}"
        for each in facts.values()
        for state in each.states
    ]
    return ["State:", *lines] if lines else []


def _warning_line(finding: Finding) -> str:
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"  node {finding.node_id}: {finding.message}{hint} at {finding.path}"


def _missing_line(missing: Unsupported) -> str:
    return f"  node {missing.node_id} {missing.type}: {missing.reason} at {missing.path}"


def _document(
    plan: CompiledPlan,
    facts: dict[int, _Facts],
    warnings: tuple[Finding, ...],
    missing: tuple[Unsupported, ...],
) -> dict[str, Any]:
    refused = {each.node_id for each in missing}
    return {
        "flink_version": plan.flink_version,
        "sinks": [sink.id for sink in plan.sinks],
        "nodes": [_node_document(each, each.node.id not in refused) for each in facts.values()],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "changelog_mode": facts[edge.source].mode.short.split(","),
            }
            for edge in plan.edges
        ],
        "warnings": [
            {
                "code": each.code,
                "message": each.message,
                "hint": each.hint,
                "node_id": each.node_id,
                "path": each.path,
            }
            for each in warnings
        ],
        "unsupported": [
            {
                "node_id": each.node_id,
                "type": each.type,
                "path": each.path,
                "reason": each.reason,
            }
            for each in missing
        ],
    }


def _node_document(facts: _Facts, is_supported: bool) -> dict[str, Any]:
    node = facts.node
    columns = zip(node.output_type.field_names, node.output_type.children, strict=True)
    return {
        "id": node.id,
        "type": node.type_text,
        "description": node.description,
        "inputs": list(facts.inputs),
        "columns": [{"name": name, "type": format_type(logical)} for name, logical in columns],
        "changelog_mode": facts.mode.short.split(","),
        "upsert_key": None if facts.key is None else list(facts.key),
        "state": [
            {
                "index": state.index,
                "name": state.name,
                "ttl_ms": state.ttl_ms,
                "origin": state.origin,
                "expires": not state.is_disabled,
            }
            for state in facts.states
        ],
        "supported": is_supported,
        "path": node.path,
    }
