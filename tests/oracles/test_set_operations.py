"""INTERSECT ALL and EXCEPT ALL of changing tables are those of their bags."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import RowKind
from service.plan import load_plan
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

SCRIPT = """
CREATE TABLE a (k STRING, x INT) WITH ('connector' = 'filesystem', 'path' = 'a',
    'format' = 'changelog-json', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE b (k STRING, x INT) WITH ('connector' = 'filesystem', 'path' = 'b',
    'format' = 'changelog-json', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE snk (k STRING, x INT) WITH ('connector' = 'filesystem', 'path' = 'c',
    'format' = 'changelog-json', 'changelog-mode' = 'retract');
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, x FROM a {operation} ALL SELECT k, x FROM b;
"""
ROWS = st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1, None]))
CHANGES = st.lists(st.tuples(st.sampled_from("ab"), ROWS, st.booleans()), max_size=14)


@pytest.mark.parametrize("operation", ["INTERSECT", "EXCEPT"])
@settings(max_examples=40)
@given(drawn=CHANGES)
def test_the_result_is_that_of_the_bags(operation: str, drawn: list[Any]) -> None:
    tables: dict[str, Counter[Any]] = {"a": Counter(), "b": Counter()}
    lines = []
    for at, (table, row, retracts) in enumerate(drawn):
        kind = "-D" if retracts and tables[table][row] else "+I"
        tables[table][row] += 1 if kind == "+I" else -1
        data = dict(zip(("k", "x"), row, strict=True))
        lines.append(Line(at * 10, table, {"op": kind, "data": data}))
    plan = load_plan(compile_script(SCRIPT.format(operation=operation))[-1].document)

    options = PipelineOptions().resolved(ExecutionSettings())
    harness = PlanHarness(plan, options)
    harness.run(lines)
    harness.close()

    (collected,) = harness.collected.values()
    found: Counter[Any] = Counter()
    for each in collected:
        accumulates = each.kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        found[each.row] += 1 if accumulates else -1
        assert found[each.row] >= 0, "a row is taken back that is not there"
    left, right = tables["a"], tables["b"]
    assert +found == (left & right if operation == "INTERSECT" else left - right)
