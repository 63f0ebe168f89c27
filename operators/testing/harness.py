"""Run a materializer over a list of changes, epoch by epoch, on any backend.

    harness = MaterializerHarness.on_heap(spec)
    emissions = harness.run(changes, epoch_changes=7)      # [Emission(change, cause), ...]
    harness.history(key)                                   # rows, oldest first

and recorded cases of the real operator (`spec.json`, `input.jsonl`, `expected.jsonl`):

    result = run_case(folder, strategy=Strategy.MAP, epoch_changes=1000)
    assert result.difference is None
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from operators.batch import ChangeBatch
from operators.changelog import Change, Row, RowKind, materialize_upserts
from operators.testing.batch import UpsertView, comparable
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.arrow_values import to_column
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.codec import RowCodec
from state.epochs import EpochLedger
from state.key_groups import key_group, key_groups_of_columns
from state.multiset.history import Expired, HistoryPage, list_keys, read_history
from state.multiset.strategy import Strategy
from state.reader import CommittedReader
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import redis

    from operators.batch import EpochOutput
    from state.backends.interface import EpochTransaction, Ledger, StateBackend, StateView

NODE = "1_sink-materializer"


@dataclass(frozen=True, slots=True)
class Emission:
    """An emitted change and the input change that caused it."""

    change: Change
    cause: int
    """Index in the input; lines that are no changes count."""


@dataclass(frozen=True, slots=True)
class Step:
    """A line of an input: a change, or the time that is now."""

    change: Change | None = None
    time_ms: int | None = None


class Closing(Protocol):
    """Something with connections."""

    def close(self) -> None:
        """Let go of them."""


class MaterializerHarness:
    """One materializer with its own state, ledger and time.

    Args:
        spec: The materializer.
        backend: Where its state is; empty.
        ledger: What closes its epochs.
        view: Gives a view of committed state.
        max_parallelism: Key groups; all are run in one task.
        shuffled: Hand each epoch's rows over in another order than theirs, as a shuffle does.
    """

    def __init__(
        self,
        spec: MaterializerSpec,
        backend: StateBackend,
        ledger: Ledger,
        view: Callable[[str], StateView],
        *,
        max_parallelism: int = 4,
        shuffled: bool = True,
    ) -> None:
        self.spec = spec
        self.statistics: list[dict[str, int]] = []
        """Of each epoch."""
        self.now_ms = 0
        self._operator = UpsertMaterializer(MaterializerSpec.from_json(spec.to_json()))
        self._backend, self._ledger, self._view = backend, ledger, view
        self._max_parallelism = max_parallelism
        self._shuffled = shuffled
        self._run = ledger.open_run([NODE], max_parallelism)
        self._opened: list[Closing] = []
        self._epoch = 0
        self._row_codec = spec.input.row_codec
        self._key_codec = spec.input.key_codec

    @classmethod
    def on_heap(cls, spec: MaterializerSpec, **options: Any) -> MaterializerHarness:
        """With state in this process."""
        backend = HeapBackend()
        return cls(spec, backend, backend.ledger(), backend.view, **options)

    @classmethod
    def on_redis(
        cls,
        spec: MaterializerSpec,
        client: redis.Redis,
        *,
        pipeline: str = "harness",
        **options: Any,
    ) -> MaterializerHarness:
        """With state in this Redis, under a pipeline that is dropped first."""
        transport, reader = RedisTransport(client), CommittedReader(client, pipeline)
        ledger, backend = EpochLedger(transport, pipeline), RedisBackend(transport, pipeline)
        ledger.drop()
        harness = cls(spec, backend, ledger, reader.view, **options)
        harness._opened = [reader, transport]
        return harness

    def restart(self, spec: MaterializerSpec) -> None:
        """Begin a new run on the same state, as a pipeline with changed options does."""
        self.spec = spec
        self._operator = UpsertMaterializer(MaterializerSpec.from_json(spec.to_json()))
        self._run = self._ledger.open_run([NODE], self._max_parallelism)

    def close(self) -> None:
        """Close the connections that were opened."""
        for each in self._opened:
            each.close()
        self._opened.clear()

    def run(
        self, steps: Iterable[Change | Step], *, epoch_changes: int | None = None
    ) -> list[Emission]:
        """Run all steps. A new time begins a new epoch, and so does a full one."""
        emissions: list[Emission] = []
        waiting: list[tuple[int, Change]] = []
        for index, given in enumerate(steps):
            step = given if isinstance(given, Step) else Step(change=given)
            if step.time_ms is not None:
                emissions += self._flush(waiting)
                self.now_ms = step.time_ms
            if step.change is not None:
                waiting.append((index, step.change))
            if len(waiting) == epoch_changes:
                emissions += self._flush(waiting)
        return emissions + self._flush(waiting)

    def run_epoch(self, changes: Sequence[tuple[int, Change]]) -> list[Emission]:
        """Run one epoch of changes, each with its order; may be empty."""
        output = self._attempt(changes)
        self._epoch += 1
        self._ledger.close_epoch(self._stamp(self._epoch), {}, [])
        self.statistics.append(output.statistics)
        return self._emissions(output.batch)

    def attempt(self, changes: Sequence[tuple[int, Change]]) -> list[Emission]:
        """Run the next epoch up to its commit, and do not close it: there may be more attempts."""
        return self._emissions(self._attempt(changes).batch)

    def run_epoch_by(self, body: Callable[[EpochTransaction, Sequence[int]], None]) -> None:
        """Let something else run the next epoch on the same state, in these key groups."""
        groups = range(self._max_parallelism)
        body(self._backend.begin(NODE, self._stamp(self._epoch + 1), groups), groups)
        self._epoch += 1
        self._ledger.close_epoch(self._stamp(self._epoch), {}, [])

    def _attempt(self, changes: Sequence[tuple[int, Change]]) -> EpochOutput:
        groups = range(self._max_parallelism)
        transaction = self._backend.begin(NODE, self._stamp(self._epoch + 1), groups)
        return self._operator.run_epoch(
            self._batch(changes), transaction, time_ms=self.now_ms, key_groups=groups
        )

    def _stamp(self, epoch: int) -> EpochStamp:
        return EpochStamp(epoch, self._run, self.now_ms)

    def page(self, key: Row, **options: Any) -> HistoryPage | Expired | None:
        """A key's history as HTTP shows it."""
        return read_history(
            self._view(NODE),
            self._key_group(key),
            self._key_codec.encode(key),
            policy=self.spec.policy,
            now_ms=self.now_ms,
            **options,
        )

    def history(self, key: Row) -> list[Row]:
        """A key's live rows, oldest first."""
        page = self.page(key, limit=1 << 30)
        if not isinstance(page, HistoryPage):
            return []
        return [self._row_codec.decode(entry.row) for entry in page.entries]

    def stored_keys(self) -> list[Row]:
        """Keys that have something in state."""
        found = []
        for group in range(self._max_parallelism):
            _, page = list_keys(self._view(NODE), group, count=1 << 30)
            found += [self._key_codec.decode(each.key) for each in page]
        return found

    def stored_names(self) -> set[bytes]:
        """Names of all structures in state; on heap only, where everything can be listed."""
        assert isinstance(self._backend, HeapBackend)
        groups = self._backend.store.key_groups.values()
        return {name for group in groups for name in group.space.structures}

    def view(self) -> StateView:
        """Committed state, as it is now."""
        return self._view(NODE)

    def _flush(self, waiting: list[tuple[int, Change]]) -> list[Emission]:
        if not waiting:
            return []
        emissions = self.run_epoch(waiting)
        waiting.clear()
        return emissions

    def _batch(self, changes: Sequence[tuple[int, Change]]) -> ChangeBatch:
        count = len(changes)
        places = np.arange(count)
        if self._shuffled:
            places = np.random.default_rng(count).permutation(count)
        given = [changes[place] for place in places.tolist()]
        types = self.spec.types
        columns = [
            to_column(logical, [change.row[column] for _, change in given])
            for column, logical in enumerate(types)
        ]
        key_types = [types[column] for column in self.spec.key]
        key_columns = [columns[column] for column in self.spec.key]
        return ChangeBatch.of(
            columns,
            [change.kind for _, change in given],
            [order for order, _ in given],
            key_groups_of_columns(key_types, key_columns, self._max_parallelism),
        )

    def _emissions(self, batch: ChangeBatch) -> list[Emission]:
        rows = [
            self._row_codec.decode(row)
            for row in self._row_codec.encode_columns(batch.columns).to_pylist()
        ]
        return [
            Emission(Change(RowKind(kind), row), order)
            for kind, row, order in zip(
                batch.kinds.tolist(), rows, batch.order.tolist(), strict=True
            )
        ]

    def _key_group(self, key: Row) -> int:
        types = [self.spec.types[column] for column in self.spec.key]
        return key_group(types, key, self._max_parallelism)


@dataclass(frozen=True, slots=True)
class MaterializerCase:
    """A recorded run of the real operator."""

    name: str
    spec: MaterializerSpec
    steps: tuple[Step, ...]
    expected: tuple[Emission, ...]
    final: dict[str, Any] | None
    """Table and history at the end, as recorded."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of a case."""

    name: str
    difference: str | None
    """The first difference in words; None: none."""
    emissions: tuple[Emission, ...]
    statistics: tuple[dict[str, int], ...]
    """Of each epoch."""


def load_case(folder: Path) -> MaterializerCase:
    """Read a case from its folder: spec.json, input.jsonl, expected.jsonl, perhaps final.json."""
    document = json.loads((folder / "spec.json").read_text())
    names = tuple(column["name"] for column in document["columns"])
    upsert_key = document["upsert_key"]
    spec = MaterializerSpec(
        types=tuple(parse_type(column["type"]) for column in document["columns"]),
        names=names,
        key=tuple(names.index(name) for name in document["primary_key"]),
        upsert_key=None if upsert_key is None else tuple(map(names.index, upsert_key)),
        strategy=Strategy(document["strategy"]),
        high=document["adaptive_high"],
        low=document["adaptive_low"],
        ttl_ms=document["ttl_ms"] or 0,
    )
    codec = RowCodec(spec.types, names)
    lines = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    steps = [
        Step(time_ms=line["ms"]) if line["op"] == "@time" else Step(change=_change(codec, line))
        for line in lines
    ]
    outputs = [json.loads(line) for line in (folder / "expected.jsonl").read_text().splitlines()]
    final = folder / "final.json"
    return MaterializerCase(
        name=folder.name,
        spec=spec,
        steps=tuple(steps),
        expected=tuple(Emission(_change(codec, line), line["in"]) for line in outputs),
        final=json.loads(final.read_text()) if final.exists() else None,
    )


def run_case(
    folder: Path,
    *,
    strategy: Strategy | None = None,
    client: redis.Redis | None = None,
    epoch_changes: int = 1000,
    high: int | None = None,
    low: int | None = None,
) -> CaseResult:
    """Run a recorded case and compare.

    Args:
        folder: The case.
        strategy: In place of the recorded one.
        client: A Redis to run on; None: heap.
        epoch_changes: Changes in an epoch at most.
        high: Threshold in place of the recorded one, with `low`.
        low: Threshold in place of the recorded one, with `high`.

    Returns:
        The result. A case with a TTL was recorded with LEGACY; for the other strategies, whose
        entries expire one by one, emissions are compared with `UpsertView` instead.
    """
    case = load_case(folder)
    spec = replace(case.spec, strategy=strategy or case.spec.strategy)
    if high is not None or low is not None:
        spec = replace(spec, high=high, low=low)
    if client is None:
        harness = MaterializerHarness.on_heap(spec)
    else:
        harness = MaterializerHarness.on_redis(spec, client)
    emissions = harness.run(case.steps, epoch_changes=epoch_changes)
    expected: Sequence[Emission] = case.expected
    if spec.ttl_ms and spec.strategy is not Strategy.LEGACY:
        expected = expect(spec, case.steps)
    difference = first_difference(emissions, expected) or _final_difference(
        case, harness, emissions
    )
    harness.close()
    return CaseResult(case.name, difference, tuple(emissions), tuple(harness.statistics))


def expect(spec: MaterializerSpec, steps: Iterable[Change | Step]) -> list[Emission]:
    """What `UpsertView`, the plain definition, emits for these steps."""
    whole = spec.strategy is Strategy.LEGACY
    view = UpsertView(spec.key, spec.upsert_key, ttl_ms=spec.ttl_ms, whole=whole)
    emissions, now_ms = [], 0
    for index, given in enumerate(steps):
        step = given if isinstance(given, Step) else Step(change=given)
        now_ms = now_ms if step.time_ms is None else step.time_ms
        emitted = view.apply(step.change, now_ms) if step.change is not None else None
        if emitted is not None:
            emissions.append(Emission(emitted, index))
    return emissions


def first_difference(found: Sequence[Emission], expected: Sequence[Emission]) -> str | None:
    """Where two runs of emissions part, in words; rows are compared as canonical rows are."""
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        if _identity(one) != _identity(other):
            return f"emission {place}: {_words(one)}, expected {_words(other)}"
    if len(found) > len(expected):
        return f"emission {len(expected)}: {_words(found[len(expected)])}, expected no more"
    if len(found) < len(expected):
        return f"emission {len(found)}: none, expected {_words(expected[len(found)])}"
    return None


def _final_difference(
    case: MaterializerCase, harness: MaterializerHarness, emissions: Sequence[Emission]
) -> str | None:
    if case.final is None:
        return None
    codec, key_codec = case.spec.input.row_codec, case.spec.input.key_codec
    table = materialize_upserts((each.change for each in emissions), case.spec.key)
    recorded = {codec.encode(codec.decode_json(each["row"])) for each in case.final["table"]}
    if {codec.encode(row) for row in table.values()} != recorded:
        return "the table at the end is another"
    histories = {
        key_codec.encode(key_codec.decode_json(each["key"])): [
            codec.encode(codec.decode_json(row)) for row in each["rows"]
        ]
        for each in case.final["history"]
    }
    keys = harness.stored_keys()
    if {key_codec.encode(key) for key in keys} != set(histories):
        return "keys with state at the end are others"
    for key in keys:
        rows = [codec.encode(row) for row in harness.history(key)]
        if rows != histories[key_codec.encode(key)]:
            return "a history at the end is another"
    return None


def _identity(emission: Emission) -> object:
    return emission.change.kind, comparable(emission.change.row), emission.cause


def _words(emission: Emission) -> str:
    return f"{emission.change.kind.short} {emission.change.row} (in {emission.cause})"


def _change(codec: RowCodec, line: dict[str, Any]) -> Change:
    return Change(RowKind.from_short(line["op"]), codec.decode_json(line["data"]))
