"""Recorded cases brought to one node by hand: its spec is the builder's, its rows the inputs' own.

What stands between a table and the node, and between the node and the sink, the caller does.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from operators.changelog import Change, RowKind
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark
from service.plan import load_plan
from service.plan.nodes import Sink
from service.runtime.specs import BUILDERS, StatefulNode
from state.codec import RowCodec
from tests.oracles.changelogs import SinkRows, difference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from operators.spec import OperatorSpec

    Steps = list[Of | At | Watermark]

CASES = Path(__file__).parents[3] / "oracles" / "recorded" / "plans"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def node_of(case: str, kind: str, place: int = 0) -> StatefulNode:
    """A node of the plan that was executed."""
    folder = CASES / case
    executed = json.loads((folder / "meta.json").read_text()).get("executed_plan") or "plan.json"
    plan = load_plan((folder / executed).read_text())
    found = [node for node in plan.nodes if node.type == f"stream-exec-{kind}"]
    return StatefulNode(found[place], plan)


def spec_of(case: str, kind: str, place: int = 0) -> OperatorSpec:
    """What the builder makes of it."""
    return BUILDERS[kind](node_of(case, kind, place))


def steps_of(
    case: str,
    at: StatefulNode,
    tables: Sequence[str],
    *,
    dropped: Sequence[tuple[str, str]] = (),
    keep: Callable[[str, dict[str, Any]], bool] = lambda table, data: True,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Steps:
    """The inputs in the order of their times, each with the time at which it came.

    Args:
        case: Its folder.
        at: The node.
        tables: The table that each input of the node reads; columns are found by their names.
        dropped: Tables with the kinds that do not reach the node.
        keep: Which rows of a table reach it.
        renamed: Columns of the node's input that have another name in the table, with it.
    """
    codecs = [RowCodec(i.output_type.children, i.output_type.field_names) for i in at.inputs]
    lines = [
        (line["t"], number, line)
        for number, table in enumerate(tables)
        for line in read_lines(CASES / case / "inputs" / f"{table}.jsonl")
        if (table, line["op"]) not in dropped and keep(table, line["data"])
    ]
    steps: Steps = []
    now_ms = -1
    for time_ms, number, line in sorted(lines, key=lambda each: each[0]):
        if time_ms > now_ms:
            now_ms = time_ms
            steps.append(At(now_ms))
        data = line["data"]
        data = {**data, **{new: data[old] for new, old in renamed.items() if old in data}}
        row = codecs[number].decode_json(data)
        steps.append(Of(number, Change(RowKind.from_short(line["op"]), row)))
    return steps


def compare(
    case: str, at: StatefulNode, emitted: Sequence[Change], columns: Sequence[str]
) -> str | None:
    """The first difference of what the node emitted, in the sink's columns, from the recording.

    Args:
        case: Its folder.
        at: The node.
        emitted: By the node.
        columns: The node's output column for each of the sink's.
    """
    (sink,) = at.plan.sinks
    assert isinstance(sink.view, Sink)
    names = [column.name for column in sink.view.table.schema.persisted]
    key = json.loads((CASES / case / "meta.json").read_text())["pk"] or ()
    rows = SinkRows.of(sink.output_type.children, names, key)
    places = [at.output.names.index(each) for each in columns]
    found = [
        (each.kind.short, rows.codec.encode([each.row[place] for place in places]))
        for each in emitted
    ]
    if key:
        found = [each for each in found if each[0] != "-U"]
    changes = read_lines(CASES / case / "expected_changelog.jsonl")
    final = read_lines(CASES / case / "expected_final.jsonl")
    return difference(
        rows, found, [rows.change(line) for line in changes], [rows.row(line) for line in final]
    )


def replay(
    case: str, kind: str, tables: Sequence[str], columns: Sequence[str], **options: Any
) -> str | None:
    """Bring a case's inputs to a node, and compare."""
    at = node_of(case, kind)
    harness = OperatorHarness.on_heap(spec_of(case, kind))
    return compare(case, at, harness.run(steps_of(case, at, tables, **options)), columns)
