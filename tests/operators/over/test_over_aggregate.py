"""OVER: frames by rows and by time, late rows, idle state, and the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.changelog import Change, RowKind
from operators.errors import AggregateFailed, InvalidSpec
from operators.event_time import from_ms
from operators.keyed import WATERMARK_MAX
from operators.over.calls import Constant
from operators.over.over_aggregate import OverSpec
from operators.over.positions import PositionCall
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_over import frames
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark, insert
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.over import over_spec
from state.errors import OperatorFailed
from state.types import parse_type
from tests.operators.laws import answered_any_way
from tests.oracles import RECORDED
from tests.oracles.cases import read_lines
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    import redis

STRING, INT, BIGINT = parse_type("STRING"), parse_type("INT"), parse_type("BIGINT")
TIME = parse_type("TIMESTAMP(3)")
Steps = list[Change | Of | At | Watermark]


def at(ms: int) -> dt.datetime:
    return from_ms(ms, TIME)


def aggregate(function: str, *, retracts: bool, **more: Any) -> AggregateCall:
    return AggregateCall(
        function=function,
        name=function,
        arguments=(1,),
        argument_types=(INT,),
        result_type=BIGINT if function == "COUNT" else INT,
        needs_retraction=retracts,
        **more,
    )


def spec(
    calls: Sequence[AggregateCall | PositionCall] | None = None,
    *,
    preceding: int | None = None,
    is_rows: bool = False,
    time_column: int | None = 2,
    **fields: Any,
) -> OverSpec:
    """Columns k, v, ts; partition by k; without calls the sum of v."""
    chosen = calls or (aggregate("SUM", retracts=preceding is not None),)
    types, names = (STRING, INT, TIME), ("k", "v", "ts")
    return OverSpec.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(
            types=(*types, *(each.result_type for each in chosen)),
            names=(*names, *(f"o{number}" for number in range(len(chosen)))),
        ),
        calls=tuple(chosen),
        preceding=preceding,
        is_rows=is_rows,
        time_column=time_column,
        **fields,
    )


def values(emitted: list[Change]) -> list[Any]:
    """The last column of what came out."""
    assert all(each.kind is RowKind.INSERT for each in emitted)
    return [each.row[-1] for each in emitted]


ROWS: Steps = [insert("a", v, at(ms)) for v, ms in [(1, 10), (2, 20), (4, 20), (8, 30), (16, 45)]]


@pytest.mark.parametrize(
    ("is_rows", "preceding", "sums"),
    [
        (False, None, [1, 7, 7, 15, 31]),
        (True, None, [1, 3, 7, 15, 31]),
        (False, 10, [1, 7, 7, 14, 16]),
        (False, 0, [1, 6, 6, 8, 16]),
        (True, 1, [1, 3, 6, 12, 24]),
        (True, 0, [1, 2, 4, 8, 16]),
    ],
)
def test_frames_in_row_time(is_rows: bool, preceding: int | None, sums: list[int]) -> None:
    harness = OperatorHarness.on_heap(spec(is_rows=is_rows, preceding=preceding))
    given = [*reversed(ROWS[:1]), *ROWS[1:]]
    assert harness.run([*given, Watermark(9)]) == []
    assert values(harness.run([Watermark(20)])) == sums[:3]
    assert values(harness.run([Watermark(100)])) == sums[3:]


def test_rows_of_processing_time_come_out_at_once_and_ranges_with_the_next_epoch() -> None:
    now: dict[str, Any] = {"time_column": None}
    steps: Steps = [At(5), insert("a", 1, None), insert("a", 2, None), At(6), insert("a", 4, None)]
    assert values(OperatorHarness.on_heap(spec(**now)).run(steps)) == [1, 3, 7]
    by_rows = OperatorHarness.on_heap(spec(is_rows=True, preceding=1, **now))
    assert values(by_rows.run(steps)) == [1, 3, 6]
    by_range = OperatorHarness.on_heap(spec(preceding=1, **now))
    assert values(by_range.run(steps)) == [3, 3]
    assert values(by_range.run([At(7), insert("a", 8, None), At(8)])) == [7, 12]
    assert by_range.run([At(20)]) == []
    assert by_range.stored_names() == set()


def test_a_range_of_no_length_in_processing_time_has_the_rows_of_its_epoch() -> None:
    """Their timer is not that of the clean-up, which would have them forgotten."""
    harness = OperatorHarness.on_heap(spec(time_column=None, preceding=0))
    assert harness.run([At(5), insert("a", 1, None), insert("a", 2, None)]) == []
    assert values(harness.run([At(6)])) == [3, 3]
    assert values(harness.run([insert("a", 4, None), At(9)])) == [4]
    assert harness.stored_names() == set()


def test_no_row_is_lost_where_a_clock_was_set_back() -> None:
    """What comes to a partition is never before what came out of it."""
    harness = OperatorHarness.on_heap(spec(time_column=None, preceding=3))
    assert values(harness.run([At(10), insert("a", 1, None), At(12)])) == [1]
    assert harness.run([insert("a", 2, None), At(8), insert("a", 4, None)]) == []
    assert values(harness.run([At(13)])) == [5, 7]
    assert values(harness.run([insert("a", 8, None), At(14)])) == [15]
    assert harness.run([At(40)]) == []
    assert harness.stored_names() == set()


def test_rows_of_many_times_come_out_together() -> None:
    """What leaves the frame was there before, or came with them."""
    for is_rows, preceding, sums in [(True, 1, [24, 48, 96]), (False, 15, [30, 56, 112])]:
        harness = OperatorHarness.on_heap(spec(is_rows=is_rows, preceding=preceding))
        harness.run([*ROWS[:4], Watermark(30)])
        later = [insert("a", 16, at(32)), insert("a", 32, at(40)), insert("a", 64, at(46))]
        assert values(harness.run([*later, Watermark(60)], epoch_changes=2)) == sums


def test_late_rows_are_dropped_and_counted() -> None:
    unbounded = OperatorHarness.on_heap(spec())
    steps: Steps = [insert("a", 1, at(10)), Watermark(15), insert("a", 2, at(15)), Watermark(16)]
    assert values(unbounded.run([*steps, insert("a", 4, at(17)), Watermark(17)])) == [1, 5]
    assert sum(each["late"] for each in unbounded.statistics) == 1
    bounded = OperatorHarness.on_heap(spec(preceding=100))
    assert values(bounded.run(steps)) == [1, 3], "the key's last time counts, not the watermark"
    assert bounded.run([insert("a", 4, at(15)), insert("a", 4, None), Watermark(18)]) == []
    assert sum(each["late"] for each in bounded.statistics) == 2


def test_a_late_row_of_a_bounded_frame_waits_for_the_watermark_to_move() -> None:
    harness = OperatorHarness.on_heap(spec(preceding=100))
    harness.run([Watermark(50)])
    assert harness.run([insert("a", 1, at(20)), At(1), insert("a", 2, at(10)), At(2)]) == []
    assert values(harness.run([Watermark(51)])) == [2, 3]


def test_the_state_of_a_range_goes_one_and_a_half_frames_after_the_last_row() -> None:
    harness = OperatorHarness.on_heap(spec(preceding=10))
    assert values(harness.run([*ROWS, Watermark(60)])) == [1, 7, 7, 14, 16]
    assert harness.stored_names() != set()
    harness.run([Watermark(61)])
    assert harness.stored_names() == set()
    assert values(harness.run([insert("a", 1, at(40)), Watermark(62)])) == [1]


@pytest.mark.parametrize("frame", [{}, {"is_rows": True, "preceding": 1}, {"time_column": None}])
def test_the_state_of_an_idle_key_goes_after_its_ttl(frame: dict[str, Any]) -> None:
    harness = OperatorHarness.on_heap(spec(ttl_ms=(100,), **frame))
    harness.run([insert("a", 1, at(10)), Watermark(20), At(60), insert("a", 2, at(30))])
    harness.run([Watermark(40), At(149)])
    assert harness.stored_names() != set()
    harness.run([At(210)])
    assert harness.stored_names() == set()
    if "time_column" not in frame:
        harness.run([insert("b", 1, at(500)), At(400), At(600)])
        assert values(harness.run([Watermark(500)])) == [1], "what waits is never forgotten"


def position(function: Any, result: Any = BIGINT, *arguments: int) -> PositionCall:
    return PositionCall(function=function, name=function, arguments=arguments, result_type=result)


def test_positions() -> None:
    calls = [
        position("ROW_NUMBER"),
        aggregate("MAX", retracts=False),
        position("RANK"),
        position("DENSE_RANK"),
        position("LAG", INT, 1),
        position("LAG", INT, 1, 3, 4),
    ]
    constants = (Constant(type=INT, text="[2]"), Constant(type=INT, text="[-1]"))
    harness = OperatorHarness.on_heap(spec(calls, is_rows=True, constants=constants))
    emitted = harness.run([*ROWS[:2], Watermark(15), *ROWS[2:4], Watermark(50)])
    assert [each.row[3:] for each in emitted] == [
        (1, 1, 1, 1, None, -1),
        (2, 2, 2, 2, 1, -1),
        (3, 4, 2, 2, 2, 1),
        (4, 8, 4, 3, 4, 2),
    ]


def test_positions_where_flink_has_others() -> None:
    """Recorded of Flink 2.3: ranks 3, 3, 3, 4, and -1 where the value before is NULL."""
    calls = [position("RANK"), position("DENSE_RANK"), position("LAG", INT, 1, 3, 4)]
    constants = (Constant(type=INT, text="[1]"), Constant(type=INT, text="[7]"))
    harness = OperatorHarness.on_heap(spec(calls, constants=constants))
    rows = [insert("a", value, at(ms)) for value, ms in [(5, 3), (6, 3), (None, 3), (8, 4)]]
    emitted = harness.run([*rows, Watermark(50)])
    assert [each.row[3:5] for each in emitted] == [(1, 1), (1, 1), (1, 1), (4, 2)]
    assert emitted[-1].row[5] is None


def test_what_positions_cannot_be() -> None:
    with pytest.raises(InvalidSpec, match="all rows before"):
        spec([position("ROW_NUMBER")], preceding=1)
    lag = spec([position("LAG", INT, 1, 3)], constants=(Constant(type=INT, text="[-1]"),))
    with pytest.raises(OperatorFailed) as failed:
        OperatorHarness.on_heap(lag).run([insert("a", 1, at(1)), Watermark(2)])
    assert isinstance(failed.value.__cause__, AggregateFailed)


def test_the_recorded_plan() -> None:
    case = next((RECORDED / "plans").glob("131_*"))
    plan = load_plan(recorded_plan("131_"))
    [node] = [each for each in plan.nodes if each.type == "stream-exec-over-aggregate"]
    built = over_spec(StatefulNode(node, plan))
    codec = built.inputs[0].codec()
    lines = read_lines(case / "inputs" / "s.jsonl")
    rows = [codec.decode_json(line["data"]) for line in lines]
    emitted = OperatorHarness.on_heap(built).run([*(insert(*r) for r in rows), Watermark(1 << 50)])
    expected = read_lines(case / "expected_changelog.jsonl")
    found = [{"k": each.row[0], "v": each.row[1], "sm": each.row[4]} for each in emitted]
    for key in "ab":
        assert [each for each in found if each["k"] == key] == [
            line["data"] for line in expected if line["data"]["k"] == key
        ]


def over(change: Callable[[dict[str, Any]], None]) -> OverSpec:
    document = recorded_plan("131_")
    [node] = [each for each in document["nodes"] if "overSpec" in each]
    change(node["overSpec"])
    plan = load_plan(document)
    [read] = [each for each in plan.nodes if each.type == "stream-exec-over-aggregate"]
    made = over_spec(StatefulNode(read, plan))
    assert isinstance(made, OverSpec), "an order by time"
    return made


def test_frames_of_plans() -> None:
    group = {"kind": "UNBOUNDED_PRECEDING"}
    assert over(lambda it: it["groups"][0].update(lowerBound=group)).preceding is None
    by_rows = over(
        lambda it: (
            it["groups"][0].update(isRows=True),
            it["constants"][0].update(value=3, type="INT NOT NULL"),
        )
    )
    assert (by_rows.is_rows, by_rows.preceding, by_rows.time_column) == (True, 3, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: it["groups"].append(it["groups"][0]), "several frames"),
        (
            lambda it: it["groups"][0]["orderBy"]["fields"][0].update(index=1),
            "a frame with a start",
        ),
        (lambda it: it["groups"][0]["orderBy"]["fields"][0].update(isAscending=False), "ascending"),
        (
            lambda it: it["groups"][0].update(upperBound={"kind": "UNBOUNDED_FOLLOWING"}),
            "does not end at the current row",
        ),
        (lambda it: it["constants"][0].update(type="INTERVAL MONTH"), "months"),
        (
            lambda it: it["groups"][0]["aggCalls"][0].update(internalName="$NTILE$1"),
            "the function NTILE",
        ),
    ],
)
def test_what_streams_do_not_have_is_refused(change: Any, reason: str) -> None:
    with pytest.raises(UnsupportedNode, match=reason):
        over(change)


arrivals = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([None, 1, 2, 3]), st.integers(1, 12)),
    max_size=14,
)


@settings(max_examples=60)
@given(data=st.data(), came=arrivals, is_rows=st.booleans())
def test_what_comes_out_is_what_the_definition_says(
    data: st.DataObject, came: list[tuple[str, int | None, int]], is_rows: bool
) -> None:
    """For all rows in time, any size of epochs, and any order of answers."""
    preceding = data.draw(st.sampled_from([None, 0, 1, 3]))
    retracts = preceding is not None
    calls = [
        aggregate("SUM", retracts=retracts),
        aggregate("COUNT", retracts=retracts, is_distinct=True),
        aggregate("MIN", retracts=retracts),
        aggregate("LAST_VALUE", retracts=retracts),
    ]
    built = spec(calls, preceding=preceding, is_rows=is_rows)

    harness = answered_any_way(built, data)
    cut = data.draw(st.integers(0, 12))
    early = [each for each in came if each[2] <= cut]
    rest = [each for each in came if each[2] > cut]
    steps: Steps = [insert(key, value, at(ms)) for key, value, ms in early]
    steps += [Watermark(cut), *(insert(key, value, at(ms)) for key, value, ms in rest)]
    size = data.draw(st.integers(1, 5))
    emitted = harness.run([*steps, Watermark(WATERMARK_MAX)], epoch_changes=size)
    given_rows = [(key, ms, (key, value, at(ms))) for key, value, ms in [*early, *rest]]
    expected = [
        (*row, *_results([each[1] for each in frame]))
        for row, frame in frames(given_rows, is_rows=is_rows, preceding=preceding)
    ]
    assert [each.row for each in emitted if each.row[0] == "a"] == [
        row for row in expected if row[0] == "a"
    ]
    assert len(emitted) == len(expected)
    assert not any(each["late"] for each in harness.statistics)
    if preceding is not None and not is_rows:
        assert harness.stored_names() == set()


def _results(frame: list[Any]) -> tuple[Any, ...]:
    known = [each for each in frame if each is not None]
    if not known:
        return None, 0, None, None
    return sum(known), len(set(known)), min(known), known[-1]


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    for frame in ({"preceding": 10}, {"is_rows": True, "preceding": 1}, {}):
        heap = OperatorHarness.on_heap(spec(**frame, ttl_ms=(1_000,)))
        remote = OperatorHarness.on_redis(spec(**frame, ttl_ms=(1_000,)), redis_client)
        steps = [*ROWS[:3], insert("b", 1, at(5)), Watermark(20), *ROWS[3:], Watermark(50), At(9)]
        assert remote.run(steps, epoch_changes=2) == heap.run(steps)
        assert max(each["round_trips"] for each in remote.statistics) <= 10
        remote.close()
