"""Plans without Spark: every node of a plan by hand, a line of input at a time.

The order of things is Flink's with one task a node: a line goes through the whole plan, then the
watermarks move on node by node, each after what came out of the nodes before it. So a recorded
changelog is to be met exactly, whatever it says of watermarks. Where operators bundle (mini-batch),
all lines of one time are one epoch, but for the first line of each source.

A watermark assigner works as Flink's (`WatermarkAssignerOperator`): it starts at 0, says at once
what is more than an interval ahead of what it said last, and the rest by a timer, which here fires
whenever `t` has passed a multiple of the interval. An interval of 0 has no timer: each row that is
ahead moves the watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from operators.changelog import Change, RowKind
from operators.event_time import to_ms
from operators.expressions import compile_predicate, compile_rex
from operators.join.lookup import LookupJoinSpec
from operators.keyed import WATERMARK_MAX, WATERMARK_MIN, held_back
from operators.testing.harness import MaterializerHarness
from operators.testing.operator_harness import Of, OperatorHarness
from operators.upsert_materializer import MaterializerSpec
from service.plan.nodes import (
    Calc,
    Correlate,
    DropUpdateBefore,
    ExecNode,
    Expand,
    Sink,
    TableScan,
    Union,
    Values,
    WatermarkAssigner,
)
from service.runtime.connectors import scan_columns, sink_spec, table_names
from service.runtime.dataflow_errors import SinkRefused
from service.runtime.node_options import NOT_NULL_OPTION, enumerated
from service.runtime.operators import stateful_nodes
from service.runtime.specs import identity_nodes
from service.runtime.specs.lookup_join import with_places
from state.codec import RowCodec
from tests.oracles.correlate import correlate_step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import redis

    from service.plan import CompiledPlan
    from service.plan.rex import Rex
    from service.runtime.operators import OperatorInfo
    from service.runtime.records import RunOptions
    from service.runtime.sinks.spec import SinkSpec

WATERMARK_INTERVAL_MS = 200
"""Flink's default of `pipeline.auto-watermark-interval`."""
START_MS = 1_700_000_000_000
"""What the lines' `t` is counted from."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an input file."""

    t_ms: int
    table: str
    """Name of the table, as its file is named."""
    content: Mapping[str, Any]


class PlanHarness:
    """A plan over lines of input; `collected` is what each sink took.

    Args:
        plan: It was checked.
        options: Of the pipeline.
        client: Where state is kept; None: on the heap.
        files_root: The folder that tables of look-ups lie below.
        watermark_interval_ms: Flink's `pipeline.auto-watermark-interval`.
        kept: By node: the operator of another plan, whose state it goes on with.
    """

    def __init__(
        self,
        plan: CompiledPlan,
        options: RunOptions,
        client: redis.Redis | None = None,
        *,
        files_root: str = "/",
        watermark_interval_ms: int = WATERMARK_INTERVAL_MS,
        kept: Mapping[int, OperatorHarness | MaterializerHarness] | None = None,
    ) -> None:
        self.collected: dict[int, list[Change]] = {}
        """By sink node."""
        self._plan = plan
        self._client = client
        self._files_root = files_root
        self._interval_ms = watermark_interval_ms
        self._now_ms = START_MS
        self._watermarks: dict[int, int] = {}
        self._timer_fires = False
        self._begun: set[str] = set()
        self._names = table_names(plan)
        self._operators = {each.node_id: each for each in stateful_nodes(plan, options)}
        self._identities = identity_nodes(plan)
        self.harnesses: dict[int, OperatorHarness | MaterializerHarness] = {
            node: self._continued(each, (kept or {}).get(node))
            for node, each in self._operators.items()
        }
        """By node with an operator."""
        self._tables = {
            node.id: node.view.table.name for node in plan.nodes if isinstance(node.view, TableScan)
        }
        self._codecs = {
            node.id: _scan_codec(node.view)
            for node in plan.nodes
            if isinstance(node.view, TableScan)
        }
        self._steps = {node.id: self._step(node) for node in plan.nodes}
        self._has_assigners = any(
            isinstance(node.view, WatermarkAssigner)
            or (isinstance(node.view, TableScan) and node.view.watermark is not None)
            for node in plan.nodes
        )
        self._bundles = any(
            node.type == "stream-exec-mini-batch-assigner"
            or node.configuration.get("table.exec.mini-batch.enabled") == "true"
            for node in plan.nodes
        )

    def run(self, lines: Sequence[Line]) -> None:
        """Run all lines, then the end of all inputs."""
        self._epoch([], first=True)
        waiting: list[Line] = []
        for line in sorted(lines, key=lambda each: each.t_ms):
            if waiting and self._ends_epoch(waiting[-1], line):
                self._epoch(waiting)
                waiting = []
            waiting.append(line)
            self._begun.add(line.table)
        if waiting:
            self._epoch(waiting)
        # No job ends within the millisecond: what was to come in the next one still does.
        self._now_ms += 1
        self._epoch([], is_end=True)

    def _ends_epoch(self, last: Line, line: Line) -> bool:
        """Whether a line is not of the epoch of the one before it.

        A bundle ends, too, where a source gives its first line: with it comes the first watermark
        of Flink's `ProcTimeMiniBatchAssignerOperator`, and each watermark ends a bundle.
        """
        return not self._bundles or last.t_ms != line.t_ms or line.table not in self._begun

    def close(self) -> None:
        """Close the connections that were opened."""
        for each in self.harnesses.values():
            each.close()

    def _epoch(self, lines: Sequence[Line], *, first: bool = False, is_end: bool = False) -> None:
        if lines and START_MS + lines[-1].t_ms > self._now_ms:
            self._fire_timers(START_MS + lines[-1].t_ms)
            self._now_ms = START_MS + lines[-1].t_ms
        for harness in self.harnesses.values():
            harness.now_ms = self._now_ms
        outputs: dict[int, list[Change]] = {}
        for node in self._plan.nodes:
            sources = [each.id for each in self._plan.inputs(node.id)]
            given = [outputs[each] for each in sources]
            least = min((self._watermarks[each] for each in sources), default=WATERMARK_MIN)
            if not sources:
                given = [self._read(node, lines, first=first)]
                least = WATERMARK_MAX if is_end else WATERMARK_MIN
            before = self._watermarks.get(node.id, WATERMARK_MIN)
            outputs[node.id], watermark = self._steps[node.id](given, least)
            self._watermarks[node.id] = max(before, watermark)

    def _fire_timers(self, until_ms: int) -> None:
        """Let the assigners say what they know, if their timer is due before this time."""
        if not self._has_assigners or not self._interval_ms:
            return
        timer_ms = until_ms - until_ms % self._interval_ms
        if timer_ms > self._now_ms:
            self._now_ms = timer_ms
            self._timer_fires = True
            self._epoch([])
            self._timer_fires = False

    def _read(self, node: ExecNode, lines: Sequence[Line], *, first: bool) -> list[Change]:
        if isinstance(node.view, Values):
            if not first:
                return []
            rows = [[compile_rex(each)(()) for each in row] for row in node.view.rows]
            return [Change(RowKind.INSERT, tuple(row)) for row in rows]
        assert isinstance(node.view, TableScan)
        codec = self._codecs[node.id]
        found = []
        for line in lines:
            if line.table == self._tables[node.id]:
                data = {name: line.content["data"].get(name) for name in codec.names}
                kind = RowKind.from_short(line.content["op"])
                found.append(Change(kind, tuple(codec.decode_json(data))))
        return found

    def _step(self, node: ExecNode) -> Step:
        view = node.view
        if node.id in self._operators and not isinstance(view, Sink):
            return _operator_step(self.harnesses[node.id])
        match view:
            case Calc():
                return self._calc(view)
            case Expand(projections=projections):
                return self._expand(projections)
            case Correlate():
                return correlate_step(view, self._now)
            case WatermarkAssigner():
                return self._assigner(view.expression, view.rowtime_index)
            case TableScan(watermark=expression) if expression is not None:
                return self._assigner(expression)
            case DropUpdateBefore():
                return _passing(lambda each: each.kind is not RowKind.UPDATE_BEFORE)
            case Union():
                return _union
            case Sink():
                return self._sink(node, view)
            case _:
                return _passing(lambda _: True)

    def _calc(self, view: Calc) -> Step:
        now = self._now
        condition = view.condition and compile_predicate(view.condition, now_ms=now)
        projection = [compile_rex(each, now_ms=now) for each in view.projection]

        def step(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
            out = [
                Change(each.kind, tuple(value(each.row) for value in projection))
                for each in given[0]
                if condition is None or condition(each.row)
            ]
            return out, watermark

        return step

    def _expand(self, projections: Sequence[Sequence[Rex]]) -> Step:
        every = [[compile_rex(e, now_ms=self._now) for e in each] for each in projections]

        def step(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
            out = [
                Change(each.kind, tuple(value(each.row) for value in projection))
                for each in given[0]
                for projection in every
            ]
            return out, watermark

        return step

    def _assigner(self, expression: Rex, rowtime: int | None = None) -> Step:
        """Of a node, or of a source that the watermark was pushed into, whose row may lack it."""
        value = compile_rex(expression, now_ms=self._now)
        reached = said = 0

        def step(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
            nonlocal reached, said
            for each in given[0]:
                if rowtime is not None:
                    to_ms(each.row[rowtime])
                if (time := value(each.row)) is not None:
                    reached = max(reached, to_ms(time))
            if self._timer_fires or reached - said > self._interval_ms:
                said = reached
            if watermark == WATERMARK_MAX:
                return list(given[0]), watermark
            return list(given[0]), said or WATERMARK_MIN

        return step

    def _sink(self, node: ExecNode, view: Sink) -> Step:
        name = self._names[view.table.identifier]
        spec = sink_spec(node, view, name=name, files_root="/")
        required = [
            at
            for at, column in enumerate(view.table.schema.persisted)
            if column.type is not None and not column.type.nullable
        ]
        materialized = (
            _operator_step(self.harnesses[node.id]) if node.id in self.harnesses else None
        )
        collected = self.collected.setdefault(node.id, [])

        def step(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
            changes = [
                each for each in given[0] if all(each.row[at] is not None for at in required)
            ]
            if len(changes) < len(given[0]) and enumerated(node, NOT_NULL_OPTION) == "ERROR":
                raise SinkRefused("a column is null")
            if materialized is not None:
                changes, watermark = materialized([changes], watermark)
            collected.extend(_accepted(spec, changes))
            return [], watermark

        return step

    def _continued(
        self, info: OperatorInfo, kept: OperatorHarness | MaterializerHarness | None
    ) -> OperatorHarness | MaterializerHarness:
        """The operator of a node, on the state that it goes on with or on none."""
        spec = info.spec
        if isinstance(kept, MaterializerHarness) and isinstance(spec, MaterializerSpec):
            kept.restart(spec)
            return kept
        if isinstance(kept, OperatorHarness) and not isinstance(spec, MaterializerSpec):
            kept.restart(spec)
            return kept
        assert kept is None, "another kind of operator"
        return self._harness(info)

    def _harness(self, info: OperatorInfo) -> OperatorHarness | MaterializerHarness:
        spec = info.spec
        if isinstance(spec, LookupJoinSpec):
            info = replace(info, spec=with_places(spec, files_root=self._files_root, redis_url=""))
        make: Any = (
            MaterializerHarness if isinstance(info.spec, MaterializerSpec) else OperatorHarness
        )
        if self._client is None:
            return make.on_heap(info.spec)
        return make.on_redis(info.spec, self._client, pipeline=f"plan-harness-{info.node_id}")

    def _now(self) -> int:
        return self._now_ms


Stepped = tuple[list[Change], int]
"""What a node emits, and the watermark after it."""
Step = "Callable[[Sequence[Sequence[Change]], int], Stepped]"


def _operator_step(harness: OperatorHarness | MaterializerHarness) -> Any:
    def step(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
        if isinstance(harness, MaterializerHarness):
            numbered = list(enumerate(given[0]))
            return [each.change for each in harness.run_epoch(numbered)], watermark
        changes = [Of(at, change) for at, side in enumerate(given) for change in side]
        after = max(watermark, harness.watermark_ms)
        delay_ms = getattr(harness.spec, "watermark_delay_ms", 0)
        return harness.run_epoch(changes, watermark_ms=after), held_back(after, delay_ms)

    return step


def _passing(keeps: Callable[[Change], bool]) -> Any:
    def step(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
        return [each for each in given[0] if keeps(each)], watermark

    return step


def _union(given: Sequence[Sequence[Change]], watermark: int) -> Stepped:
    return [each for side in given for each in side], watermark


def _accepted(spec: SinkSpec, changes: Sequence[Change]) -> list[Change]:
    if spec.mode == "append":
        for each in changes:
            if each.kind is not RowKind.INSERT:
                raise SinkRefused(f"sink {spec.table} takes inserts only and got {each.kind.short}")
    return list(changes)


def _scan_codec(scan: TableScan) -> RowCodec:
    columns = [each for each in scan_columns(scan) if each.type is not None]
    return RowCodec([each.type for each in columns if each.type], [each.name for each in columns])
