"""The operators that `bench_operators` measures: what each is to do, its changes, a small proof.

A proof is a few changes in two epochs, and the kinds that they must give, written by hand from what
the operator's documents say: who measures an operator that emits nothing measures nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from benchmarks.operator_feeds import (
    AHEAD_MS,
    COLUMNS,
    CORRECTS,
    EPOCH_MS,
    GROWS,
    PARTS,
    RISES,
    SIDES,
    SIDES_GROW,
    TAKES_BACK,
    THREE_SIDES,
    UPDATES,
    UPSERTS,
    VERSIONS,
    correcting,
    growing,
    growing_sides,
    input_of,
    retracting,
    retracting_sides,
    rising,
    updating,
    updating_sides,
    updating_three,
    upserting,
    versioned,
)
from operators.aggregate.call import AggregateCall
from operators.aggregate.group_aggregate import GroupAggregateSpec, IncrementalAggregateSpec
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.compacting_materializer import CompactingSpec
from operators.deduplicate.spec import DeduplicateSpec
from operators.join.interval import IntervalJoinSpec
from operators.join.lookup import LookupJoinSpec, LookupKey
from operators.join.lookup_table import TableRows
from operators.join.multi import Attribute, MultiInput, MultiJoinSpec
from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from operators.join.temporal import TemporalJoinSpec
from operators.lag_lead import LagLeadSpec, Neighbour
from operators.ordering import SortColumn
from operators.over.ordered_over import OrderedOverSpec
from operators.over.over_aggregate import OverSpec
from operators.process_function import ProcessFunctionSpec
from operators.rank.spec import RankSpec
from operators.spec import InputSpec, RowSpec
from operators.temporal_sort import TemporalSortSpec
from operators.upsert_materializer import MaterializerSpec
from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.shapes import Hopping, Session, Tumbling
from operators.windows.window_aggregate import SlicedAggregateSpec
from operators.windows.window_join import WindowJoinSpec
from operators.windows.window_rank import OrderColumn, WindowRankSpec
from operators.windows.window_table_function import WindowTableSpec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.operator_feeds import Changes, Feed, Small
    from operators.spec import OperatorSpec


class Case(NamedTuple):
    """An operator and its input."""

    spec: OperatorSpec | MaterializerSpec
    changes: Callable[[Feed, int], Changes]
    """The changes for one touch of a key."""
    small: Small
    """What it is proved by."""
    gives: str
    """Kinds that must come out of `small`; a bar between the epochs."""
    waits: bool = False
    """Whether a key has state only while rows wait for the watermark or are in a frame of time; the
    rows that fill the state are then of a time far ahead."""
    behind: int = 0
    """So many epochs without changes belong to one of `once`: what it holds comes out in them."""
    is_limit: bool = False
    """Whether an epoch may emit nothing, as most rows lie beyond a limit."""

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """Its inputs."""
        spec = self.spec
        if isinstance(spec, MaterializerSpec):
            return (InputSpec(types=spec.types, names=spec.names, key=spec.key),)
        return spec.inputs


ROWS = input_of("k", "name", "v")
TIMED = input_of("k", "name", "v", "ts")
PARTED = input_of("k", "name", "v", "part")
WINDOWED = input_of("k", "name", "v", "window_end")
ALL_ROWS = input_of("k", "name", "v", key=())


def _row(*names: str) -> RowSpec:
    return RowSpec(types=tuple(COLUMNS.get(each, ("BIGINT",))[0] for each in names), names=names)


def _plain(of: InputSpec) -> RowSpec:
    return RowSpec(types=of.types, names=of.names)


def _beside(*inputs: InputSpec) -> RowSpec:
    """Columns of several inputs, one behind the other."""
    return RowSpec(
        types=tuple(kind for of in inputs for kind in of.types),
        names=tuple(f"{name}{at or ''}" for at, of in enumerate(inputs) for name in of.names),
    )


def _call(
    function: str, name: str, column: str = "", *, is_distinct: bool = False, of: InputSpec = ROWS
) -> AggregateCall:
    return AggregateCall(
        function=function,
        name=name,
        arguments=(of.names.index(column),) if column else (),
        argument_types=(COLUMNS[column][0],) if column else (),
        result_type="BIGINT",
        needs_retraction=True,
        is_distinct=is_distinct,
    )


COUNT_SUM = (_call("COUNT", "rows_count"), _call("SUM", "total", "v"))
COUNT_PARTS = (_call("COUNT", "parts", "part", of=PARTED),)
DISTINCT = (_call("COUNT", "parts", "part", is_distinct=True, of=PARTED),)


def _aggregate(*calls: AggregateCall, of: InputSpec = ROWS, **fields: Any) -> OperatorSpec:
    return GroupAggregateSpec.build(
        inputs=(of,),
        output=_row("k", *(each.name for each in calls)),
        calls=calls,
        needs_retraction=True,
        generate_update_before=True,
        **fields,
    )


def _join(*unique_keys: tuple[int, ...] | None, join_type: str = "INNER") -> OperatorSpec:
    return StreamingJoinSpec.build(
        inputs=(ROWS, ROWS),
        output=_beside(ROWS, ROWS),
        join_type=join_type,
        unique_keys=unique_keys,
        filter_nulls=(True,),
    )


def _multi_join(unique_key: tuple[int, ...] | None) -> OperatorSpec:
    with_key = (Attribute(before=0, column=0),)
    return MultiJoinSpec.build(
        inputs=(ROWS,) * 3,
        output=_beside(ROWS, ROWS, ROWS),
        joins=(
            MultiInput(unique_key=unique_key),
            MultiInput(attributes=with_key, unique_key=unique_key),
            MultiInput(join_type="LEFT", attributes=with_key, unique_key=unique_key),
        ),
    )


def _interval_join(join_type: str) -> OperatorSpec:
    return IntervalJoinSpec.build(
        inputs=(TIMED, TIMED),
        output=_beside(TIMED, TIMED),
        join_type=join_type,
        lower_ms=-EPOCH_MS,
        upper_ms=EPOCH_MS,
        times=(3, 3),
        filter_nulls=(True,),
    )


def _lookup_join(key: str, *, materializes: bool) -> OperatorSpec:
    table = RowSpec(types=("BIGINT", "STRING"), names=("part", "label"))
    return LookupJoinSpec.build(
        inputs=(input_of(*PARTED.names, key=(key,)),),
        output=_beside(PARTED, InputSpec(types=table.types, names=table.names, key=())),
        join_type="LEFT",
        table=TableRows(rows=tuple(f'[{each},"part {each}"]' for each in range(PARTS))),
        table_row=table,
        keys=(LookupKey(column=0, field=3),),
        projected=table,
        materializes=materializes,
    )


def _rank(strategy: str, of: InputSpec = ROWS, **fields: Any) -> OperatorSpec:
    given = {"order": (SortColumn(column=2, descending=True),), "start": 1, "end": 10} | fields
    return RankSpec.build(inputs=(of,), output=_plain(of), strategy=strategy, **given)


def _deduplicate(of: InputSpec = ROWS, **fields: Any) -> OperatorSpec:
    return DeduplicateSpec.build(inputs=(of,), output=_plain(of), keeps_last=True, **fields)


def _over(*, is_rows: bool, preceding: int, time_column: int | None = 3) -> OperatorSpec:
    return OverSpec.build(
        inputs=(TIMED,),
        output=_row(*TIMED.names, "total"),
        calls=(_call("$SUM0", "total", "v"),),
        time_column=time_column,
        is_rows=is_rows,
        preceding=preceding,
    )


def _windows(kind: type[OperatorSpec], shape: Tumbling | Hopping | Session) -> OperatorSpec:
    return kind.build(
        inputs=(TIMED,),
        output=_row("k", "rows_count", "total", "window_end"),
        calls=COUNT_SUM,
        properties=("end",),
        shape=shape,
        time_column=3,
    )


def _window_table(shape: Tumbling | Session) -> OperatorSpec:
    times = RowSpec(types=("TIMESTAMP(3)",) * 3, names=("start", "end", "time"))
    return WindowTableSpec.build(
        inputs=(TIMED,),
        output=_beside(TIMED, InputSpec(types=times.types, names=times.names, key=())),
        shape=shape,
        time_column=3,
    )


def _window_rank(column: int, last: int) -> OperatorSpec:
    return WindowRankSpec.build(
        inputs=(WINDOWED,),
        output=_plain(WINDOWED),
        shape=TUMBLING,
        end_column=3,
        order=(OrderColumn(column=column, descending=True),),
        last=last,
    )


def _compacting(behavior: Literal["ERROR", "NOTHING"]) -> OperatorSpec:
    return CompactingSpec.build(inputs=(ROWS,), output=_plain(ROWS), behavior=behavior)


def _materializer(upsert_key: tuple[int, ...] | None) -> MaterializerSpec:
    types = tuple(parse_type(COLUMNS[each][0]) for each in ROWS.names)
    return MaterializerSpec(types=types, names=ROWS.names, key=(0,), upsert_key=upsert_key)


def _custom_window() -> OperatorSpec:
    return ProcessFunctionSpec.build(
        inputs=(TIMED,),
        output=_row("k", "total", "ts"),
        function="CustomWindow",
        arguments={"column": "v", "size_ms": FRAME_MS},
        time_columns=(3,),
    )


TUMBLING = Tumbling(size_ms=EPOCH_MS)
HOPPING = Hopping(size_ms=2 * EPOCH_MS, slide_ms=EPOCH_MS)
SESSION = Session(gap_ms=EPOCH_MS // 2)
FRAME_MS = 3 * EPOCH_MS
EACH = "+I +I +I | +I +I"
"""A row out for each one in."""
AS_RANKED = "+I +I +I | -D +I -D"
AS_GROUPED = "+I -U +U +I | -U +U -U +U -D"
CASES: dict[str, Callable[[], Case]] = {
    "aggregate": lambda: Case(_aggregate(*COUNT_SUM), retracting, TAKES_BACK, AS_GROUPED),
    "aggregate with MIN": lambda: Case(
        _aggregate(*COUNT_SUM, _call("MIN", "least", "v")), retracting, TAKES_BACK, AS_GROUPED
    ),
    "aggregate, mini-batch": lambda: Case(
        _aggregate(*COUNT_SUM, bundles=True, is_two_phase=True),
        *(retracting, TAKES_BACK, "+I +I | -U +U -D"),
    ),
    # The second part 10 of a key tells nothing new.
    "aggregate with DISTINCT": lambda: Case(
        _aggregate(*DISTINCT, of=PARTED), retracting, TAKES_BACK, "+I -U +U +I | -U +U -D"
    ),
    "split DISTINCT, incremental": lambda: Case(
        IncrementalAggregateSpec.build(
            inputs=(input_of(*PARTED.names, key=("k", "part")),),
            output=RowSpec(types=("BIGINT", "STRING"), names=("k", "accumulators")),
            calls=DISTINCT,
            needs_retraction=True,
            final_key=(0,),
            bundles=True,
        ),
        *(retracting, TAKES_BACK, "+I +I +I | +I +I +I"),
    ),
    "split DISTINCT, global": lambda: Case(
        _aggregate(
            *COUNT_PARTS,
            of=input_of("k", "accumulators"),
            bundles=True,
            partial_calls=DISTINCT,
            merges=(0,),
        ),
        *(growing, GROWS, "+I +I | -U +U -U +U"),
    ),
    "lag and lead": lambda: Case(
        LagLeadSpec.build(
            inputs=(ROWS,),
            output=_row(*ROWS.names, "before", "after"),
            neighbours=tuple(Neighbour(function=each, column=2) for each in ("LAG", "LEAD")),
        ),
        *(retracting, TAKES_BACK, "+I -U +U +I +I | -U +U -D -U +U +I -D"),
    ),
    "join, unique keys": lambda: Case(_join((0,), (0,)), updating_sides, SIDES, "+I | -U +U +I"),
    "join, no keys": lambda: Case(_join(None, None), retracting_sides, SIDES, "+I | -U +U +I"),
    "left join, unique keys": lambda: Case(
        _join((0,), (0,), join_type="LEFT"), updating_sides, SIDES, "+I -D +I +I | -D +I -D +I"
    ),
    "left join, no keys": lambda: Case(
        _join(None, None, join_type="LEFT"), retracting_sides, SIDES, "+I -D +I +I | -D +I -D +I"
    ),
    "semi join, no keys": lambda: Case(
        SemiAntiJoinSpec.build(
            inputs=(ROWS, ROWS), output=_plain(ROWS), join_type="SEMI", filter_nulls=(True,)
        ),
        *(retracting_sides, SIDES, "+I | -U +U +I"),
    ),
    "multi join, unique keys": lambda: Case(
        _multi_join((0,)), updating_three, THREE_SIDES, "+I | -D +I -U +U"
    ),
    "multi join, no keys": lambda: Case(
        _multi_join(None), updating_three, THREE_SIDES, "+I | -D +I -U +U"
    ),
    "temporal join": lambda: Case(
        TemporalJoinSpec.build(
            inputs=(TIMED, TIMED),
            output=_beside(TIMED, TIMED),
            join_type="LEFT",
            left_time=3,
            right_time=3,
            filter_nulls=(True,),
        ),
        *(versioned, VERSIONS, "+I +I | +I"),
    ),
    "lookup join": lambda: Case(_lookup_join("part", materializes=False), growing, GROWS, EACH),
    "lookup join, materialized": lambda: Case(
        _lookup_join("k", materializes=True), upserting, UPSERTS, "+U +U | -D +U"
    ),
    "interval join": lambda: Case(
        _interval_join("INNER"), growing_sides, SIDES_GROW, "+I | +I +I", waits=True
    ),
    "left interval join": lambda: Case(
        _interval_join("LEFT"), growing_sides, SIDES_GROW, "+I | +I +I +I", waits=True
    ),
    "rank append": lambda: Case(_rank("append"), growing, GROWS, EACH),
    "rank retract": lambda: Case(_rank("retract"), retracting, TAKES_BACK, AS_RANKED),
    "rank update": lambda: Case(
        _rank("update", PARTED, unique_key=(0, 3)), rising, RISES, "+I +I | -U +U"
    ),
    "limit": lambda: Case(
        _rank("retract", ALL_ROWS, order=()), retracting, TAKES_BACK, AS_RANKED, is_limit=True
    ),
    "sort limit": lambda: Case(
        _rank("retract", ALL_ROWS), retracting, TAKES_BACK, AS_RANKED, is_limit=True
    ),
    "deduplicate": lambda: Case(_deduplicate(), growing, GROWS, "+I -U +U +I | -U +U -U +U"),
    "deduplicate, event time": lambda: Case(
        _deduplicate(TIMED, rowtime=3), growing, GROWS, "+I -U +U +I | -U +U -U +U"
    ),
    "deduplicate retract": lambda: Case(
        _deduplicate(retracts=True), retracting, TAKES_BACK, AS_GROUPED
    ),
    "deduplicate retract, event time": lambda: Case(
        _deduplicate(TIMED, rowtime=3, retracts=True), retracting, TAKES_BACK, AS_GROUPED
    ),
    "normalize": lambda: Case(
        ChangelogNormalizeSpec.build(inputs=(ROWS,), output=_plain(ROWS)),
        *(upserting, UPSERTS, "+I +I | -D -U +U"),
    ),
    "over values": lambda: Case(
        OrderedOverSpec.build(
            inputs=(ROWS,),
            output=_row(*ROWS.names, "total"),
            calls=(_call("$SUM0", "total", "v"),),
            order=(SortColumn(column=2),),
            is_rows=True,
        ),
        *(retracting, TAKES_BACK, "+I +I +I | -D +I -D"),
    ),
    "over RANGE": lambda: Case(
        _over(is_rows=False, preceding=FRAME_MS), growing, GROWS, EACH, waits=True
    ),
    "over ROWS": lambda: Case(_over(is_rows=True, preceding=10), growing, GROWS, EACH),
    "over ROWS, processing time": lambda: Case(
        _over(is_rows=True, preceding=10, time_column=None), growing, GROWS, EACH
    ),
    # What came at a time comes out once the next one has begun. Processing time cannot be ahead, so
    # the frame is longer than the filling.
    "over RANGE, processing time": lambda: Case(
        _over(is_rows=False, preceding=AHEAD_MS, time_column=None),
        *(growing, GROWS, "| +I +I +I"),
        behind=1,
    ),
    "tumble": lambda: Case(
        _windows(SlicedAggregateSpec, TUMBLING), correcting, CORRECTS, "+I +I | +I", waits=True
    ),
    "hop": lambda: Case(
        _windows(SlicedAggregateSpec, HOPPING),
        correcting,
        CORRECTS,
        "+I +I | +I +I",
        waits=True,
        behind=1,
    ),
    "session": lambda: Case(
        _windows(SessionAggregateSpec, SESSION), correcting, CORRECTS, "+I +I | +I", waits=True
    ),
    "window table, tumbling": lambda: Case(
        _window_table(TUMBLING), correcting, CORRECTS, "+I +I -U +U +I | +I"
    ),
    "window table, session": lambda: Case(
        _window_table(SESSION), correcting, CORRECTS, "+I +I -U +U +I | +I", waits=True
    ),
    "window join": lambda: Case(
        WindowJoinSpec.build(
            inputs=(WINDOWED, WINDOWED),
            output=_beside(WINDOWED, WINDOWED),
            join="INNER",
            end_columns=(3, 3),
            filter_nulls=(True,),
        ),
        *(growing_sides, SIDES_GROW, "+I | +I"),
        waits=True,
    ),
    "window rank": lambda: Case(_window_rank(column=2, last=10), growing, GROWS, EACH, waits=True),
    "window deduplicate": lambda: Case(
        _window_rank(column=2, last=1), growing, GROWS, "+I +I | +I +I", waits=True
    ),
    "temporal sort": lambda: Case(
        TemporalSortSpec.build(
            inputs=(input_of(*TIMED.names, key=()),),
            output=_plain(TIMED),
            rowtime=3,
            order=(SortColumn(column=2),),
        ),
        *(growing, GROWS, EACH),
        waits=True,
    ),
    "compacting, DO ERROR": lambda: Case(_compacting("ERROR"), updating, UPDATES, "+I +I | +U"),
    "compacting, DO NOTHING": lambda: Case(_compacting("NOTHING"), updating, UPDATES, "+I +I | +U"),
    "materializer, upsert key": lambda: Case(
        _materializer((2,)), retracting, TAKES_BACK, "+I +U +I | +U +U -D"
    ),
    "materializer, no upsert key": lambda: Case(
        _materializer(None), retracting, TAKES_BACK, "+I +U +I | +U +U -D"
    ),
    "process function": lambda: Case(_custom_window(), growing, GROWS, EACH, waits=True),
}
