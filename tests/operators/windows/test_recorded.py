"""What Flink 2.3 gave for the same rows, some of them late: windows and OVER, row by row.

`recorded.json` has the rows, the queries and the results. The watermark follows each row, as it
does there; so each row is an epoch.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from operators.aggregate import AggregateCall
from operators.event_time import to_ms
from operators.keyed import WATERMARK_MAX
from operators.over.calls import Constant
from operators.over.over_aggregate import OverSpec
from operators.over.positions import PositionCall
from operators.spec import InputSpec, OperatorSpec, RowSpec
from operators.testing.operator_harness import Of, OperatorHarness, insert
from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_aggregate import SlicedAggregateSpec
from operators.windows.window_rank import OrderColumn, WindowRankSpec
from operators.windows.window_table_function import WindowTableSpec
from state.types import parse_type

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
STRING, INT, BIGINT = parse_type("STRING"), parse_type("INT"), parse_type("BIGINT")
TIME = parse_type("TIMESTAMP(3)")
TYPES, NAMES = (STRING, INT, TIME, STRING), ("k", "v", "ts", "text")
SHAPES: dict[str, Any] = {
    "tumble": Tumbling(size_ms=10_000),
    "tumble_offset": Tumbling(size_ms=10_000, offset_ms=3_000),
    "hop": Hopping(size_ms=15_000, slide_ms=5_000),
    "cumulate": Cumulating(size_ms=20_000, step_ms=5_000),
    "session": Session(gap_ms=6_000),
}


def call(function: str, result: Any, *arguments: int, retracts: bool = False) -> AggregateCall:
    return AggregateCall(
        function=function.removesuffix(" DISTINCT"),
        name=function,
        arguments=arguments,
        argument_types=tuple(TYPES[each] for each in arguments),
        result_type=result,
        is_distinct=function.endswith(" DISTINCT"),
        needs_retraction=retracts,
    )


def source(*key: int) -> tuple[InputSpec]:
    return (InputSpec(types=TYPES, names=NAMES, key=key),)


def row_spec(*types: Any) -> RowSpec:
    return RowSpec(types=types, names=tuple(f"c{number}" for number in range(len(types))))


def replay(spec: OperatorSpec, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What is emitted when each row is an epoch, and the watermark follows the highest time."""
    harness = OperatorHarness.on_heap(spec)
    emitted = []
    for row in rows:
        watermark_ms = max(harness.watermark_ms, to_ms(row[2]))
        emitted += harness.run_epoch([Of(0, insert(*row))], watermark_ms=watermark_ms)
    emitted += harness.run_epoch([], watermark_ms=WATERMARK_MAX)
    return [each.row for each in emitted]


def given_rows() -> list[tuple[Any, ...]]:
    return [
        (key, value, dt.datetime.fromisoformat(time), None if value is None else str(value))
        for key, value, time in RECORDED["rows"]
    ]


def shown(row: tuple[Any, ...]) -> list[Any]:
    return [str(each) if isinstance(each, dt.datetime) else each for each in row]


def by_key(rows: list[list[Any]]) -> dict[Any, list[list[Any]]]:
    """Between keys the order is free."""
    found = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return dict(found)


def expected(name: str) -> list[list[Any]]:
    rows: list[list[Any]] = RECORDED["queries"][name]["rows"]
    return rows


@pytest.mark.parametrize("name", SHAPES)
def test_aggregates(name: str) -> None:
    calls = (
        call("COUNT", BIGINT),
        call("SUM", INT, 1),
        call("MIN", INT, 1),
        call("COUNT DISTINCT", BIGINT, 1),
        call("LISTAGG", STRING, 3),
    )
    cls: Any = SessionAggregateSpec if name == "session" else SlicedAggregateSpec
    spec = cls.build(
        inputs=source(0),
        output=row_spec(STRING, BIGINT, INT, INT, BIGINT, STRING, TIME, TIME, TIME),
        shape=SHAPES[name],
        time_column=2,
        calls=calls,
        properties=("start", "end", "rowtime"),
    )
    assert by_key([shown(row) for row in replay(spec, given_rows())]) == by_key(expected(name))


@pytest.mark.parametrize("name", SHAPES)
def test_table_functions(name: str) -> None:
    spec = WindowTableSpec.build(
        inputs=source(0),
        output=row_spec(*TYPES, TIME, TIME, TIME),
        shape=SHAPES[name],
        time_column=2,
    )
    found = [shown(row[:3] + row[4:]) for row in replay(spec, given_rows())]
    assert by_key(found) == by_key(expected(f"{name}_tvf"))


def test_aggregates_without_a_key() -> None:
    spec = SlicedAggregateSpec.build(
        inputs=source(),
        output=row_spec(BIGINT, TIME, TIME),
        shape=SHAPES["hop"],
        time_column=2,
        calls=(call("COUNT", BIGINT),),
        properties=("start", "end"),
    )
    assert [shown(row) for row in replay(spec, given_rows())] == expected("global_hop")


@pytest.mark.parametrize("name", ["rank", "dedup"])
def test_first_rows(name: str) -> None:
    """The windows are attached by hand; the rest is as the table function gives it."""
    is_rank = name == "rank"
    types = (*TYPES, TIME, TIME)
    spec = WindowRankSpec.build(
        inputs=(
            InputSpec(types=types, names=(*NAMES, "start", "end"), key=() if is_rank else (0,)),
        ),
        output=row_spec(*types, BIGINT) if is_rank else row_spec(*types),
        shape=SHAPES["tumble"],
        end_column=5,
        order=(OrderColumn(column=1 if is_rank else 2, descending=True, nulls_last=True),),
        last=2 if is_rank else 1,
        with_rank=is_rank,
        ties_last=not is_rank,
    )
    rows = []
    for row in given_rows():
        start = row[2] - dt.timedelta(seconds=row[2].second % 10)
        rows.append((*row, start, start + dt.timedelta(seconds=10)))
    found = [shown(row) for row in replay(spec, rows)]
    without_time = (
        [[*each[:5], *each[6:]] for each in expected(name)] if is_rank else expected(name)
    )
    assert by_key([[*each[:3], *each[4:]] for each in found]) == by_key(without_time)


FRAMES: dict[str, dict[str, Any]] = {
    "o_unb_range": {"is_rows": False, "preceding": None},
    "o_unb_rows": {"is_rows": True, "preceding": None},
    "o_range": {"is_rows": False, "preceding": 10_000},
    "o_rows": {"is_rows": True, "preceding": 1},
}


def over(calls: list[Any], **fields: Any) -> list[list[Any]]:
    spec = OverSpec.build(
        inputs=source(0),
        output=row_spec(*TYPES, *(each.result_type for each in calls)),
        calls=tuple(calls),
        time_column=2,
        **fields,
    )
    return [shown(row[:3] + row[4:]) for row in replay(spec, given_rows())]


@pytest.mark.parametrize("name", FRAMES)
def test_over(name: str) -> None:
    retracts = FRAMES[name]["preceding"] is not None
    functions = ("SUM", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE")
    calls = [
        call("COUNT", BIGINT, retracts=retracts),
        *(call(function, INT, 1, retracts=retracts) for function in functions),
    ]
    assert by_key(over(calls, **FRAMES[name])) == by_key(expected(name))


def position(function: Any, result: Any, *arguments: int) -> PositionCall:
    return PositionCall(function=function, name=function, result_type=result, arguments=arguments)


@pytest.mark.parametrize(
    ("name", "is_rows", "calls"),
    [
        ("o_rownum", True, [position("ROW_NUMBER", BIGINT)]),
        ("o_rank", False, [position("RANK", BIGINT), position("DENSE_RANK", BIGINT)]),
        ("o_lag", False, [position("LAG", INT, 1), position("LAG", INT, 1, 4, 5)]),
    ],
)
def test_positions(name: str, is_rows: bool, calls: list[Any]) -> None:
    constants = (Constant(type=INT, text="[2]"), Constant(type=INT, text="[-1]"))
    found = over(calls, is_rows=is_rows, preceding=None, constants=constants)
    assert by_key(found) == by_key(expected(name))
