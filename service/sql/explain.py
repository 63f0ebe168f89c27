"""EXPLAIN of INSERT statements and queries: what they mean, what is planned, what is executed.

The sections are Flink's. What we do not have is said in its place: costs are not estimated, since
rules are applied without statistics.

Source: Flink `StreamPlanner.explain` and `GroupAggregationAnalyzer` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.plan.trees import draw_trees
from service.sql.ddl import create_table
from service.sql.errors import UnsupportedSql, placed
from service.sql.logical_text import logical_tree
from service.sql.physical.descriptions import describe_physical
from service.sql.statements import CreateTable, Query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.sql.options import Options
    from service.sql.session import Session
    from service.sql.statements import ExplainDetail, Insert

_SHORT = {
    "INSERT": "I",
    "UPDATE_BEFORE": "UB",
    "UPDATE_AFTER": "UA",
    "DELETE": "D",
    "~DELETE": "PD",
}
MINI_BATCH_ADVICE = (
    "[ADVICE] You might want to enable local-global two-phase optimization by configuring "
    "('table.exec.mini-batch.enabled' to 'true', 'table.exec.mini-batch.allow-latency' to a "
    "positive long value, 'table.exec.mini-batch.size' to a positive long value)."
)


def explain_statement(
    session: Session,
    subjects: Sequence[Insert | Query | CreateTable],
    details: frozenset[ExplainDetail],
) -> str:
    """The text of EXPLAIN of INSERT statements, of a query, or of CREATE TABLE .. AS.

    Raises:
        SqlError: A statement is wrong, or has no plan.
    """
    inserts: list[Insert | Query] = []
    for each in subjects:
        if isinstance(each, CreateTable):
            made = create_table(each, session.catalogue)
            if made.insert is None:
                raise UnsupportedSql("CREATE TABLE without AS has no plan", each.position)
            session = session.with_table(made.table, each)
            inserts.append(made.insert)
        else:
            inserts.append(each)
    return _explained(session, inserts, details)


def _explained(
    session: Session, subjects: Sequence[Insert | Query], details: frozenset[ExplainDetail]
) -> str:
    planned = session.plan(subjects)
    nodes, edges = planned.document["nodes"], planned.document["edges"]
    is_query = isinstance(subjects[0], Query)
    trees = []
    for each in subjects:
        with placed(each.position):
            trees.append(logical_tree(session.bound(each), has_sink=not is_query))
    if is_query:
        # The sink comes last, and is none.
        edges = [edge for edge in edges if edge["target"] != nodes[-1]["id"]]
        nodes = nodes[:-1]
    physical = [
        {**node, "description": describe_physical(planned.nodes[node["id"]])} for node in nodes
    ]
    advised: set[int] = set()
    title = "== Optimized Physical Plan =="
    if "PLAN_ADVICE" in details:
        title = "== Optimized Physical Plan With Advice =="
        advised = set(_advised(nodes, session.options))
    marks: dict[int, list[str]] = {node["id"]: [] for node in nodes}
    for node_id in advised:
        marks[node_id].append("advice=[1]")
    if "CHANGELOG_MODE" in details:
        for node_id in marks:
            shown = ",".join(_SHORT[kind] for kind in planned.modes[node_id]) or "NONE"
            marks[node_id].append(f"changelogMode=[{shown}]")
    parts = [
        "== Abstract Syntax Tree ==\n" + "\n\n".join(trees),
        f"{title}\n" + draw(physical, edges, marks),
    ]
    if "PLAN_ADVICE" in details:
        advice = f"advice[1]: {MINI_BATCH_ADVICE}" if advised else "No available advice..."
        parts.append(advice)
    if "ESTIMATED_COST" in details:
        parts.append("== Estimated Cost ==\nnot estimated: rules are applied without statistics")
    parts.append("== Optimized Execution Plan ==\n" + draw(nodes, edges, {}))
    return "\n\n".join(parts) + "\n"


def draw(
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
    marks: Mapping[int, Sequence[str]],
) -> str:
    """The trees of a plan's sinks, as Flink draws them; a node used twice is drawn once.

    Args:
        nodes: Of the document.
        edges: Of the document.
        marks: What is added in the brackets of a node's line: advice first, the rest last.
    """
    by_id = {node["id"]: node for node in nodes}
    inputs: dict[int, list[int]] = {node_id: [] for node_id in by_id}
    for edge in edges:
        inputs[edge["target"]].append(edge["source"])
    sources = {edge["source"] for edge in edges}
    return draw_trees(
        (node_id for node_id in by_id if node_id not in sources),
        inputs,
        lambda node_id: _marked(by_id[node_id]["description"], marks.get(node_id, ())),
        lambda node_id: f"Reused(reference_id=[{node_id}])",
    )


def _marked(description: str, marks: Sequence[str]) -> str:
    """A node's line with more in its brackets."""
    if not marks:
        return description
    name, _, rest = description.removesuffix(")").partition("(")
    first = [mark for mark in marks if mark.startswith("advice")]
    last = [mark for mark in marks if mark not in first]
    return f"{name}({', '.join([*first, *([rest] if rest else []), *last])})"


def _advised(nodes: Sequence[Mapping[str, Any]], options: Options) -> Iterator[int]:
    """Aggregates that two phases would relieve."""
    if options.mini_batch:
        return
    for node in nodes:
        if node["type"].startswith("stream-exec-group-aggregate_"):
            yield node["id"]
