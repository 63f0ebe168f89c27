"""Recorded plans of one operator, run without the rest of the plan.

The rows of the case's one table are brought to the node's input by the names of columns; what is
not in the table (a processing time) is null. What the node emits is projected to the sink's
columns in the same way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operators.changelog import Change, RowKind
from operators.keyed import WATERMARK_MAX
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark
from service.plan import load_plan
from service.runtime.specs import BUILDERS, StatefulNode
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from operators.spec import OperatorSpec
    from state.types import LogicalType

PLANS = Path(__file__).parents[1] / "oracles" / "recorded" / "plans"


@dataclass(frozen=True, slots=True)
class PlanCase:
    """A recorded case and its one operator."""

    name: str
    kind: str
    """The node's type without `stream-exec-`."""

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return PLANS / self.name

    @property
    def node(self) -> StatefulNode:
        """The node in the plan that was executed."""
        edited = self.folder / "plan.edited.json"
        path = edited if edited.exists() else self.folder / "plan.json"
        plan = load_plan(path.read_bytes())
        (node,) = [each for each in plan.nodes if each.node_type.short == self.kind]
        return StatefulNode(node, plan)

    @property
    def spec(self) -> OperatorSpec:
        """What its builder makes of the node."""
        return BUILDERS[self.kind](self.node)

    def lines(self) -> list[dict[str, Any]]:
        """The input."""
        (path,) = (self.folder / "inputs").iterdir()
        return [json.loads(line) for line in path.read_text().splitlines()]

    def expected(self) -> list[tuple[str, dict[str, Any]]]:
        """Kinds and rows that the sink received."""
        path = self.folder / "expected_changelog.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        return [(each["op"], each["data"]) for each in found]

    def emitted(
        self,
        *,
        lag_ms: int | None = None,
        lines: Iterable[dict[str, Any]] | None = None,
        make: Callable[..., OperatorHarness] = OperatorHarness.on_heap,
        epoch_changes: int | None = None,
    ) -> list[tuple[str, dict[str, Any]]]:
        """What the operator emits, as the sink sees it.

        Args:
            lag_ms: The watermark is so far behind the column `ts`, after each row.
            lines: In place of the case's.
            make: Makes the harness of a spec.
            epoch_changes: An epoch ends after so many changes.
        """
        node = self.node
        sink = node.plan.nodes[-1].output_type.field_names
        harness = make(self.spec)
        found = harness.run(
            self._steps(node.inputs[0].output_type, lines or self.lines(), lag_ms),
            epoch_changes=epoch_changes,
        )
        names = node.node.output_type.field_names
        rows = [dict(zip(names, map(_shown, each.row), strict=True)) for each in found]
        return [
            (each.kind.short, {name: row[name] for name in sink})
            for each, row in zip(found, rows, strict=True)
        ]

    def _steps(
        self, row: LogicalType, lines: Iterable[dict[str, Any]], lag_ms: int | None
    ) -> Iterator[Change | Of | At | Watermark]:
        now_ms, watermark_ms = 0, -(1 << 62)
        for line in lines:
            if line.get("t", 0) > now_ms:
                now_ms = line["t"]
                yield At(now_ms)
            data = line["data"]
            columns = zip(row.field_names, row.children, strict=True)
            values = tuple(_value(kind, data.get(name)) for name, kind in columns)
            yield Change(RowKind.from_short(line["op"]), values)
            if lag_ms is not None:
                time = datetime.fromisoformat(data["ts"]).replace(tzinfo=UTC)
                watermark_ms = max(watermark_ms, int(time.timestamp() * 1000) - lag_ms)
                yield Watermark(watermark_ms)
        if lag_ms is not None:
            yield Watermark(WATERMARK_MAX)


def _value(kind: LogicalType, value: Any) -> Any:
    if kind.root is TypeRoot.TIMESTAMP and value is not None:
        return datetime.fromisoformat(value)
    return value


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        assert value.utcoffset() in (None, timedelta(0))
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return value


def by_key(
    changes: Iterable[tuple[str, dict[str, Any]]], *key: str
) -> dict[tuple[Any, ...], list[tuple[str, dict[str, Any]]]]:
    """The changes of each key in their order: the order between keys is free."""
    found: dict[tuple[Any, ...], list[tuple[str, dict[str, Any]]]] = {}
    for kind, row in changes:
        found.setdefault(tuple(row[name] for name in key), []).append((kind, row))
    return found
