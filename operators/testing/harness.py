"""Run a materializer over a list of changes, epoch by epoch, on any backend.

    harness = MaterializerHarness.on_heap(spec)
    emissions = harness.run(changes, epoch_changes=7)      # [Emission(change, cause), ...]
    harness.history(key)                                   # rows, oldest first

`operators.testing.recorded` compares what it gives with the definition, and with recorded cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from operators.batch import ChangeBatch
from operators.changelog import Change, Row, RowKind
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.arrow_values import to_column
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.key_groups import key_group, key_groups_of_columns
from state.multiset.history import Expired, HistoryPage, list_keys, read_history
from state.reader import CommittedReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
    def on_heap(
        cls,
        spec: MaterializerSpec,
        **options: Any,  # of `__init__`, which names and checks them
    ) -> MaterializerHarness:
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
        **options: Any,  # options of `__init__`, which names and checks them
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

    def page(
        self,
        key: Row,
        **options: Any,  # of `read_history`, which names and checks them
    ) -> HistoryPage | Expired | None:
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
