"""Unions of unions, as the SQL planner makes them, are one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.plan import load_plan
from service.plan.nodes import Sink, Union
from service.runtime import lowering
from service.runtime.keeper_ports import Run
from service.runtime.query_starter import DataflowStarter
from service.runtime.unions import is_merged, united
from service.sql import compile_script
from tests.service.runtime.test_query_starter import RecordingSpark, record, settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TABLES = """
CREATE TABLE s (k INT) WITH ('connector' = 'ingress');
CREATE TABLE t (k INT) WITH ('connector' = 'print');
CREATE TABLE o (k INT) WITH ('connector' = 'print');
"""


def plan_of(script: str) -> Any:
    return load_plan(compile_script(TABLES + script)[-1].document)


def last_union(plan: Any) -> Any:
    """The one that writes the first sink."""
    sink = next(each for each in plan.nodes if isinstance(each.view, Sink))
    (node,) = plan.inputs(sink.id)
    assert isinstance(node.view, Union)
    return node


def test_inputs_of_all_are_those_of_the_last_in_their_order() -> None:
    count = 40
    branches = " UNION ALL ".join(f"SELECT k + {at} FROM s" for at in range(count))

    plan = plan_of(f"INSERT INTO t {branches};")

    last = last_union(plan)
    found = united(plan, last)
    added = [plan.node(each).view.projection[0].operands[1].value for each in found]
    assert [int(each) for each in added] == [*range(count)]
    unions = [each for each in plan.nodes if isinstance(each.view, Union)]
    assert [each.id for each in unions if not is_merged(plan, each)] == [last.id]


def test_a_union_that_goes_elsewhere_too_stays() -> None:
    plan = plan_of("""
        CREATE VIEW v AS SELECT k + 1 AS k FROM s UNION ALL SELECT k + 2 FROM s;
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO t SELECT k FROM v UNION ALL SELECT k + 3 FROM s;
        INSERT INTO o SELECT k FROM v;
        END;
    """)

    last = last_union(plan)

    inner = [each for each in plan.nodes if isinstance(each.view, Union) and each is not last]
    assert [is_merged(plan, each) for each in (*inner, last)] == [False] * (len(inner) + 1)
    assert [each.id for each in plan.inputs(last.id)] == united(plan, last)


def test_order_numbers_are_spread_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Kafka, offsets of 34 bits with 16 for partitions, have room for 8,192 inputs."""
    spread = []
    union = lowering.union

    def counted(frames: Any) -> Any:
        spread.append(len(frames))
        return union(frames)

    monkeypatch.setattr(lowering, "union", counted)
    plan = plan_of(f"INSERT INTO t {' UNION ALL '.join(['SELECT k FROM s'] * 24)};")

    starter = DataflowStarter(settings(tmp_path))
    starter.start(RecordingSpark(), record(dict(plan.document)), Run(1, "incarnation"))

    assert spread == [24]
