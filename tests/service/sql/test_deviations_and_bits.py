"""Deviations, and aggregates of bits and booleans, from SQL to rows; Flink has no plan to compare.

Flink 2.3 writes `$WELFORD_M2$1` for a deviation and cannot load its own plan; bits and booleans it
does not have.
"""

from __future__ import annotations

from typing import Any

import pytest

from operators.changelog import materialize
from service.plan import load_plan
from service.runtime.records import RunOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

WITH = "WITH ('connector'='filesystem','path'='x','format'='changelog-json','changelog-mode'='{}');"
TABLES = (
    f"CREATE TABLE t (k STRING, v INT, d DECIMAL(5, 2), b BOOLEAN) {WITH.format('I,UB,UA,D')}"
    "CREATE TABLE snk ({}) " + WITH.format("retract")
)
MINI_BATCH = (
    "SET 'table.exec.mini-batch.enabled' = 'true';"
    "SET 'table.exec.mini-batch.allow-latency' = '1 s';"
    "SET 'table.exec.mini-batch.size' = '100';"
    "SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';"
)
ROWS: list[tuple[str, tuple[Any, ...]]] = [
    ("+I", ("a", 2, "1.50", True)),
    ("+I", ("a", 6, "2.50", False)),
    ("+I", ("a", 4, "0.50", None)),
    ("+I", ("a", 9, "9.99", True)),
    ("-D", ("a", 9, "9.99", True)),
    ("+I", ("a", None, None, None)),
    ("+I", ("b", 5, "1.00", True)),
    ("+I", ("b", 5, "1.00", True)),
]
CASES: dict[str, tuple[str, list[Any]]] = {
    "STDDEV_POP(d)": ("DECIMAL(38, 6)", ["0.816497", "0.000000"]),
    "STDDEV_SAMP(d)": ("DECIMAL(38, 6)", ["1.000000", "0.000000"]),
    "VAR_POP(v)": ("INT", [2, 0]),
    "VAR_SAMP(v)": ("INT", [4, 0]),
    "VAR_SAMP(CAST(v AS DOUBLE))": ("DOUBLE", [4.0, 0.0]),
    "VARIANCE(DISTINCT CAST(v AS DOUBLE))": ("DOUBLE", [4.0, None]),
    "VAR_POP(CAST(v AS DOUBLE)) FILTER (WHERE b)": ("DOUBLE", [0.0, 0.0]),
    "BIT_AND(v)": ("INT", [0, 5]),
    "BIT_OR(v)": ("INT", [6, 5]),
    "BIT_XOR(v)": ("INT", [0, 0]),
    "BIT_XOR(DISTINCT v)": ("INT", [0, 5]),
    "BOOL_AND(b)": ("BOOLEAN", [False, True]),
    "BOOL_OR(b)": ("BOOLEAN", [True, True]),
}


@pytest.mark.parametrize("settings", ["", MINI_BATCH], ids=["one phase", "two phases"])
@pytest.mark.parametrize("function", CASES)
def test_the_rows_that_are_left_count(function: str, settings: str) -> None:
    made, expected = CASES[function]
    script = settings + TABLES.format(f"k STRING, r {made}")
    [planned] = compile_script(f"{script} INSERT INTO snk SELECT k, {function} FROM t GROUP BY k")
    harness = PlanHarness(load_plan(planned.document), RunOptions.of(ExecutionSettings()))
    lines = [
        Line(at, "t", {"op": op, "data": dict(zip(("k", "v", "d", "b"), row, strict=True))})
        for at, (op, row) in enumerate(ROWS)
    ]
    try:
        harness.run(lines)
        [found] = harness.collected.values()
    finally:
        harness.close()

    assert {row[0]: _shown(row[1]) for row in materialize(found)} == {
        key: _shown(value) for key, value in zip("ab", expected, strict=True)
    }


def _shown(value: Any) -> Any:
    return str(value) if value is not None else None
