"""EXPLAIN against what real Flink 2.3 explained: section by section."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from service.sql import Session, SqlSyntaxError, UnsupportedSql
from service.sql.explain import MINI_BATCH_ADVICE, draw, explain_statement
from service.sql.script import parse_script
from service.sql.statements import CompilePlan, ExecuteInserts, Explain
from tests.oracles import RECORDED

if TYPE_CHECKING:
    from pathlib import Path

    from service.sql.statements import ExplainDetail

AST, PHYSICAL, EXECUTION = "Abstract Syntax Tree", "Optimized Physical Plan", "Optimized Execution"
DIFFERENT = {
    "022": {PHYSICAL: "a rank by event time is written as a deduplication there already"},
    "040": {PHYSICAL: "phases", EXECUTION: "phases"},
    "042": {PHYSICAL: "phases", EXECUTION: "phases"},
    "043": {PHYSICAL: "phases", EXECUTION: "phases"},
    "074": {
        AST: "EXISTS is a join when it is bound",
        PHYSICAL: "order of =",
        EXECUTION: "the same",
    },
    "080": {AST: "hints", PHYSICAL: "hints"},
    "081": {AST: "hints", PHYSICAL: "hints"},
    "083": {AST: "hints", PHYSICAL: "hints"},
    "090": {PHYSICAL: "the condition on time", EXECUTION: "the condition on time"},
    "122": {AST: "hints", PHYSICAL: "hints", EXECUTION: "hints"},
    "123": {AST: "hints"},
    "130": {AST: "the row type of a window", PHYSICAL: "phases", EXECUTION: "phases"},
    "131": {AST: "the type of a 0"},
}
"""Sections of recorded cases that we write otherwise, with what is different there."""
DETAILS: frozenset[ExplainDetail] = frozenset({"CHANGELOG_MODE", "PLAN_ADVICE"})
INSERT = """
CREATE TABLE s (id INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'x', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE t (v INT, c BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ('connector' = 'redis');
INSERT INTO t SELECT v, COUNT(*) FROM s GROUP BY v
"""


def explained(script: str, details: frozenset[ExplainDetail] = DETAILS) -> str:
    """EXPLAIN of the last statement of a script that asks for a plan."""
    session, text = Session(), ""
    for statement in parse_script(script):
        if isinstance(statement, CompilePlan | ExecuteInserts):
            text = explain_statement(session, statement.inserts, details)
        else:
            session.run(statement)
    return text


def section(text: str, name: str) -> str:
    found = re.search(rf"^== {name}[^\n]*==\n(.*?)(?=\n\n== |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[1].strip()


def recorded() -> list[Path]:
    folders = sorted((RECORDED / "plans").iterdir())
    return [
        folder
        for folder in folders
        if (folder / "explain.txt").exists() and AST in (folder / "explain.txt").read_text()
    ]


@pytest.mark.parametrize("folder", recorded(), ids=lambda folder: folder.name)
def test_sections_are_flinks_or_listed(folder: Path) -> None:
    wanted = (folder / "explain.txt").read_text().partition("EXPLAIN CHANGELOG_MODE")[2]
    text = explained((folder / "query.sql").read_text())

    listed = DIFFERENT.get(folder.name[:3], {})
    for name in (AST, PHYSICAL, EXECUTION):
        is_same = section(text, name) == section(wanted, name)
        assert is_same == (name not in listed), section(text, name)


def test_most_sections_are_the_same() -> None:
    assert len(recorded()) == 58
    assert sum(map(len, DIFFERENT.values())) == 26


def test_details_are_in_the_text_only_if_they_are_asked_for() -> None:
    plain = explained(INSERT, frozenset())

    assert "changelogMode" not in plain
    assert "ADVICE" not in plain
    assert "== Optimized Physical Plan ==" in plain
    assert MINI_BATCH_ADVICE in explained(INSERT, frozenset({"PLAN_ADVICE"}))
    batched = "SET 'table.exec.mini-batch.enabled' = 'true';"
    batched += "SET 'table.exec.mini-batch.allow-latency' = '1 s';" + INSERT
    assert "No available advice..." in explained(batched, frozenset({"PLAN_ADVICE"}))


def test_costs_are_not_made_up() -> None:
    assert "not estimated" in explained(INSERT, frozenset({"ESTIMATED_COST"}))


def test_a_query_is_explained_without_a_sink() -> None:
    session = Session()
    session.run_script(INSERT.partition("INSERT")[0])
    text = "EXPLAIN CHANGELOG_MODE SELECT v, COUNT(*) FROM s GROUP BY v"
    [statement] = parse_script(text)
    assert isinstance(statement, Explain)

    found = explain_statement(session, statement.subjects, statement.details)

    aggregate = "GroupAggregate(groupBy=[v], select=[v, COUNT_RETRACT(*) AS EXPR$1]"
    assert section(found, AST).splitlines()[0] == "LogicalAggregate(group=[{0}], EXPR$1=[COUNT()])"
    assert section(found, PHYSICAL).startswith(f"{aggregate}, changelogMode=[I,UB,UA,D])\n+- Exch")
    assert section(found, EXECUTION).startswith(f"{aggregate})\n+- Exchange")
    assert "Sink" not in found


def test_a_query_alone_may_have_two_event_times() -> None:
    session = Session()
    tables = [
        f"CREATE TABLE {name} (id INT, t TIMESTAMP(3), WATERMARK FOR t AS t) "
        "WITH ('connector' = 'ingress', 'changelog-mode' = 'I');"
        for name in "ab"
    ]
    session.run_script("".join(tables))
    text = "EXPLAIN SELECT * FROM a, b WHERE a.id = b.id AND a.t BETWEEN b.t AND b.t + "
    [statement] = parse_script(f"{text} INTERVAL '1' HOUR")
    assert isinstance(statement, Explain)

    found = explain_statement(session, statement.subjects, statement.details)

    assert "IntervalJoin" in section(found, PHYSICAL)


@pytest.mark.parametrize(
    ("text", "details", "uri"),
    [
        ("EXPLAIN PLAN FOR INSERT INTO t SELECT 1", [], None),
        ("EXPLAIN PLAN FOR SELECT 1", [], None),
        ("EXPLAIN PLAN_ADVICE, CHANGELOG_MODE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
         ["CHANGELOG_MODE", "PLAN_ADVICE"], None),
        ("EXPLAIN ESTIMATED_COST PLAN 'a'", ["ESTIMATED_COST"], "a"),
        ("EXPLAIN PLAN FOR 'a'", [], "a"),
    ],
)  # fmt: skip  # a table: a case a line
def test_explain_is_read_as_flink_and_flip_292_write_it(
    text: str, details: list[str], uri: str | None
) -> None:
    [statement] = parse_script(text)

    assert isinstance(statement, Explain)
    assert (sorted(statement.details), statement.uri) == (details, uri)
    assert len(statement.subjects) == (uri is None)


@pytest.mark.parametrize("text", ["EXPLAIN", "EXPLAIN PLAN", "EXPLAIN x", "EXPLAIN PLAN x"])
def test_explain_of_nothing_is_no_statement(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        list(parse_script(text))


def test_a_node_that_two_sinks_use_is_drawn_once() -> None:
    nodes = [{"id": number, "description": f"N{number}(a)"} for number in (1, 2, 3)]
    edges = [{"source": 1, "target": 2}, {"source": 1, "target": 3}]

    assert draw(nodes, edges, {2: ["x=[1]"]}) == (
        "N2(a, x=[1])\n+- N1(a)\n\nN3(a)\n+- Reused(reference_id=[1])"
    )


def test_a_script_of_a_plan_takes_no_statements_that_only_show() -> None:
    for statement in ("SHOW TABLES", "DESCRIBE t", "EXECUTE PLAN 'p'", "EXPLAIN PLAN 'p'", "SET"):
        with pytest.raises(UnsupportedSql, match="show, explain or execute"):
            Session().run_script(statement)
