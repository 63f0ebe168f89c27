"""OVER nodes in orders that are no time, and LAG and LEAD where rows come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import materialize
from operators.lag_lead import LagLeadSpec
from operators.ordering import SortColumn
from operators.over.ordered_over import OrderedOverSpec
from operators.over.over_aggregate import OverSpec
from operators.testing.operator_harness import NODE, OperatorHarness, insert
from service.plan import changelog_modes, load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.inspection import OperatorInspector
from service.runtime.records import RunOptions
from service.runtime.specs import StatefulNode
from service.runtime.specs.over import over_spec
from service.runtime.state_inspection import StateInspector
from service.runtime.table_reader import SlotReader
from service.sql import PlanningError, SqlError, UnsupportedSql, compile_script
from state.reader import CommittedReader
from tests.batch_sql import batch_sql
from tests.operators.over.changelogs import COLUMNS, changelogs, live_rows
from tests.service.prepared import MAX_PARALLELISM

if TYPE_CHECKING:
    import redis

    from operators.changelog import Change
    from operators.spec import OperatorSpec

SCRIPT = """
CREATE TABLE s (k STRING, v INT, w INT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'in',
    'changelog-mode' = '{mode}');
CREATE TABLE t (a INT, b INT) WITH ('connector' = 'blackhole');
INSERT INTO t SELECT {functions} FROM {table} WINDOW o AS ({window});
"""
ALL, INSERTS = "I,UB,UA,D", "I"
NARROW = "(SELECT k, v, w FROM s)"


def document_of(
    functions: str, window: str = "PARTITION BY k ORDER BY v", *, mode: str = ALL, table: str = "s"
) -> dict[str, Any]:
    script = SCRIPT.format(mode=mode, functions=functions, window=window, table=table)
    return compile_script(script)[-1].document


def built(document: dict[str, Any], **options: Any) -> OperatorSpec:
    plan = load_plan(orjson.dumps(document))
    [node] = [each for each in plan.nodes if each.node_type.short == "over-aggregate"]
    return over_spec(StatefulNode(node, plan, RunOptions(**options) if options else None))


def test_an_order_by_a_value_is_run_over_any_changelog() -> None:
    for mode in (ALL, INSERTS):
        spec = built(document_of("SUM(w) OVER o, v", mode=mode))
        assert isinstance(spec, OrderedOverSpec)
        assert (spec.order, spec.is_rows) == ((SortColumn(column=1),), False)
    rows = "PARTITION BY k ORDER BY v NULLS LAST ROWS UNBOUNDED PRECEDING"
    numbered = built(document_of("SUM(w) OVER o, v", rows))
    assert isinstance(numbered, OrderedOverSpec)
    assert (numbered.order, numbered.is_rows) == ((SortColumn(column=1, nulls_last=True),), True)


def test_lag_and_lead_alone_have_any_order() -> None:
    by_values = built(document_of("LAG(w, 2, 7) OVER o, LEAD(v) OVER o", "ORDER BY v DESC, k"))
    assert isinstance(by_values, LagLeadSpec)
    lag, lead = by_values.neighbours
    assert (lag.function, lag.distance, lead.function, lead.distance) == ("LAG", -2, "LEAD", 1)
    assert lag.default is not None
    assert lag.default.value() == 7
    assert [each.descending for each in by_values.order] == [True, False]
    by_arrival = built(document_of("LAG(w) OVER o, v", "PARTITION BY k ORDER BY p"))
    assert isinstance(by_arrival, LagLeadSpec)
    assert by_arrival.order == ()
    by_time = built(document_of("LEAD(w) OVER o, v", "PARTITION BY k ORDER BY ts", mode=INSERTS))
    assert isinstance(by_time, LagLeadSpec)
    assert [each.column for each in by_time.order] == [3]


def test_a_default_of_another_type_is_refused() -> None:
    document = document_of("LAG(v, 1, w) OVER o, v")
    [over] = [each for each in document["nodes"] if "over-aggregate" in each["type"]]
    [call] = over["overSpec"]["groups"][0]["aggCalls"]
    assert (call["argList"][0], call["argList"][2]) == (1, 2)
    lag = built(document)
    assert isinstance(lag, LagLeadSpec)
    assert lag.neighbours[0].default_column == 2

    call["argList"][2] = 0
    with pytest.raises(UnsupportedNode, match="a default of another type") as caught:
        built(document)
    assert caught.value.path.endswith("/argList/2")


def test_a_default_of_processing_time_is_refused() -> None:
    script = """
    CREATE TABLE s (k STRING, z TIMESTAMP_LTZ(3), p AS PROCTIME()) WITH ('connector' =
      'filesystem', 'format' = 'changelog-json', 'path' = 'in', 'changelog-mode' = 'I,UB,UA,D');
    CREATE TABLE t (a TIMESTAMP_LTZ(3)) WITH ('connector' = 'blackhole');
    INSERT INTO t SELECT LAG(z, 1, z) OVER (PARTITION BY k ORDER BY p) FROM s;
    """
    document = compile_script(script)[-1].document
    assert isinstance(built(document), LagLeadSpec)

    [over] = [each for each in document["nodes"] if "over-aggregate" in each["type"]]
    [call] = over["overSpec"]["groups"][0]["aggCalls"]
    call["argList"][2] = 2
    with pytest.raises(UnsupportedNode, match="a default of another type"):
        built(document)


def test_lag_in_the_order_of_time_over_inserts_is_final() -> None:
    document = document_of("LAG(w) OVER o, v", "PARTITION BY k ORDER BY ts", mode=INSERTS)
    assert isinstance(built(document), OverSpec)
    plan = load_plan(orjson.dumps(document))
    assert {each.short for each in changelog_modes(plan).values()} == {"I"}


def test_what_changes_with_others_is_told_by_the_modes() -> None:
    for functions, mode in (("SUM(w) OVER o, v", INSERTS), ("LEAD(w) OVER o, v", ALL)):
        plan = load_plan(orjson.dumps(document_of(functions, mode=mode)))
        modes = changelog_modes(plan)
        assert [each.short for edge, each in modes.items() if edge.target == plan.sinks[0].id] == [
            "I,UB,UA,D"
        ]


def test_the_ttl_of_the_pipeline_counts() -> None:
    document = document_of("LEAD(w) OVER o, v")
    spec = built(
        document,
        trigger_interval_ms=0,
        tick_interval_ms=0,
        rows_per_epoch_max=1_000,
        max_parallelism=8,
        on_malformed="dead-letter",
        default_ttl_ms=10,
    )
    assert spec.ttl_ms == (10,)


@pytest.mark.parametrize(
    ("functions", "window", "error", "reason"),
    [
        ("SUM(w) OVER o, v", "ORDER BY v DESC", PlanningError, "ASCENDING"),
        ("SUM(w) OVER o, v", "ORDER BY v, w", PlanningError, "a single time column"),
        ("SUM(w) OVER o, v", "ORDER BY v ROWS 2 PRECEDING", PlanningError, "bounded OVER"),
        ("LAG(w) OVER o, v", "PARTITION BY k", PlanningError, "a single time column"),
        ("LEAD(w) OVER o, SUM(w) OVER o", "ORDER BY v", PlanningError, "LEAD Function"),
        (
            "LAG(w) OVER o, CAST(ROW_NUMBER() OVER o AS INT)",
            "ORDER BY v",
            UnsupportedSql,
            "different",
        ),
        ("LAG(w) OVER o, SUM(w) OVER o", "ORDER BY v", UnsupportedSql, "LAG beside"),
        ("SUM(w) OVER o, v", "ORDER BY ts", PlanningError, "update and delete changes"),
    ],
)
def test_what_is_refused_in_sql(
    functions: str, window: str, error: type[SqlError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        document_of(functions, window)


def change_calls(document: dict[str, Any], **changed: Any) -> dict[str, Any]:
    [node] = [each for each in document["nodes"] if "overSpec" in each]
    for call in node["overSpec"]["groups"][0]["aggCalls"]:
        call.update(changed)
    return document


def test_what_is_refused_of_plans() -> None:
    mixed = document_of("LEAD(w) OVER o, LAG(w) OVER o")
    [node] = [each for each in mixed["nodes"] if "overSpec" in each]
    node["overSpec"]["groups"][0]["aggCalls"][0]["internalName"] = "$MAX$1"
    with pytest.raises(UnsupportedNode, match="the function MAX"):
        built(mixed)
    with pytest.raises(UnsupportedNode, match="by a column"):
        built(change_calls(document_of("LEAD(w) OVER o, v"), argList=[0, 1]))
    with pytest.raises(UnsupportedNode, match="1 to 3 arguments"):
        built(change_calls(document_of("LEAD(w) OVER o, v"), argList=[]))
    with pytest.raises(UnsupportedNode, match="from 0 to"):
        built(document_of("LEAD(w, 10001) OVER o, v"))
    by_time = document_of("SUM(w) OVER o, v", "ORDER BY ts", mode=INSERTS)
    table = by_time["nodes"][0]["scanTableSource"]["table"]
    table["resolvedTable"]["options"]["changelog-mode"] = ALL
    with pytest.raises(UnsupportedNode, match="over updates or deletes"):
        built(by_time)


def test_a_default_is_a_column_of_the_row_itself() -> None:
    """Rows and results as Flink 2.3 gave them of LAG(v, 1, w) in the order of arrival."""
    table = "(SELECT k, v, w, p FROM s)"
    window = "PARTITION BY k ORDER BY p"
    spec = built(document_of("LAG(v, 1, w) OVER o, w", window, mode=INSERTS, table=table))
    assert isinstance(spec, OverSpec)
    rows = [("a", 10, 7), ("a", 20, 8), ("a", None, 9), ("b", 40, None), ("a", 50, 11)]
    found = OperatorHarness.on_heap(spec).run([insert(*row, None) for row in rows])
    assert [change.row[-1] for change in found] == [7, 10, 20, None, None]


CALLS = ("LAG(w, 2) {}", "LEAD(w, 1, 9) {}"), ("LEAD(w, 2, v) {}", "LAG(w, 1, 4 + 5) {}")

LAG_LEAD = {
    calls: document_of(", ".join(calls).format("OVER o", "OVER o"), table=NARROW) for calls in CALLS
}


@settings(max_examples=30)
@given(calls=st.sampled_from(CALLS), changes=changelogs(), size=st.integers(1, 4))
def test_a_plan_of_sql_gives_what_sql_in_batch_does(
    calls: tuple[str, str], changes: list[Change], size: int
) -> None:
    shown = ", ".join(calls)
    harness = OperatorHarness.on_heap(built(LAG_LEAD[calls]))
    emitted = harness.run(changes, epoch_changes=size)
    over = "OVER (PARTITION BY k ORDER BY v, n)"
    select = f"SELECT k, v, w, {shown.format(over, over)} FROM t"
    expected = sorted(batch_sql(select, t=(COLUMNS, live_rows(changes))), key=repr)
    assert sorted(materialize(emitted).elements(), key=repr) == expected


@pytest.mark.parametrize("functions", ["SUM(w) OVER o, v", "LEAD(w) OVER o, v"])
def test_state_is_shown_in_its_own_words(functions: str, redis_client: redis.Redis) -> None:
    spec = built(document_of(functions, table=NARROW))
    harness = OperatorHarness.on_redis(
        spec, redis_client, pipeline="p", max_parallelism=MAX_PARALLELISM
    )
    harness.run([insert("a", 2, 5), insert("a", 1, 3)])
    harness.close()
    reader, states = CommittedReader(redis_client, "p"), spec.operator().states
    operator = OperatorInspector(reader, NODE, spec, MAX_PARALLELISM, descriptors=states)
    inspector = StateInspector(
        reader,
        SlotReader(redis_client, "p"),
        NODE,
        operator.keys,
        MAX_PARALLELISM,
        descriptors=states,
        clock=lambda: 0,
    )
    found = inspector.read_all(["a"], namespace="", limit=10)
    reader.close()
    shown = {state.name: content.elements for state, content in found.states}
    assert [each.value for each in shown["rows"]] == [
        {"k": "a", "v": 1, "w": 3},
        {"k": "a", "v": 2, "w": 5},
    ]
