"""Any operator, epoch by epoch, as a pipeline runs it: several tasks, restarts, any backend.

`operators.testing.operator_harness` has one task and one runner for good, and no materializer. Here
each epoch may have other tasks, with an operator of their own for their range of key groups, and a
restart throws all operators away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from operators.batch import ChangeBatch
from operators.changelog import Change, RowKind
from operators.keyed import WATERMARK_MIN, EpochTimes
from operators.keyed_runner import KeyedRunner
from operators.kinds import epoch_operator, spec_from_json
from operators.upsert_materializer import MaterializerSpec
from service.runtime.operators import OperatorInfo
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
    from collections.abc import Iterable, Sequence

    import redis

    from operators.kinds import EpochOperator
    from operators.spec import OperatorSpec
    from operators.testing.operator_harness import Of
    from state.backends.interface import Ledger, StateBackend
    from state.descriptors import StateDescriptor

    AnySpec = OperatorSpec | MaterializerSpec

NODE: Final = "1_operator"
GROUPS: Final = 4
"""Key groups, unless a stage is told another number."""
EARLY, LATE = -1, 1 << 40
"""Instead of an order number: what timers emit before and after the changes of an epoch."""
Said = tuple[int, RowKind, bytes]
"""An emission: the number of its cause in the epoch, its kind, and its row as canonical text."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The changes of an epoch, and its times."""

    changes: tuple[Of, ...]
    time_ms: int
    watermark_ms: int | None = None
    """The watermark that comes after them; None: it stays."""


@dataclass
class Stage:
    """One operator on its state.

    Args:
        spec: The operator.
        backend: Where its state is.
        ledger: What closes its epochs.
        groups: Key groups.
        columns_from: From so many changes on an epoch goes on columns.
        epoch: The last one that was closed.
    """

    spec: AnySpec
    backend: StateBackend
    ledger: Ledger
    groups: int = GROUPS
    columns_from: int = 1
    epoch: int = 0
    watermark_ms: int = WATERMARK_MIN
    now_ms: int = 0

    def __post_init__(self) -> None:
        self._closing: list[Any] = []
        self.restart()

    @classmethod
    def on_heap(cls, spec: AnySpec, **options: Any) -> Stage:
        """With state in this process."""
        backend = HeapBackend()
        return cls(spec, backend, backend.ledger(), **options)

    @classmethod
    def on_redis(
        cls, spec: AnySpec, client: redis.Redis, *, pipeline: str = "stage", **options: Any
    ) -> Stage:
        """With state in this Redis, as it is there."""
        transport = RedisTransport(client)
        ledger = EpochLedger(transport, pipeline)
        stage = cls(spec, RedisBackend(transport, pipeline), ledger, **options)
        stage._closing.append(transport)
        return stage

    def close(self) -> None:
        """Close what was opened."""
        for each in self._closing:
            each.close()

    def restart(self, spec: AnySpec | None = None) -> None:
        """Begin a new run: nothing in memory is left of the one before.

        Args:
            spec: What the operator is from now on; None: what it was.
        """
        self.spec = self.spec if spec is None else spec
        self._run = self.ledger.open_run([NODE], self.groups)
        clock = TtlClock(self.now_ms, self.watermark_ms, self.spec.ttl_extension_ms)
        self.states: list[StateDescriptor] = register_states(
            self.ledger, NODE, states_of(self.spec), clock
        )
        kind = self.spec.KIND if isinstance(self.spec, MaterializerSpec) else self.spec.kind
        self._json = OperatorInfo(NODE, 1, kind, self.spec).with_past(self.states).spec.to_json()
        self._operators: dict[tuple[int, ...], EpochOperator] = {}

    def run(self, epoch: Epoch, tasks: Sequence[Sequence[int]] | None = None) -> list[list[Said]]:
        """Run an epoch.

        Args:
            epoch: What is in it.
            tasks: The key groups of each task; None: one task has all.

        Returns:
            What each task emits.
        """
        ranges = [tuple(range(self.groups))] if tasks is None else [*map(tuple, tasks)]
        before_ms = self.watermark_ms
        after_ms = before_ms if epoch.watermark_ms is None else epoch.watermark_ms
        stamp = EpochStamp(self.epoch + 1, self._run, epoch.time_ms)
        total_group = key_group((), (), self.groups)
        said = []
        for groups in ranges:
            runner = self._operator(groups)
            output = runner.run_epoch(
                self._batches(epoch.changes, set(groups)),
                self.backend.begin(NODE, stamp, groups),
                epoch=stamp.epoch,
                times=EpochTimes(epoch.time_ms, before_ms, after_ms),
                key_groups=groups,
                total_group=total_group if total_group in groups else None,
            )
            said.append(self._said(output.batch, runner, epoch, set(groups)))
        self.epoch += 1
        self.watermark_ms, self.now_ms = after_ms, epoch.time_ms
        self.ledger.close_epoch(stamp, {}, [])
        return said

    def run_all(self, epochs: Iterable[Epoch]) -> list[list[Said]]:
        """What each epoch emits, where one task has all."""
        return [self.run(each)[0] for each in epochs]

    def stored(self) -> dict[tuple[int, bytes], dict[Any, Any]]:
        """All that the heap keeps, by key group and name, but for the protocol's own."""
        assert isinstance(self.backend, HeapBackend)
        self.ledger.promote_all([NODE], self.groups)
        return {
            (number, name): held if isinstance(held, dict) else dict(held.scores)
            for (_, number), group in self.backend.store.key_groups.items()
            for name, held in group.space.structures.items()
            if name not in (b"meta", b"orphans")
        }

    def row_codec(self) -> Any:
        """The codec of what is emitted."""
        if isinstance(self.spec, MaterializerSpec):
            return self.spec.input.row_codec
        return self.spec.output.codec()

    def key_types(self, number: int = 0) -> list[Any]:
        """The types of the key's columns."""
        types, key = self._input(number)
        return [types[at] for at in key]

    def _operator(self, groups: tuple[int, ...]) -> EpochOperator:
        if groups not in self._operators:
            self._operators[groups] = (
                epoch_operator(self._json, NODE)
                if isinstance(self.spec, MaterializerSpec)
                else KeyedRunner(spec_from_json(self._json), NODE, columns_from=self.columns_from)
            )
        return self._operators[groups]

    def _input(self, number: int) -> tuple[Sequence[Any], Sequence[int]]:
        if isinstance(self.spec, MaterializerSpec):
            return self.spec.types, self.spec.key
        return self.spec.inputs[number].types, self.spec.inputs[number].key

    def group_of(self, change: Of) -> int:
        """The key group of a change."""
        types, key = self._input(change.input)
        row = change.change.row
        return key_group([types[at] for at in key], [row[at] for at in key], self.groups)

    def key_of(self, change: Of) -> tuple[object, ...]:
        """The key of a change."""
        _, key = self._input(change.input)
        return tuple(change.change.row[at] for at in key)

    def _batches(self, changes: Sequence[Of], groups: set[int]) -> list[ChangeBatch]:
        inputs = 1 if isinstance(self.spec, MaterializerSpec) else len(self.spec.inputs)
        found = []
        for number in range(inputs):
            types, _ = self._input(number)
            mine = [
                (at, each.change, self.group_of(each))
                for at, each in enumerate(changes)
                if each.input == number
            ]
            mine = [each for each in mine if each[2] in groups]
            places = np.random.default_rng(len(mine)).permutation(len(mine))
            mine = [mine[place] for place in places.tolist()]
            found.append(
                ChangeBatch.of(
                    [
                        to_column(kind, [each.row[at] for _, each, _ in mine])
                        for at, kind in enumerate(types)
                    ],
                    [each.kind for _, each, _ in mine],
                    [order for order, _, _ in mine],
                    [group for _, _, group in mine],
                )
            )
        return found

    def _said(
        self, batch: ChangeBatch, runner: EpochOperator, epoch: Epoch, groups: set[int]
    ) -> list[Said]:
        mine = [at for at, each in enumerate(epoch.changes) if self.group_of(each) in groups]
        first, last = (mine[0], mine[-1]) if mine else (0, 0)
        encode = self.row_codec().encode
        columns = [
            python_values(kind, column)
            for kind, column in zip(runner.output_types, batch.columns, strict=True)
        ]
        return [
            (
                EARLY if order < first else LATE if order > last else order,
                RowKind(kind),
                encode(row),
            )
            for order, kind, row in zip(
                batch.order.tolist(), batch.kinds.tolist(), zip(*columns, strict=True), strict=True
            )
        ]


def states_of(spec: AnySpec) -> list[StateDescriptor]:
    """What an operator keeps."""
    if isinstance(spec, MaterializerSpec):
        return [spec.descriptor]
    return list(spec.operator().states)


def changes_of(stage: Stage, said: Iterable[Sequence[Said]]) -> list[Change]:
    """The changelog that emissions are."""
    decode = stage.row_codec().decode
    return [Change(kind, decode(row)) for epoch in said for _, kind, row in epoch]
