"""Each aggregate function over values of each type that matters: results, nulls, retraction."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from operators.aggregate import AggregateCall, aggregator
from operators.aggregate.aggregates import remembers
from operators.errors import AggregateFailed

NAN, INF = float("nan"), float("inf")
D = Decimal
HUGE = D("9" * 36 + ".99")
SHORT, WIDE = "DECIMAL(5, 2)", "DECIMAL(38, 2)"


def made(function: str, argument: str, result: str, **fields: Any) -> Any:
    return aggregator(
        AggregateCall(
            function=function,
            name="a",
            arguments=(0,),
            argument_types=(argument,),
            result_type=result,
            **fields,
        )
    )


def over(function: Any, values: list[Any], taken: list[Any] | None = None) -> Any:
    accumulator = function.create()
    for value in values:
        if function.takes((value,)):
            accumulator = function.accumulate(accumulator, (value,))
    for value in taken or []:
        if function.takes((value,)):
            accumulator = function.retract(accumulator, (value,))
    stored = function.to_json(accumulator)
    again = function.from_json(stored)
    assert function.to_json(again) == stored
    return function.value(again)


@pytest.mark.parametrize(
    ("function", "argument", "result", "values", "expected"),
    [
        ("SUM", "INT", "INT", [None, 1, 2], 3),
        ("SUM", "INT", "INT", [None], None),
        ("SUM", "INT", "INT", [2**31 - 1, 1], -(2**31)),
        ("SUM", "TINYINT", "TINYINT", [127, 2], -127),
        ("SUM", SHORT, WIDE, [D("999.99"), D("0.02")], D("1000.01")),
        ("SUM", WIDE, WIDE, [HUGE, HUGE], None),
        ("SUM", WIDE, WIDE, [HUGE, HUGE, D("1.00")], D("1.00")),
        ("SUM", "FLOAT", "FLOAT", [16777216.0, 1.0], 16777216.0),
        ("SUM", "DOUBLE", "DOUBLE", [16777216.0, 1.0], 16777217.0),
        ("$SUM0", "INT", "INT NOT NULL", [None], 0),
        ("$SUM0", SHORT, WIDE, [], D("0.00")),
        ("$SUM0", WIDE, WIDE, [HUGE, HUGE, D("1.00")], None),
        ("AVG", "INT", "INT", [1, 2], 1),
        ("AVG", "INT", "INT", [-1, -2], -1),
        ("AVG", "INT", "INT", [2**31 - 1, 2**31 - 1], 2**31 - 1),
        ("AVG", "INT", "INT", [None], None),
        ("AVG", "BIGINT", "BIGINT", [2**63 - 1, 1], -(2**62)),
        ("AVG", "DOUBLE", "DOUBLE", [1.0, 2.0], 1.5),
        ("AVG", "FLOAT", "FLOAT", [0.10000000149011612, 0.0, 0.0], 0.03333333507180214),
        ("AVG", SHORT, "DECIMAL(38, 6)", [D("1.00"), D("1.00"), D("0.00")], D("0.666667")),
        ("AVG", "DECIMAL(8, 8)", "DECIMAL(38, 8)", [D("1E-8"), D("0E-8")], D("1E-8")),
        ("MIN", "DOUBLE", "DOUBLE", [2.0, NAN, 1.0], 1.0),
        ("MIN", "STRING", "STRING", ["b", None, "a"], "a"),
        ("MIN", "BOOLEAN", "BOOLEAN", [True, False], False),
        ("MAX", "DATE", "DATE", [dt.date(2020, 1, 1), dt.date(2021, 1, 1)], dt.date(2021, 1, 1)),
        ("MAX", "DOUBLE", "DOUBLE", [-0.0, 0.0, -1.0], -0.0),
        ("MAX", "DOUBLE", "DOUBLE", [1.5, NAN, 1.0], 1.5),
        ("MAX", "FLOAT", "FLOAT", [NAN, 1.0], NAN),
        ("MAX", "INT", "INT", [], None),
        ("FIRST_VALUE", "INT", "INT", [None, 2, 1], 2),
        ("LAST_VALUE", "INT", "INT", [1, 2, None], 2),
        ("LISTAGG", "STRING", "STRING", ["x", None, "y", "x"], "x,y,x"),
        ("LISTAGG", "STRING", "STRING", [None], None),
        ("LISTAGG", "STRING", "STRING", [""], ""),
        ("COLLECT", "INT", "MULTISET<INT>", [2, None, 1, 2], [(1, 1), (2, 2)]),
        ("COLLECT", "INT", "MULTISET<INT>", [None], []),
        ("ARRAY_AGG", "INT", "ARRAY<INT>", [2, None, 1], [2, 1]),
        ("ARRAY_AGG", "INT", "ARRAY<INT>", [None], None),
        ("SINGLE_VALUE", "INT", "INT", [None], None),
        ("SINGLE_VALUE", "INT", "INT", [7], 7),
        ("STDDEV_POP", "DOUBLE", "DOUBLE", [2.0, 4.0], 1.0),
        ("STDDEV_SAMP", "DOUBLE", "DOUBLE", [2.0], None),
        ("VAR_POP", "DOUBLE", "DOUBLE", [0.1, 0.1, 0.1], 0.0),
        ("VAR_POP", "DOUBLE", "DOUBLE", [INF, 0.1], NAN),
        ("VAR_SAMP", SHORT, "DECIMAL(38, 6)", [D("1.00"), D("2.00")], D("0.500000")),
        ("VAR_POP", "BIGINT", "DOUBLE", [2**62, 2**62 + 2], 1.0),
        ("BIT_AND", "TINYINT", "TINYINT", [-1, 6, 3], 2),
        ("BIT_OR", "TINYINT", "TINYINT", [-128, 1], -127),
        ("BIT_XOR", "INT", "INT", [5, 5, 3], 3),
        ("BOOL_AND", "BOOLEAN", "BOOLEAN", [True, None, True], True),
        ("BOOL_OR", "BOOLEAN", "BOOLEAN", [False, None], False),
        ("BOOL_OR", "BOOLEAN", "BOOLEAN", [None], None),
    ],
)  # fmt: skip  # a table: a case a line
def test_value_of_rows(
    function: str, argument: str, result: str, values: list[Any], expected: object
) -> None:
    assert repr(over(made(function, argument, result), values)) == repr(expected)


@pytest.mark.parametrize(
    ("function", "argument", "result", "values", "taken", "expected"),
    [
        ("COUNT", "INT", "BIGINT", [1, 2, None], [1], 1),
        ("SUM", "INT", "INT", [1, 2], [2], 1),
        ("SUM", "INT", "INT", [1], [1], None),
        ("SUM", SHORT, WIDE, [], [D("1.00")], D("-1.00")),
        ("$SUM0", "INT", "INT", [1], [1], 0),
        ("AVG", "INT", "INT", [1, 2, 6], [6], 1),
        ("MIN", "INT", "INT", [1, 2, 1], [1], 1),
        ("MIN", "INT", "INT", [1, 2, 1], [1, 1], 2),
        ("MIN", "INT", "INT", [1], [1], None),
        ("MAX", "STRING", "STRING", ["a", "c", "b"], ["c"], "b"),
        ("MAX", "DOUBLE", "DOUBLE", [1.0, NAN, INF], [NAN], INF),
        ("MIN", "DOUBLE", "DOUBLE", [0.0, -0.0], [-0.0], 0.0),
        ("FIRST_VALUE", "INT", "INT", [1, 2, 1], [1], 2),
        ("LAST_VALUE", "INT", "INT", [1, 2, 1], [1], 1),
        ("LAST_VALUE", "INT", "INT", [1, 2], [2], 1),
        ("LISTAGG", "STRING", "STRING", ["x", "y", "x"], ["x"], "y,x"),
        ("LISTAGG", "STRING", "STRING", ["x"], ["x"], None),
        ("COLLECT", "STRING", "MULTISET<STRING>", ["x", "y", "x"], ["x", "y"], [("x", 1)]),
        ("ARRAY_AGG", "DOUBLE", "ARRAY<DOUBLE>", [0.0, -0.0], [-0.0], [0.0]),
        ("SINGLE_VALUE", "INT", "INT", [1], [1], None),
        ("STDDEV_POP", "INT", "DOUBLE", [2, 4, 9], [9], 1.0),
        ("BIT_AND", "INT", "INT", [7, 5, 3], [3], 5),
        ("BOOL_AND", "BOOLEAN", "BOOLEAN", [True, False], [False], True),
    ],
)
def test_value_of_what_is_left(
    function: str, argument: str, result: str, values: list[Any], taken: list[Any], expected: object
) -> None:
    found = over(made(function, argument, result, needs_retraction=True), values, taken)
    assert repr(found) == repr(expected)


def test_nan_that_stands_first_stays_the_least() -> None:
    assert math.isnan(over(made("MIN", "DOUBLE", "DOUBLE"), [NAN, 1.0]))


def test_an_extreme_without_retraction_ignores_what_is_taken_back() -> None:
    assert over(made("MAX", "INT", "INT"), [1, 2], [2]) == 2


@pytest.mark.parametrize("function", ["SUM", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"])
def test_a_function_without_retraction_refuses_what_is_taken_back(function: str) -> None:
    kind = "STRING" if function == "LISTAGG" else "INT"
    with pytest.raises(AggregateFailed, match="takes no row back"):
        over(made(function, kind, kind), [], ["x" if kind == "STRING" else 1])


def test_a_scalar_subquery_of_two_rows_fails() -> None:
    with pytest.raises(AggregateFailed, match="more than one row"):
        over(made("SINGLE_VALUE", "INT", "INT"), [1, 2])


def test_array_agg_may_keep_nulls() -> None:
    function = made("ARRAY_AGG", "INT", "ARRAY<INT>", ignores_null=False)
    assert over(function, [None, 1, None], [None]) == [1, None]


def test_the_separator_is_that_of_the_last_row() -> None:
    for needs_retraction in (False, True):
        call = AggregateCall(
            function="LISTAGG",
            name="a",
            arguments=(0, 1),
            argument_types=("STRING", "STRING"),
            result_type="STRING",
            needs_retraction=needs_retraction,
        )
        function = aggregator(call)
        accumulator = function.create()
        for arguments in [("x", "-"), ("y", "-"), (None, ";")]:
            if function.takes(arguments):
                accumulator = function.accumulate(accumulator, arguments)
        assert function.value(accumulator) == "x-y"


def test_only_what_may_go_is_remembered() -> None:
    def remembered(function: str, *, needs_retraction: bool) -> bool:
        return remembers(
            AggregateCall(
                function=function,
                name="a",
                arguments=(0,),
                argument_types=("STRING",),
                result_type="STRING",
                needs_retraction=needs_retraction,
            )
        )

    assert not remembered("MIN", needs_retraction=False)
    assert remembered("MIN", needs_retraction=True)
    assert not remembered("COUNT", needs_retraction=True)
    assert remembered("COLLECT", needs_retraction=False)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("MEDIAN", ("INT",), "unknown aggregate function MEDIAN"),
        ("SUM", (), "SUM of 0 arguments"),
        ("SUM", ("STRING",), "SUM is not defined for VARCHAR"),
        ("MIN", ("ARRAY<INT>",), "MIN is not defined for ARRAY"),
        ("BIT_OR", ("DOUBLE",), "BIT_OR is not defined for DOUBLE"),
    ],
)
def test_a_call_that_cannot_be(function: str, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AggregateCall(
            function=function,
            name="a",
            arguments=tuple(range(len(arguments))),
            argument_types=arguments,
            result_type="INT",
        )
