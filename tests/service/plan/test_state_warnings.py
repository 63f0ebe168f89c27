"""Warnings about times to live: what is kept for ever, and neighbours that forget unlike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.plan import explain, load_plan, validate
from service.sql import compile_script
from tests.oracles import RECORDED

KEYED = "k INT NOT NULL, v INT, PRIMARY KEY (k) NOT ENFORCED"
OPTIONS = "'connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'x'"
TABLES = f"""
CREATE TABLE a (k INT NOT NULL, v INT) WITH ({OPTIONS}, 'changelog-mode' = 'I');
CREATE TABLE b ({KEYED}) WITH ({OPTIONS}, 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE c ({KEYED}) WITH ({OPTIONS}, 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE every_change (k INT, v BIGINT) WITH ({OPTIONS}, 'changelog-mode' = 'retract');
CREATE TABLE latest (k INT, v BIGINT, PRIMARY KEY (v) NOT ENFORCED)
  WITH ({OPTIONS}, 'changelog-mode' = 'upsert');
"""
JOIN = "INSERT INTO every_change SELECT x.k, y.v FROM {} x JOIN {} y ON x.k = y.k"
GROUPS = "INSERT INTO every_change SELECT k, SUM(v) FROM {} GROUP BY k"
GROUPS_OF_GROUPS = """INSERT INTO every_change
SELECT CAST(n AS INT), COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) GROUP BY n"""
MATERIALIZED = "INSERT INTO latest SELECT {} FROM b ON CONFLICT DO DEDUPLICATE"


def compiled(insert: str, *ttls: str) -> dict[str, Any]:
    """The plan of a statement; the TTLs are those of its states, one after the other."""
    (planned,) = compile_script(TABLES + insert)
    entries = [entry for node in planned.document["nodes"] for entry in node.get("state", ())]
    for entry, ttl in zip(entries, ttls, strict=bool(ttls)):
        entry["ttl"] = ttl
    return planned.document


def last(document: dict[str, Any], kind: str) -> str:
    """The place of the last node of a type."""
    types = [node["type"] for node in document["nodes"]]
    return f"/nodes/{max(at for at, each in enumerate(types) if f'-{kind}_' in each)}"


def warned(document: dict[str, Any], **more: int) -> list[tuple[str, str]]:
    """Codes and places of the warnings."""
    return [(each.code, each.path) for each in validate(load_plan(document), **more)]


@pytest.mark.parametrize(
    ("ttls", "sides"),
    [
        (("0 ms", "0 ms"), [0, 1]),
        (("1 d", "0 ms"), [1]),
        (("0 ms", "1 d"), [0]),
        (("1 d", "7 d"), []),
    ],
)
def test_a_side_of_a_join_without_ttl(ttls: tuple[str, ...], sides: list[int]) -> None:
    document = compiled(JOIN.format("b", "c"), *ttls)

    assert warned(document) == [
        ("plan.join-side-unbounded", f"{last(document, 'join')}/state/{side}") for side in sides
    ]


def test_groups_without_ttl() -> None:
    assert warned(compiled(GROUPS.format("a"))) == [("plan.group-unbounded", "/nodes/2/state/0")]
    assert warned(compiled(GROUPS.format("a"), "1 d")) == []
    one_group = "INSERT INTO every_change SELECT 1, SUM(v) FROM a"
    assert warned(compiled(one_group)) == []


def test_the_default_counts_where_the_plan_says_nothing() -> None:
    document = compiled(GROUPS.format("a"))
    del document["nodes"][2]["state"]

    assert warned(document) == [("plan.group-unbounded", "/nodes/2")]
    assert warned(document, default_ttl_ms=1_000) == []
    assert explain(load_plan(document), default_ttl_ms=1_000).warnings == ()


@pytest.mark.parametrize(
    ("ttls", "said"),
    [
        (("2 h", "1 h"), "not found here"),
        (("1 h", "2 h"), "never retracted here"),
        (("0 ms", "2 h"), "not found here"),
        (("1 h", "1 h"), ""),
        (("60 min", "1 h"), ""),
    ],
)
def test_neighbours_that_forget_unlike(ttls: tuple[str, ...], said: str) -> None:
    document = compiled(GROUPS_OF_GROUPS, *ttls)

    found = [each for each in validate(load_plan(document)) if "misaligned" in each.code]

    place = f"{last(document, 'group-aggregate')}/state/0"
    assert [each.path for each in found] == ([place] if said else [])
    assert all(said in each.message and "node 4" in each.message for each in found)


def test_what_is_only_inserted_is_never_taken_back() -> None:
    """As in both examples of FLIP-292, whose operators live unlike on purpose."""
    first = """INSERT INTO every_change SELECT k, SUM(v) FROM (
      SELECT k, v, ROW_NUMBER() OVER (PARTITION BY v ORDER BY p) AS n
      FROM (SELECT *, PROCTIME() AS p FROM a)) WHERE n = 1 GROUP BY k"""

    assert warned(compiled(first, "1 h", "24 h")) == []
    assert warned(compiled(JOIN.format("a", "a"), "7 d", "1 d")) == []


def test_a_materializer_without_upsert_key() -> None:
    document = compiled(MATERIALIZED.format("v, v"))
    del document["nodes"][-1]["state"]

    assert warned(document) == [("plan.materializer-without-upsert-key", "/nodes/2")]
    assert warned(compiled(MATERIALIZED.format("k, v"))) == []
    assert "select the columns of the key" in explain(load_plan(document)).text


@pytest.mark.parametrize("by_order", ["FIRST_VALUE", "LAST_VALUE", "LISTAGG"])
def test_what_goes_by_order_over_the_buckets_of_a_split_distinct(by_order: str) -> None:
    """Flink plans it so; here such a statement is not split."""
    path = RECORDED / "plans" / "043_split_distinct_no_minibatch" / "plan.json"
    document = json.loads(path.read_bytes())
    assert "plan.split-by-order" not in dict(warned(document))
    final = next(at for at, each in enumerate(document["nodes"]) if each["id"] == 6)
    document["nodes"][final]["aggCalls"][1]["internalName"] = f"${by_order}$1"

    (found,) = [
        each for each in validate(load_plan(document)) if each.code == "plan.split-by-order"
    ]

    assert (found.severity, found.path) == ("warning", f"/nodes/{final}")
    assert by_order in found.message
    assert "without table.optimizer.distinct-agg.split.enabled" in found.hint
