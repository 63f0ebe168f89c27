"""USING and NATURAL: which of two columns, or which of their values, a plain name means."""

from __future__ import annotations

from typing import Any

import pytest

from service.sql import UnsupportedSql, ValidationError
from tests.service.sql.scripts import WITH, plan

TABLES = (
    f"CREATE TABLE a (id INT, k STRING, x INT) WITH ({WITH} = 'I');"
    f"CREATE TABLE b (id INT, y INT, k STRING) WITH ({WITH} = 'I');"
    f"CREATE TABLE third (id INT, z BIGINT) WITH ({WITH} = 'I');"
    f"CREATE TABLE wide (id BIGINT, w INT) WITH ({WITH} = 'I');"
)


def columns(query: str, sink: str) -> list[Any]:
    """What a query selects from a join: the names of its columns, or the call and its columns."""
    table = f"CREATE TABLE merged ({sink}) WITH ({WITH} = 'retract');"
    document = plan(f"{TABLES}{table}INSERT INTO merged {query}")
    *_, join, calc, _ = document["nodes"]
    names = [part.split("`")[1] for part in join["outputType"].split(", ")]
    assert join["type"] == "stream-exec-join_1"
    return [_shown(rex, names) for rex in calc["projection"]]


def _shown(rex: dict[str, Any], names: list[str]) -> Any:
    if rex["kind"] == "INPUT_REF":
        return names[rex["inputIndex"]]
    inside = [_shown(each, names) for each in rex["operands"]]
    return [rex["internalName"].split("$")[1], *inside]


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("JOIN", "id"),
        ("LEFT JOIN", "id"),
        ("RIGHT JOIN", "id0"),
        ("FULL JOIN", ["COALESCE", "id", "id0"]),
    ],
)
def test_a_plain_name_means_the_side_that_has_the_row(kind: str, meant: Any) -> None:
    """Of rows that only the right side had, a RIGHT or FULL JOIN showed NULL."""
    query = f"SELECT id, x, y FROM a {kind} b USING (id)"
    assert columns(query, "id INT, x INT, y INT") == [meant, "x", "y"]

    natural = kind.replace("JOIN", "NATURAL JOIN") if kind == "JOIN" else f"NATURAL {kind}"
    keys = [meant, [*meant[:1], "k", "k0"] if kind == "FULL JOIN" else meant.replace("id", "k")]
    found = columns(f"SELECT * FROM a {natural} b", "id INT, k STRING, x INT, y INT")
    assert found == [*keys, "x", "y"]


def test_a_qualified_name_means_its_own_side() -> None:
    query = "SELECT b.id, a.id, a.*, y FROM a FULL JOIN b USING (id)"
    sink = "i INT, j INT, id INT, k STRING, x INT, y INT"
    assert columns(query, sink) == ["id0", "id", "id", "k", "x", "y"]


def test_merged_columns_come_first_in_the_order_of_using() -> None:
    sink = "k STRING, id INT, x INT, y INT"
    assert columns("SELECT * FROM a JOIN b USING (k, id)", sink) == ["k", "id", "x", "y"]
    found = columns("SELECT * FROM a JOIN b USING (k)", "k STRING, i INT, x INT, j INT, y INT")
    assert found == ["k", "id", "x", "id0", "y"]


def test_names_are_merged_wherever_they_stand() -> None:
    query = (
        "SELECT id + 1, y FROM a FULL JOIN b USING (id) WHERE id > 3 AND x > 1 ORDER BY y LIMIT 1"
    )
    table = f"CREATE TABLE merged (id INT, y INT) WITH ({WITH} = 'retract');"
    document = plan(f"{TABLES}{table}INSERT INTO merged {query}")
    assert "COALESCE" in str([node.get("projection") for node in document["nodes"]])


def test_types_that_differ_are_merged_into_the_wider_one() -> None:
    [first, *_] = columns("SELECT id, x, w FROM a JOIN wide USING (id)", "id BIGINT, x INT, w INT")
    assert first == ["COALESCE", ["CAST", "id"], "id1"]


def test_what_was_merged_may_be_merged_again_where_it_is_one_column() -> None:
    query = "SELECT id, x, y, z FROM a {kind} JOIN b USING (id) {kind} JOIN third USING (id)"
    sink = "id INT, x INT, y INT, z BIGINT"
    assert columns(query.format(kind=""), sink) == ["id", "x", "y", "z"]
    # Of the last table: what comes from the first two is called id0 by then.
    assert columns(query.format(kind="RIGHT"), sink) == ["id", "x", "y", "z"]
    with pytest.raises(UnsupportedSql, match=r"column 'id' is merged twice") as caught:
        columns(query.format(kind="FULL"), sink)
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("join", "reason"),
    [
        ("NATURAL JOIN b ON a.id = b.id", "Cannot specify NATURAL keyword with ON"),
        ("JOIN b USING (x)", "Column 'x' not found"),
        ("JOIN b ON a.id = b.id JOIN third USING (id)", "'id' is ambiguous"),
    ],
)
def test_what_cannot_be_merged(join: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason) as caught:
        columns(f"SELECT x FROM a {join}", "x INT")
    assert caught.value.position is not None
