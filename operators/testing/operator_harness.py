"""Run a keyed operator over a list of changes, epoch by epoch, on any backend.

    harness = OperatorHarness.on_heap(spec)
    emitted = harness.run([insert("a", 1), At(5_000), delete("a", 1)], epoch_changes=7)

Steps are changes (of input 0), `Of(input, change)`, `At(ms)` (processing time moves on) and
`Watermark(ms)`. What is emitted is the same for every backend, every `epoch_changes` (unless the
operator works by bundles) and every order in which state requests are answered: tests vary them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from operators.batch import ChangeBatch, SetAside
from operators.changelog import Change, Row, RowKind
from operators.keyed import WATERMARK_MIN, EpochTimes
from operators.keyed_runner import KeyedRunner
from operators.kinds import spec_from_json
from state.arrow_values import python_values, to_column
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.key_groups import key_group
from state.reader import CommittedReader
from state.registry import register_states
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import redis

    from operators.spec import OperatorSpec
    from state.backends.interface import Ledger, StateBackend, StateView
    from state.execution.channels import Channel
    from state.primitives.session import StateSession

NODE = "1_operator"


@dataclass(frozen=True, slots=True)
class Of:
    """A change of an input."""

    input: int
    change: Change


@dataclass(frozen=True, slots=True)
class At:
    """Processing time is now this."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row below this event time is to come."""

    ms: int


def insert(*row: object) -> Change:
    """+I of this row."""
    return Change(RowKind.INSERT, row)


def update_before(*row: object) -> Change:
    """-U of this row."""
    return Change(RowKind.UPDATE_BEFORE, row)


def update_after(*row: object) -> Change:
    """+U of this row."""
    return Change(RowKind.UPDATE_AFTER, row)


def delete(*row: object) -> Change:
    """-D of this row."""
    return Change(RowKind.DELETE, row)


class OperatorHarness:
    """One operator with its own state, ledger and times.

    Args:
        spec: The operator; it goes through its JSON, as on its way to workers.
        backend: Where its state is; empty.
        ledger: What closes its epochs.
        view: Gives a view of committed state.
        max_parallelism: Key groups; all are run in one task.
        channel_of: Answers state requests in another order; see `state.testing.execution`.
        prefetches: Whether states are loaded for all keys of an epoch before its first change; if
            not, every one that is not in the epoch's cache is a request.
        node: The operator's id.
        shuffled: Hand each epoch's rows over in another order than theirs, as a shuffle does.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        backend: StateBackend,
        ledger: Ledger,
        view: Callable[[str], StateView],
        *,
        max_parallelism: int = 4,
        channel_of: Callable[[StateSession], Channel] | None = None,
        prefetches: bool = True,
        shuffled: bool = True,
        node: str = NODE,
        columns_from: int = 1,
    ) -> None:
        self.statistics: list[dict[str, int]] = []
        """Of each epoch."""
        self.set_aside: list[SetAside] = []
        """Of all epochs."""
        self.now_ms = 0
        self.watermark_ms = WATERMARK_MIN
        self._backend, self._ledger, self._view = backend, ledger, view
        self._max_parallelism = max_parallelism
        self._channel_of = channel_of
        self._prefetches = prefetches
        self._columns_from = columns_from
        self._shuffled = shuffled
        self._node = node
        self._close: list[Callable[[], None]] = []
        self._epoch = 0
        self.restart(spec)

    @classmethod
    def on_heap(
        cls,
        spec: OperatorSpec,
        **options: Any,  # of `__init__`, which names and checks them
    ) -> Self:
        """With state in this process."""
        backend = HeapBackend()
        return cls(spec, backend, backend.ledger(), backend.view, **options)

    @classmethod
    def on_redis(
        cls,
        spec: OperatorSpec,
        client: redis.Redis,
        *,
        pipeline: str = "operator-harness",
        **options: Any,  # options of `__init__`, which names and checks them
    ) -> Self:
        """With state in this Redis, under a pipeline that is dropped first."""
        transport, reader = RedisTransport(client), CommittedReader(client, pipeline)
        ledger, backend = EpochLedger(transport, pipeline), RedisBackend(transport, pipeline)
        ledger.drop()
        harness = cls(spec, backend, ledger, reader.view, **options)
        harness._close += [reader.close, transport.close]
        return harness

    def restart(self, spec: OperatorSpec) -> None:
        """Begin a new run on the same state, as a pipeline with a changed plan does."""
        self._run = self._ledger.open_run([self._node], self._max_parallelism)
        clock = TtlClock(self.now_ms, self.watermark_ms, spec.ttl_extension_ms)
        states = register_states(self._ledger, self._node, spec.operator().states, clock)
        self.spec = spec_from_json(spec.with_past(states).to_json())
        self._runner = KeyedRunner(
            self.spec,
            self._node,
            channel_of=self._channel_of,
            prefetches=self._prefetches,
            columns_from=self._columns_from,
        )

    def close(self) -> None:
        """Close the connections that were opened."""
        for each in self._close:
            each()
        self._close.clear()

    def run(
        self,
        steps: Iterable[Change | Of | At | Watermark],
        *,
        epoch_changes: int | None = None,
    ) -> list[Change]:
        """Run all steps. A new time or watermark ends an epoch, and so does a full one."""
        emitted: list[Change] = []
        waiting: list[Of] = []

        def flush(watermark_ms: int | None = None) -> None:
            if waiting or watermark_ms is not None:
                emitted.extend(self.run_epoch(waiting, watermark_ms=watermark_ms))
                waiting.clear()

        for step in steps:
            match step:
                case At(time_ms=time_ms):
                    flush()
                    self.now_ms = time_ms
                    emitted += self.run_epoch([])
                case Watermark(ms=ms):
                    flush(ms)
                case Of():
                    waiting.append(step)
                case Change():
                    waiting.append(Of(0, step))
            if len(waiting) == epoch_changes:
                flush()
        flush()
        return emitted

    def run_epoch(self, changes: Sequence[Of], *, watermark_ms: int | None = None) -> list[Change]:
        """Run one epoch of changes, at `now_ms`; may be empty.

        Args:
            changes: In order.
            watermark_ms: The watermark that comes after them; None: it stays.
        """
        after_ms = self.watermark_ms if watermark_ms is None else watermark_ms
        groups = range(self._max_parallelism)
        stamp = EpochStamp(self._epoch + 1, self._run, self.now_ms)
        output = self._runner.run_epoch(
            self._batches(changes),
            self._backend.begin(self._node, stamp, groups),
            epoch=stamp.epoch,
            times=EpochTimes(self.now_ms, self.watermark_ms, after_ms),
            key_groups=groups,
            total_group=self._key_group((), ()),
            is_local=isinstance(self._backend, HeapBackend) and self._channel_of is None,
        )
        self._epoch += 1
        self.watermark_ms = after_ms
        self._ledger.close_epoch(stamp, {}, [])
        self.statistics.append(output.statistics)
        self.set_aside += output.set_aside
        return self._emitted(output.batch)

    def stored_names(self) -> set[bytes]:
        """Names of all structures that hold something; on heap only, where all can be listed."""
        assert isinstance(self._backend, HeapBackend)
        self._ledger.promote_all([self._node], self._max_parallelism)
        groups = self._backend.store.key_groups.values()
        return {name for group in groups for name in group.space.structures}

    def view(self) -> StateView:
        """Committed state, as it is now."""
        return self._view(self._node)

    def _batches(self, changes: Sequence[Of]) -> list[ChangeBatch]:
        found = []
        for number, spec in enumerate(self.spec.inputs):
            mine = [(at, of.change) for at, of in enumerate(changes) if of.input == number]
            if self._shuffled:
                places = np.random.default_rng(len(mine)).permutation(len(mine))
                mine = [mine[place] for place in places.tolist()]
            rows = [change.row for _, change in mine]
            key_types = [spec.types[at] for at in spec.key]
            found.append(
                ChangeBatch.of(
                    [to_column(kind, [r[at] for r in rows]) for at, kind in enumerate(spec.types)],
                    [change.kind for _, change in mine],
                    [at for at, _ in mine],
                    [self._key_group(key_types, [row[at] for at in spec.key]) for row in rows],
                )
            )
        return found

    def _key_group(self, types: Sequence[Any], key: Sequence[Any]) -> int:
        return key_group(types, key, self._max_parallelism)

    def _emitted(self, batch: ChangeBatch) -> list[Change]:
        columns = [
            python_values(kind, column)
            for kind, column in zip(self.spec.output.types, batch.columns, strict=True)
        ]
        rows: list[Row] = list(zip(*columns, strict=True)) if columns else [()] * len(batch)
        kinds = [RowKind(each) for each in batch.kinds.tolist()]
        return [Change(kind, row) for kind, row in zip(kinds, rows, strict=True)]
