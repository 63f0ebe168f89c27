"""What a pipeline consists of, as the API needs it: operators, sources and sinks by name.

Made from the record's plan and the options in force, and kept for as long as they stay the same,
since reading a plan takes milliseconds and a request about a key takes less. In force are the
options of the last run: what state means does not change before a query is started anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.plan import load_plan
from service.plan.nodes import Sink, TableScan
from service.plan.pushed import is_normalized
from service.runtime.connectors import table_names
from service.runtime.event_time import event_times, input_watermarks
from service.runtime.inspection import OperatorInspector
from service.runtime.inspection_errors import OperatorNotFound, TableNotFound
from service.runtime.key_text import KeyText
from service.runtime.operators import stateful_nodes
from service.runtime.state_inspection import StateInspector
from service.runtime.table_reader import SlotReader
from state.reader import CommittedReader
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    import redis

    from operators.spec import OperatorSpec
    from operators.upsert_materializer import MaterializerSpec
    from service.plan import CompiledPlan
    from service.plan.tables import Column, Table
    from service.runtime.event_time import Assigners
    from service.runtime.operators import OperatorInfo
    from service.runtime.records import PipelineRecord, RunOptions
    from service.settings import ExecutionSettings
    from state.types import LogicalType

PIPELINES_MAX = 64
"""Pipelines whose contents are kept; the one that was not asked for longest goes first."""


@dataclass(frozen=True, slots=True)
class OperatorContents:
    """A stateful operator."""

    id: str
    node_id: int
    kind: str
    spec: MaterializerSpec | OperatorSpec
    inspector: OperatorInspector
    states: StateInspector
    slot: SlotReader
    assigners: Assigners

    def watermarks(self) -> list[int | None]:
        """How far event time has come on each input, where the operator waits for it."""
        return input_watermarks(self.slot.marker_text()[1], self.assigners)

    def last_epoch(self) -> dict[str, float]:
        """What the operator did in the last closed epoch, as the progress record has it."""
        _, found = self.slot.progress(None, 1)
        return dict(found[0]["nodes"].get(self.id, {})) if found else {}


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table that the pipeline reads."""

    name: str
    connector: str
    node_id: int
    names: tuple[str, ...]
    """Its physical columns: also those that the plan does not use."""
    types: tuple[str, ...]
    primary_key: tuple[str, ...]
    """As it was declared; nothing here holds the source to it."""
    is_normalized: bool
    """Whether what reads it keeps the last row of each key."""
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table that the pipeline writes."""

    name: str
    connector: str
    node_id: int
    names: tuple[str, ...]
    types: tuple[str, ...]
    primary_key: tuple[str, ...]
    keys: KeyText | None
    """Of a Redis table."""

    @property
    def is_queryable(self) -> bool:
        """Whether what it holds can be read over HTTP."""
        return self.keys is not None or self.is_print

    @property
    def is_print(self) -> bool:
        """Whether it keeps the newest changes."""
        return self.connector == "print"


@dataclass(frozen=True, slots=True)
class RedisTable:
    """A sink whose rows can be read."""

    name: str
    keys: KeyText


@dataclass(frozen=True, slots=True)
class Contents:
    """What one pipeline consists of."""

    made_of: tuple[str, int, RunOptions]
    """The record's id and version of its plan, and the options in force, with that of theirs."""
    operators: tuple[OperatorContents, ...]
    sources: tuple[SourceTable, ...]
    sinks: tuple[SinkTable, ...]
    reader: CommittedReader

    def operator(self, identity: str) -> OperatorContents:
        """The operator of this id.

        Raises:
            OperatorNotFound: there is none.
        """
        for each in self.operators:
            if each.id == identity:
                return each
        known = ", ".join(each.id for each in self.operators) or "none"
        raise OperatorNotFound(
            "the pipeline has no operator of this id", hint=f"operators: {known}"
        )

    def source(self, name: str) -> SourceTable:
        """The source table of this name.

        Raises:
            TableNotFound: there is none.
        """
        for each in self.sources:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.sources) or "none"
        raise TableNotFound("no source has this name", hint=f"sources: {known}")

    def sink(self, name: str) -> SinkTable:
        """The sink table of this name, if what it holds can be read.

        Raises:
            TableNotFound: there is none.
        """
        readable = [each for each in self.sinks if each.is_queryable]
        for each in readable:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in readable) or "none"
        raise TableNotFound("no sink of this name can be read", hint=f"redis and print: {known}")

    def table(self, name: str) -> RedisTable:
        """The Redis table of this name.

        Raises:
            TableNotFound: there is none.
        """
        for each in self.sinks:
            if each.name == name and each.keys is not None:
                return RedisTable(each.name, each.keys)
        known = ", ".join(each.name for each in self.sinks if each.keys is not None) or "none"
        raise TableNotFound("no redis table has this name", hint=f"redis tables: {known}")


class ContentsCache:
    """Contents of the pipelines that were asked for last; thread-safe.

    Args:
        client: Redis; lends its address to the readers.
        execution: Gives what records leave open.
    """

    def __init__(self, client: redis.Redis, execution: ExecutionSettings) -> None:
        self._client = client
        self._execution = execution
        self._kept: OrderedDict[str, Contents] = OrderedDict()
        self._lock = threading.Lock()

    def kept(self, record: PipelineRecord) -> Contents | None:
        """The contents of a pipeline, if they are at hand; never waits."""
        with self._lock:
            kept = self._kept.get(record.name)
            if kept is None or kept.made_of != self._key(record):
                return None
            self._kept.move_to_end(record.name)
            return kept

    def of(self, record: PipelineRecord) -> Contents:
        """The contents of a pipeline.

        Raises:
            PlanError: the stored plan cannot be read any more.
        """
        if (kept := self.kept(record)) is not None:
            return kept
        made = self._make(record)
        with self._lock:
            replaced = self._kept.pop(record.name, None)
            self._kept[record.name] = made
            dropped = [replaced] if replaced is not None else []
            while len(self._kept) > PIPELINES_MAX:
                dropped.append(self._kept.popitem(last=False)[1])
        for each in dropped:
            each.reader.close()
        return made

    def forget(self, record: PipelineRecord) -> None:
        """Let go of a pipeline that is deleted."""
        with self._lock:
            dropped = self._kept.pop(record.name, None)
        if dropped is not None:
            dropped.reader.close()

    def close(self) -> None:
        """Close all readers."""
        with self._lock:
            dropped = list(self._kept.values())
            self._kept.clear()
        for each in dropped:
            each.reader.close()

    def _key(self, record: PipelineRecord) -> tuple[str, int, RunOptions]:
        return record.id, record.plan_version, record.in_force(self._execution)

    def _make(self, record: PipelineRecord) -> Contents:
        plan = load_plan(record.plan_in_force)
        made_of = self._key(record)
        options = made_of[2]
        reader = CommittedReader(self._client, record.name)
        found = stateful_nodes(plan, options, orphans_max=self._execution.orphans_max)
        slot = SlotReader(self._client, record.name)
        assigners = event_times(plan, found).inputs
        return Contents(
            made_of=made_of,
            operators=tuple(
                _operator(each, reader, slot, options, assigners[each.node_id]) for each in found
            ),
            sources=_sources(plan),
            sinks=_sinks(plan),
            reader=reader,
        )


def _operator(
    info: OperatorInfo,
    reader: CommittedReader,
    slot: SlotReader,
    options: RunOptions,
    assigners: Assigners,
) -> OperatorContents:
    descriptors = info.states
    inspector = OperatorInspector(
        reader, info.id, info.spec, options.max_parallelism, descriptors=descriptors
    )
    return OperatorContents(
        id=info.id,
        node_id=info.node_id,
        kind=info.kind,
        spec=info.spec,
        inspector=inspector,
        states=StateInspector(
            reader,
            slot,
            info.id,
            inspector.keys,
            options.max_parallelism,
            descriptors=descriptors,
            extension_ms=options.ttl_extension_ms,
            assigners=assigners,
        ),
        slot=slot,
        assigners=assigners,
    )


def _sources(plan: CompiledPlan) -> tuple[SourceTable, ...]:
    names = table_names(plan)
    found: dict[str, SourceTable] = {}
    for node in plan.nodes:
        if not isinstance(node.view, TableScan):
            continue
        table = node.view.table
        columns = table.schema.physical
        # Several scans may read one table, which is one source.
        found.setdefault(
            table.identifier,
            SourceTable(
                name=names[table.identifier],
                connector=_connector(table),
                node_id=node.id,
                names=tuple(each.name for each in columns),
                types=tuple(_text(each) for each in columns),
                primary_key=table.schema.primary_key,
                is_normalized=is_normalized(plan, table.identifier),
                options=table.options,
            ),
        )
    return tuple(found.values())


def _sinks(plan: CompiledPlan) -> tuple[SinkTable, ...]:
    names = table_names(plan)
    found: dict[str, SinkTable] = {}
    for node in plan.nodes:
        if not isinstance(node.view, Sink):
            continue
        table = node.view.table
        columns = table.schema.persisted
        key = table.schema.primary_key
        types = {each.name: each.type for each in columns}
        key_types = [kind for name in key if (kind := types[name]) is not None]
        is_redis = _connector(table) == "redis" and len(key_types) == len(key) > 0
        found.setdefault(
            table.identifier,
            SinkTable(
                name=names[table.identifier],
                connector=_connector(table),
                node_id=node.id,
                names=tuple(each.name for each in columns),
                types=tuple(_text(each) for each in columns),
                primary_key=key,
                keys=KeyText(key_types, key) if is_redis else None,
            ),
        )
    return tuple(found.values())


def _connector(table: Table) -> str:
    return table.options.get("connector", "")


def _text(column: Column) -> str:
    kind: LogicalType | None = column.type
    return "" if kind is None else format_type(kind)
