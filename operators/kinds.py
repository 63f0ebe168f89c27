"""All kinds of operators: from the JSON that workers get to what runs an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import orjson

from operators.aggregate.group_aggregate import GroupAggregateSpec, IncrementalAggregateSpec
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.compacting_materializer import CompactingSpec
from operators.deduplicate.spec import DeduplicateSpec
from operators.errors import InvalidSpec
from operators.join.interval import IntervalJoinSpec
from operators.join.lookup import LookupJoinSpec
from operators.join.multi import MultiJoinSpec
from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from operators.join.temporal import TemporalJoinSpec
from operators.keyed_runner import KeyedRunner
from operators.lag_lead import LagLeadSpec
from operators.over.ordered_over import OrderedOverSpec
from operators.over.over_aggregate import OverSpec
from operators.process_function import ProcessFunctionSpec
from operators.rank.spec import RankSpec
from operators.temporal_sort import TemporalSortSpec
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.window_aggregate import SlicedAggregateSpec
from operators.windows.window_join import WindowJoinSpec
from operators.windows.window_rank import WindowRankSpec
from operators.windows.window_table_function import WindowTableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.batch import ChangeBatch, EpochOutput
    from operators.keyed import EpochTimes
    from operators.spec import OperatorSpec
    from state.backends.interface import EpochTransaction
    from state.types import LogicalType

SPECS: Final[dict[str, type[OperatorSpec]]] = {
    cls.model_fields["kind"].default: cls
    for cls in (
        GroupAggregateSpec,
        IncrementalAggregateSpec,
        LagLeadSpec,
        StreamingJoinSpec,
        SemiAntiJoinSpec,
        MultiJoinSpec,
        TemporalJoinSpec,
        IntervalJoinSpec,
        LookupJoinSpec,
        ChangelogNormalizeSpec,
        DeduplicateSpec,
        RankSpec,
        TemporalSortSpec,
        CompactingSpec,
        OrderedOverSpec,
        OverSpec,
        ProcessFunctionSpec,
        SessionAggregateSpec,
        SlicedAggregateSpec,
        WindowJoinSpec,
        WindowRankSpec,
        WindowTableSpec,
    )
}
"""By `kind`."""


class EpochOperator(Protocol):
    """What a worker runs: whole epochs of one operator."""

    @property
    def input_count(self) -> int:
        """How many inputs it has."""

    @property
    def output_types(self) -> Sequence[LogicalType]:
        """Columns of what it emits."""

    @property
    def uses_every_epoch(self) -> bool:
        """Whether an epoch has work in key groups without changes: what expires, or timers."""

    @property
    def has_total(self) -> bool:
        """Whether it has one key, of no columns, which has work in every epoch."""

    def run_epoch(
        self,
        batches: Sequence[ChangeBatch],
        transaction: EpochTransaction,
        *,
        epoch: int,
        times: EpochTimes,
        key_groups: Sequence[int],
        total_group: int | None = None,
    ) -> EpochOutput:
        """Apply an epoch's changes to the state and commit it; see `KeyedRunner.run_epoch`."""


class _Materializer:
    """The upsert materializer, which works on columns, as an operator of epochs."""

    input_count = 1
    has_total = False

    def __init__(self, spec: MaterializerSpec) -> None:
        self._operator = UpsertMaterializer(spec)
        self.output_types = spec.types
        self.uses_every_epoch = spec.ttl_ms > 0

    def run_epoch(
        self,
        batches: Sequence[ChangeBatch],
        transaction: EpochTransaction,
        *,
        epoch: int,
        times: EpochTimes,
        key_groups: Sequence[int],
        total_group: int | None = None,
    ) -> EpochOutput:
        return self._operator.run_epoch(
            batches[0], transaction, time_ms=times.time_ms, key_groups=key_groups
        )


def epoch_operator(spec_json: str, node: str) -> EpochOperator:
    """What runs the epochs of an operator.

    Args:
        spec_json: As `MaterializerSpec.to_json` or `OperatorSpec.to_json` wrote it.
        node: Its id, for errors.

    Raises:
        InvalidSpec: There is no such kind, or its fields do not fit each other.
    """
    if orjson.loads(spec_json).get("kind") == MaterializerSpec.KIND:
        return _Materializer(MaterializerSpec.from_json(spec_json))
    return KeyedRunner(spec_from_json(spec_json), node)


def spec_from_json(text: str) -> OperatorSpec:
    """The spec that `OperatorSpec.to_json` wrote, of whatever kind.

    Raises:
        InvalidSpec: There is no such kind, or its fields do not fit each other.
    """
    kind = orjson.loads(text).get("kind")
    if kind not in SPECS:
        raise InvalidSpec(f"there is no operator of kind {kind!r}")
    return SPECS[kind].from_json(text)
