"""A plan without Spark, epoch by epoch, with the order numbers that Spark's frames give.

What `service.runtime.lowering` makes of columns on the JVM is made of rows here: each carries its
order number, its place among what one change became, and the partition that it is in.

    scan        the lines of a table in an epoch are decoded as `ingress` does, and numbered from 0
    union       numbers are spread by the number of inputs
    operator    the inputs' numbers are spread; each partition has the key groups that Spark would
                send there; rows come in any order and are sorted by `operators.worker.Places`,
                which numbers what is emitted as well; all operators share one ledger, whose close
                promotes the pending writes of all
    sink        exchanged by its key unless `is_together` says otherwise; rows sorted by number in
                each partition, partitions in any order; then as tables take them

Only Spark itself shows what it makes of a plan: how it shares or splits sources, what its tasks and
their failures do, and the exchange; `test_on_spark.py` has those.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from operators.batch import ChangeBatch
from operators.changelog import Change, RowKind
from operators.expressions import compile_predicate, compile_rex
from operators.keyed import EpochTimes
from operators.keyed_runner import KeyedRunner
from operators.kinds import epoch_operator, spec_from_json
from operators.upsert_materializer import MaterializerSpec
from operators.wire import ORDER, SEQUENCE
from operators.worker import Places
from service.plan.nodes import Calc, DropUpdateBefore, Expand, Sink, TableScan, Union, Values
from service.runtime.connectors import scan_columns, sink_spec, source_spec, table_names
from service.runtime.operators import stateful_nodes
from service.runtime.place_bits import place_bits
from service.runtime.sinks.rows import check_kinds
from service.runtime.sources.decoding import LineDecoder
from service.runtime.sources.formats import ingress_format
from service.runtime.specs import identity_nodes
from service.runtime.togetherness import is_together
from service.runtime.unions import is_merged, united
from state.arrow_values import python_values, to_column
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.key_groups import key_group
from state.registry import register_states
from state.ttl import TtlClock

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence

    import redis

    from operators.changelog import Row
    from operators.kinds import EpochOperator
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.operators import OperatorInfo
    from service.runtime.records import RunOptions
    from service.runtime.sinks.spec import SinkSpec
    from state.backends.interface import Ledger, StateBackend

T = TypeVar("T")
GROUPS = 4
"""Key groups."""
START_MS = 1_700_000_000_000
EPOCH_MS = 1_000
"""From one epoch to the next."""


class Numbered(NamedTuple):
    """A change on its way."""

    order: int
    sequence: int
    change: Change
    part: int


class Died(Exception):
    """An attempt of an epoch ended before the epoch was closed."""


@dataclass(slots=True)
class SinkTable:
    """What a sink holds as of the last closed epoch."""

    spec: SinkSpec
    rows: Counter[Row]
    """Each with how often it is there."""
    by_key: dict[Row, Row]
    """Where the sink goes by key."""

    def close(self, parts: Iterable[Sequence[Change]]) -> None:
        """Take an epoch: the changes of each partition, in order."""
        for changes in parts:
            check_kinds(self.spec, np.array([int(each.kind) for each in changes], np.int8))
            for each in changes:
                self._take(each)
        if self.spec.primary_key:
            self.rows = Counter(self.by_key.values())
        below = [row for row, count in self.rows.items() if count < 0]
        if below:
            raise AssertionError(f"{self.spec.table}: taken back, but never there: {below}")
        self.rows = +self.rows

    def _take(self, change: Change) -> None:
        retracts = change.kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
        if not self.spec.primary_key:
            self.rows[change.row] += -1 if retracts else 1
            return
        key = tuple(change.row[at] for at in self.spec.primary_key)
        if retracts:
            self.by_key.pop(key, None)
        else:
            self.by_key[key] = change.row


class Epochs:
    """A pipeline of a plan; `tables` is what its sinks hold, by name.

    Args:
        plan: It was checked. No event time, no look-ups, no correlates.
        options: Of its first run.
        chance: Of what is not determined: the order in which rows arrive, and where they come from.
        client: Where state is kept; None: on the heap.
        partitions: Tasks of each stage.
        columns_from: From so many changes on an operator works on columns.
    """

    def __init__(
        self,
        plan: CompiledPlan,
        options: RunOptions,
        chance: random.Random,
        client: redis.Redis | None = None,
        *,
        partitions: int = 2,
        columns_from: int = 64,
    ) -> None:
        self._plan = plan
        self._chance = chance
        self._names = table_names(plan)
        self._identities = identity_nodes(plan)
        self._readers = {
            self._names[node.view.table.identifier]: _Reader(plan, node.view, self._names)
            for node in plan.nodes
            if isinstance(node.view, TableScan)
        }
        self.tables: dict[str, SinkTable] = {}
        for node in plan.nodes:
            if isinstance(node.view, Sink):
                name = self._names[node.view.table.identifier]
                spec = sink_spec(node, node.view, name=name, files_root="/")
                if name in self.tables:
                    raise NotImplementedError("a table with two sinks")
                self.tables[name] = SinkTable(spec, Counter(), {})
        self._transport = None if client is None else RedisTransport(client)
        self._backend, self._ledger = self._place()
        self.epoch = 0
        self.now_ms = START_MS
        self.restart(options, partitions=partitions, columns_from=columns_from)

    def _place(self) -> tuple[StateBackend, Ledger]:
        if self._transport is None:
            heap = HeapBackend()
            return heap, heap.ledger()
        ledger = EpochLedger(self._transport, "consistency")
        ledger.drop()
        return RedisBackend(self._transport, "consistency"), ledger

    def close(self) -> None:
        """Close the connections that were opened."""
        if self._transport is not None:
            self._transport.close()

    def restart(self, options: RunOptions, *, partitions: int = 2, columns_from: int = 64) -> None:
        """Begin a new run on the same state: nothing in memory is left of the one before."""
        infos = stateful_nodes(self._plan, options)
        self._partitions = partitions
        self._run = self._ledger.open_run([each.id for each in infos], GROUPS)
        bits = place_bits(self._plan, [each.node_id for each in infos])
        self._stages = {
            each.node_id: _Stage(self, each, bits.stages[each.node_id], columns_from)
            for each in infos
        }
        self._infos = {each.node_id: each for each in infos}

    def run(self, lines: Mapping[str, Sequence[Any]], *, dies_at: int | None = None) -> None:
        """Run and close an epoch.

        Args:
            lines: By table: its lines, as JSON values, in order.
            dies_at: So many stages commit; then the attempt is over, and nothing is closed.

        Raises:
            Died: As asked.
        """
        now_ms = self.now_ms + EPOCH_MS
        stamp = EpochStamp(self.epoch + 1, self._run, now_ms)
        sources = {name: each.read(lines.get(name, ())) for name, each in self._readers.items()}
        outputs: dict[int, list[Numbered]] = {}
        written: dict[str, list[list[Change]]] = {}
        committed = 0
        for node in self._plan.nodes:
            if node.id in self._stages:
                if committed == dies_at:
                    raise Died
                committed += 1
            if isinstance(node.view, Sink):
                name = self._names[node.view.table.identifier]
                written[name] = self._written(node, node.view, outputs, stamp)
            elif not is_merged(self._plan, node):
                outputs[node.id] = self._output(node, outputs, sources, stamp)
        self._ledger.close_epoch(stamp, {}, [])
        self.epoch, self.now_ms = stamp.epoch, now_ms
        for name, parts in written.items():
            self.tables[name].close(parts)

    def _output(
        self,
        node: ExecNode,
        outputs: Mapping[int, list[Numbered]],
        sources: Mapping[str, _Read],
        stamp: EpochStamp,
    ) -> list[Numbered]:
        view = node.view
        if isinstance(view, TableScan):
            return sources[self._names[view.table.identifier]].rows(view, self._chance)
        if isinstance(view, Values):
            return self._values(view) if stamp.epoch == 1 else []
        if isinstance(view, Union):
            sides = [outputs[each] for each in united(self._plan, node)]
            return [each for side in _spread(sides) for each in side]
        given = [outputs[each.id] for each in self._plan.inputs(node.id)]
        if node.id in self._stages:
            return self._stages[node.id].run(given, stamp)
        (only,) = given
        match view:
            case Calc():
                return _calc(view, only)
            case Expand(projections=projections):
                return _expand(projections, only)
            case DropUpdateBefore():
                return [each for each in only if each.change.kind is not RowKind.UPDATE_BEFORE]
            case _:
                return only

    def _values(self, view: Values) -> list[Numbered]:
        rows = [tuple(compile_rex(each)(()) for each in row) for row in view.rows]
        return [Numbered(at, 0, Change(RowKind.INSERT, row), 0) for at, row in enumerate(rows)]

    def _written(
        self,
        node: ExecNode,
        view: Sink,
        outputs: Mapping[int, list[Numbered]],
        stamp: EpochStamp,
    ) -> list[list[Change]]:
        """What each partition of the writer stages, in its order; partitions in any order."""
        (source,) = self._plan.inputs(node.id)
        rows = outputs[source.id]
        required = [
            at
            for at, column in enumerate(view.table.schema.persisted)
            if column.type is not None and not column.type.nullable
        ]
        for each in rows:
            assert all(each.change.row[at] is not None for at in required), "a column is null"
        types = [*map(_timeless, node.output_type.children)]
        if node.id in self._stages:
            rows = self._stages[node.id].run([rows], stamp)
        elif self._is_exchanged(node, view):
            key_types = [types[at] for at in view.primary_key]
            rows = [
                each._replace(
                    part=key_group(
                        key_types, [each.change.row[at] for at in view.primary_key], GROUPS
                    )
                    % self._partitions
                )
                for each in rows
            ]
        parts: dict[int, list[Numbered]] = {}
        for each in self.shuffled(rows):
            parts.setdefault(each.part, []).append(each)
        staged = [
            [each.change for each in sorted(mine, key=lambda one: one[:2])]
            for mine in parts.values()
        ]
        self._chance.shuffle(staged)
        return staged

    def _is_exchanged(self, node: ExecNode, view: Sink) -> bool:
        """As `lowering._Lowering._sink` decides."""
        if not view.primary_key or view.input_changelog_mode.is_insert_only:
            return False
        return not is_together(self._plan, self._infos, self._identities, node)

    def shuffled(self, rows: Sequence[T]) -> list[T]:
        """These rows as an exchange might hand them over."""
        return self._chance.sample(rows, len(rows))

    @property
    def partitions(self) -> int:
        """Tasks of each stage of this run."""
        return self._partitions

    def begin(self, node: str, stamp: EpochStamp, groups: Sequence[int]) -> Any:
        """The transaction of a task."""
        return self._backend.begin(node, stamp, groups)

    def registered(self, info: OperatorInfo) -> OperatorInfo:
        """An operator, told of its states' past, which this run has."""
        spec = info.spec
        states = (
            [spec.descriptor]
            if isinstance(spec, MaterializerSpec)
            else list(spec.operator().states)
        )
        clock = TtlClock(self.now_ms, extension_ms=spec.ttl_extension_ms)
        return info.with_past(register_states(self._ledger, info.id, states, clock))


class _Reader:
    """A table's source: it decodes what all scans of the table need, as in a pipeline."""

    def __init__(self, plan: CompiledPlan, scan: TableScan, names: Mapping[str, str]) -> None:
        self._scans = [
            node.view
            for node in plan.nodes
            if isinstance(node.view, TableScan)
            and node.view.table.identifier == scan.table.identifier
        ]
        columns = {each.name: each for scan in self._scans for each in scan_columns(scan)}
        self.columns = list(columns.values())
        name = names[scan.table.identifier]
        spec = source_spec(scan.table, self.columns, name=name, files_root="/")
        self._decoder = LineDecoder(spec, ingress_format(spec.options))
        self._types = [_timeless(each.type) for each in self.columns if each.type is not None]

    def read(self, lines: Sequence[Any]) -> _Read:
        """The changes of an epoch."""
        names = [each.name for each in self.columns]
        if not lines:
            return _Read(names, [])
        found = self._decoder.decode(b"\n".join(map(orjson.dumps, lines)))
        assert not found.rejected, found.rejected
        order = self._decoder.rows_max * found.lines + found.places
        columns = [
            python_values(kind, column)
            for kind, column in zip(self._types, found.columns, strict=True)
        ]
        rows = zip(*columns, strict=True) if columns else ((),) * len(order)
        kinds = [*map(RowKind, found.kinds.tolist())]
        return _Read(names, [*zip(order.tolist(), kinds, rows, strict=True)])


@dataclass(frozen=True, slots=True)
class _Read:
    names: list[str]
    changes: list[tuple[int, RowKind, Row]]

    def rows(self, scan: TableScan, chance: random.Random) -> list[Numbered]:
        """A scan's columns; the first lines are read by one task, the others by another."""
        places = [self.names.index(each.name) for each in scan_columns(scan)]
        cut = chance.randint(0, len(self.changes))
        return [
            Numbered(order, 0, Change(kind, tuple(row[each] for each in places)), int(at < cut))
            for at, (order, kind, row) in enumerate(self.changes)
        ]


class _Stage:
    """The tasks of an operator, as `operators.worker` runs them."""

    def __init__(self, epochs: Epochs, info: OperatorInfo, bits: int, columns_from: int) -> None:
        self._epochs = epochs
        self._info = epochs.registered(info)
        self._bits = bits
        spec = self._info.spec
        self._inputs = (
            [(spec.types, spec.key)]
            if isinstance(spec, MaterializerSpec)
            else [(each.types, each.key) for each in spec.inputs]
        )
        self._columns_from = columns_from
        self._operators: dict[int, EpochOperator] = {}

    def _operator(self, part: int) -> EpochOperator:
        if part not in self._operators:
            text = self._info.spec.to_json()
            self._operators[part] = (
                epoch_operator(text, self._info.id)
                if isinstance(self._info.spec, MaterializerSpec)
                else KeyedRunner(
                    spec_from_json(text), self._info.id, columns_from=self._columns_from
                )
            )
        return self._operators[part]

    def run(self, given: Sequence[Sequence[Numbered]], stamp: EpochStamp) -> list[Numbered]:
        """An epoch of all its tasks."""
        count = self._epochs.partitions
        tasks: list[list[tuple[int, int, Numbered]]] = [[] for _ in range(count)]
        for number, side in enumerate(_spread(given)):
            types, key = self._inputs[number]
            key_types = [types[at] for at in key]
            for each in side:
                group = key_group(key_types, [each.change.row[at] for at in key], GROUPS)
                tasks[group % count].append((number, group, each))
        found: list[Numbered] = []
        for part, rows in enumerate(tasks):
            found += self._task(part, self._epochs.shuffled(rows), stamp)
        return found

    def _task(
        self, part: int, rows: Sequence[tuple[int, int, Numbered]], stamp: EpochStamp
    ) -> list[Numbered]:
        operator, count = self._operator(part), self._epochs.partitions
        groups = sorted({group for _, group, _ in rows})
        total_group = None
        if operator.has_total and key_group((), (), GROUPS) % count == part:
            total_group = key_group((), (), GROUPS)
            groups = sorted({*groups, total_group})
        if operator.uses_every_epoch:
            groups = [each for each in range(GROUPS) if each % count == part]
        if not groups:
            return []
        places = Places.of(
            pa.table(
                {
                    ORDER: pa.array([each.order for _, _, each in rows], pa.int64()),
                    SEQUENCE: pa.array([each.sequence for _, _, each in rows], pa.int64()),
                }
            )
        )
        output = operator.run_epoch(
            self._batches(rows, places),
            self._epochs.begin(self._info.id, stamp, groups),
            epoch=stamp.epoch,
            times=EpochTimes(stamp.time_ms),
            key_groups=groups,
            total_group=total_group,
        ).batch
        if not len(output):
            return []
        order, sequence = places.of_emissions(output.order, part, count, self._bits)
        columns = [
            python_values(kind, column)
            for kind, column in zip(operator.output_types, output.columns, strict=True)
        ]
        values = zip(*columns, strict=True) if columns else ((),) * len(output)
        numbers = zip(order.tolist(), sequence.tolist(), output.kinds.tolist(), values, strict=True)
        return [Numbered(o, s, Change(RowKind(kind), row), part) for o, s, kind, row in numbers]

    def _batches(
        self, rows: Sequence[tuple[int, int, Numbered]], places: Places
    ) -> list[ChangeBatch]:
        found = []
        for number, (types, _) in enumerate(self._inputs):
            mine = [at for at, each in enumerate(rows) if each[0] == number]
            changes = [rows[at][2].change for at in mine]
            found.append(
                ChangeBatch.of(
                    [
                        to_column(t, [each.row[at] for each in changes])
                        for at, t in enumerate(types)
                    ],
                    [each.kind for each in changes],
                    places.ranks[mine],
                    [rows[at][1] for at in mine],
                )
            )
        return found


def _spread(sides: Sequence[Sequence[Numbered]]) -> list[list[Numbered]]:
    """As `frames._spread`."""
    count = len(sides)
    return [
        [each._replace(order=each.order * count + at) for each in side]
        for at, side in enumerate(sides)
    ]


def _calc(view: Calc, rows: Sequence[Numbered]) -> list[Numbered]:
    keeps = None if view.condition is None else compile_predicate(view.condition)
    values = [compile_rex(each) for each in view.projection]
    return [
        each._replace(
            change=Change(each.change.kind, tuple(value(each.change.row) for value in values))
        )
        for each in rows
        if keeps is None or keeps(each.change.row)
    ]


def _expand(projections: Sequence[Sequence[Any]], rows: Sequence[Numbered]) -> list[Numbered]:
    every = [[compile_rex(each) for each in projection] for projection in projections]
    return [
        each._replace(
            order=each.order * len(every) + place,
            change=Change(each.change.kind, tuple(value(each.change.row) for value in projection)),
        )
        for each in rows
        for place, projection in enumerate(every)
    ]


def _timeless(kind: Any) -> Any:
    return replace(kind, time_attribute=None)
