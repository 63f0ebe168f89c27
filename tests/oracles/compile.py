"""Plan cases as a planner's: the case's SQL must give the plan that Flink's planner gave.

Ids are numbered anew, descriptions are left out, expressions may be written in another normal form
(but must be there, or not, as Flink's are). All else must be equal: the types of nodes in order,
keys, strategies, modes, state entries, configuration and output types, and the edges. What each
edge carries follows from the nodes' own properties; it is compared with what Flink's explain says
too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from service.plan import load_plan
from service.sql import SqlError, UnsupportedSql, compile_script
from tests.oracles.cases import Case, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from service.sql import PlannedStatement

EXPRESSIONS = frozenset(
    {
        "projection",
        "condition",
        "filterCondition",
        "nonEquiCondition",
        "watermarkExpr",
        "joinConditions",
        "joinCondition",
        "multiJoinCondition",
        "filterOnTemporalTable",
        "preFilterCondition",
        "projects",
        "tuples",
        "functionCall",
        "rexNode",
    }
)
"""Properties that hold expressions: only whether there is one is compared."""
_MODE = re.compile(r"changelogMode=\[([A-Z,]+)\]")
_SHORT = {
    "INSERT": "I",
    "UPDATE_BEFORE": "UB",
    "UPDATE_AFTER": "UA",
    "DELETE": "D",
    "~DELETE": "PD",
}


def compile_case(case: Case) -> Outcome:
    """Compile the case's SQL and compare the plan, or the refusal."""
    script = (case.folder / "query.sql").read_text()
    expected = case.folder / "plan.json"
    try:
        planned = compile_script(script)
    except UnsupportedSql as refusal:
        return Outcome(case.name, unsupported=f"SQL: {refusal.reason}")
    except SqlError as refusal:
        return Outcome(case.name, _refused(refusal, case.folder, has_plan=expected.exists()))
    if not expected.exists():
        return Outcome(case.name, "the statement compiles, and Flink refuses it")
    if not planned:
        return Outcome(case.name, "no statement asks for a plan")
    wanted = orjson.loads(expected.read_bytes())
    difference = _difference(wanted, planned[-1].document) or _modes(case.folder, planned[-1])
    return Outcome(case.name, difference)


def _refused(refusal: SqlError, folder: Path, *, has_plan: bool) -> str | None:
    if has_plan:
        return f"refused: {refusal}"
    recorded = (folder / "error.txt").read_text()
    return None if refusal.reason in recorded else f"refused with another message: {refusal.reason}"


def _difference(wanted: Mapping[str, Any], document: Mapping[str, Any]) -> str | None:
    """The first difference of two plans, outside of what may differ."""
    kinds = [[node["type"] for node in plan["nodes"]] for plan in (wanted, document)]
    if kinds[0] != kinds[1]:
        shown = (" ".join(_short(kind) for kind in plan) for plan in kinds)
        return "the nodes are {1}, not {0}".format(*shown)
    for own, other in zip(wanted["nodes"], document["nodes"], strict=True):
        found = next(_differences(own, other, ""), None)
        if found is not None:
            return f"{_short(own['type'])} {found}"
    if _edges(wanted) != _edges(document):
        return f"the edges are {_edges(document)}, not {_edges(wanted)}"
    load_plan(document, catalog=_temporary(document))
    return None


def _short(kind: str) -> str:
    return kind.removeprefix("stream-exec-")


def _differences(wanted: Any, given: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(given, dict):
        for key in wanted | given:
            if (not path and key in ("id", "description")) or key == "serializableString":
                continue
            if key in EXPRESSIONS:
                if (wanted.get(key) is None) != (given.get(key) is None):
                    yield f"{path}/{key}: one has it, the other has not"
            elif key not in wanted or key not in given:
                yield f"{path}/{key}: {'is missing' if key in wanted else 'should not be there'}"
            else:
                yield from _differences(wanted[key], given[key], f"{path}/{key}")
    elif isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        for index, pair in enumerate(zip(wanted, given, strict=True)):
            yield from _differences(*pair, f"{path}/{index}")
    elif wanted != given:
        yield f"{path}: {_cut(given)}, not {_cut(wanted)}"


def _cut(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}.."


def _edges(plan: Mapping[str, Any]) -> list[tuple[int, int]]:
    places = {node["id"]: place for place, node in enumerate(plan["nodes"], start=1)}
    return [(places[edge["source"]], places[edge["target"]]) for edge in plan["edges"]]


def _temporary(document: Mapping[str, Any]) -> dict[str, Any]:
    """Tables that a plan only names: they stand for themselves, with the columns of their node."""
    found = {}
    for node in document["nodes"]:
        spec = node.get("scanTableSource") or node.get("dynamicTableSink")
        if spec is not None and "resolvedTable" not in spec["table"]:
            found[spec["table"]["identifier"]] = {
                "schema": {"columns": []},
                "options": {"connector": "any"},
            }
    return found


def _modes(folder: Path, planned: PlannedStatement) -> str | None:
    """What explain says that each edge carries, against what our planner settled."""
    explain = folder / "explain.txt"
    wanted = _explained(explain.read_text()) if explain.exists() else None
    if not wanted:
        return None
    given = edge_modes(planned)
    return None if given == wanted else f"the edges carry {given}, not {wanted}"


def edge_modes(planned: PlannedStatement) -> list[str]:
    """What each edge carries, from the first sink down, the left input first."""
    edges = planned.document["edges"]
    targets = {edge["source"] for edge in edges}
    sink = next(node["id"] for node in planned.document["nodes"] if node["id"] not in targets)
    given: list[str] = []

    def visit(node_id: int) -> None:
        for edge in edges:
            if edge["target"] == node_id:
                kinds = planned.modes[edge["source"]]
                given.append(",".join(_SHORT[kind] for kind in kinds))
                visit(edge["source"])

    visit(sink)
    return given


def _explained(text: str) -> list[str]:
    """The modes of the optimized physical plan, from the sink down."""
    _, found, section = text.partition("== Optimized Physical Plan")
    if not found:
        return []
    section = section.partition("== Optimized Execution Plan")[0]
    modes = [match[1] for line in section.splitlines() if (match := _MODE.search(line))]
    return [mode for mode in modes if mode != "NONE"]
