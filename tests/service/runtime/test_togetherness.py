"""Which sinks get the rows of each key in one partition without an exchange of their own."""

from __future__ import annotations

import pytest

from benchmarks.against_flink.queries import QUERIES, statements
from service.plan import load_plan
from service.plan.nodes import Sink
from service.runtime.operators import stateful_nodes
from service.runtime.specs import identity_nodes
from service.runtime.togetherness import is_together
from service.sql import compile_script

SOURCE = (
    "CREATE TABLE events (id BIGINT, k INT, name VARCHAR(9), amount BIGINT, came AS PROCTIME()) "
    "WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = 'in')"
)
RANKED = (
    "SELECT *, ROW_NUMBER() OVER (PARTITION BY k, name ORDER BY amount DESC) AS place FROM events"
)


def together(*texts: str) -> bool:
    document = compile_script(";\n".join(texts))[0].document
    plan = load_plan(document)
    operators = {each.node_id: each for each in stateful_nodes(plan)}
    (sink,) = [node for node in plan.nodes if isinstance(node.view, Sink)]
    return is_together(plan, operators, identity_nodes(plan), sink)


def into(columns: str, select: str, *before: str) -> bool:
    sink = f"CREATE TABLE target ({columns} NOT ENFORCED) WITH ('connector' = 'blackhole')"
    return together(*before, SOURCE, sink, f"INSERT INTO target {select}")


def test_rows_of_an_aggregation_are_together_by_what_they_are_grouped_by() -> None:
    grouped = "SELECT k, COUNT(*), SUM(amount) FROM events GROUP BY k"
    assert into("k INT, n BIGINT, s BIGINT, PRIMARY KEY (k)", grouped)


def test_columns_are_followed_where_a_projection_moves_them() -> None:
    moved = "SELECT SUM(amount), name, k FROM events GROUP BY k, name"
    assert into("s BIGINT, name STRING, k INT, PRIMARY KEY (name, k)", moved)


def test_all_rows_of_a_single_group_are_together() -> None:
    counted = "SELECT 1, COUNT(*) FROM events"
    assert into("one INT, n BIGINT, PRIMARY KEY (one)", counted)


def test_two_phases_of_an_aggregation_are_as_one() -> None:
    phases = (
        "SET 'table.exec.mini-batch.enabled' = 'true'",
        "SET 'table.exec.mini-batch.allow-latency' = '1 s'",
        "SET 'table.exec.mini-batch.size' = '100'",
    )
    grouped = "SELECT k, COUNT(*) FROM events GROUP BY k"
    assert into("k INT, n BIGINT, PRIMARY KEY (k)", grouped, *phases)


def test_rows_of_a_rank_are_together_where_the_key_has_all_of_its_partition() -> None:
    key = "PRIMARY KEY (name, k, place)"
    ranked = f"SELECT name, k, place, amount FROM ({RANKED}) WHERE place <= 5"
    assert into(f"name STRING, k INT, place BIGINT, amount BIGINT, {key}", ranked)


def test_a_key_that_is_computed_is_not_followed() -> None:
    plain = "SET 'table.exec.sink.upsert-materialize' = 'NONE'"
    computed = "SELECT k + 1, COUNT(*) FROM events GROUP BY k"
    assert not into("k INT, n BIGINT, PRIMARY KEY (k)", computed, plain)


def test_a_text_that_is_cut_may_become_another_key() -> None:
    cut = "SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD'"
    grouped = "SELECT name, COUNT(*) FROM events GROUP BY name"
    columns = "name VARCHAR(9), n BIGINT, PRIMARY KEY (name)"
    assert into(columns, grouped)
    assert not into(columns, grouped, cut)


@pytest.mark.parametrize(
    ("name", "expected"), [("aggregate", True), ("rank", True), ("join", False)]
)
def test_the_queries_that_are_compared_with_flink(name: str, expected: bool) -> None:
    (query,) = [each for each in QUERIES if each.name == name]
    assert together(*statements(query, "events", "names")) is expected
