"""Plans whose nodes are not given what they would have to take back.

Each is a plan of SQL that has all, from which -U is taken away below the node: the table's kinds of
change are edited, as if another planner had asked the source for less.
"""

from __future__ import annotations

from typing import Any

import pytest

from service.plan import load_plan, validate
from service.sql.session import compile_script

CODE = "plan.missing-retraction"
TABLES = """
CREATE TABLE s (id INT NOT NULL, k INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress');
CREATE TABLE r (id INT NOT NULL, k INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress');
CREATE TABLE o (id INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE p (id INT, v INT) WITH ('connector' = 'print');
CREATE TABLE c (id INT NOT NULL, v BIGINT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
"""
NEEDED = {
    "group": "INSERT INTO c SELECT k, COUNT(*) FROM s GROUP BY k",
    "filter": "INSERT INTO o SELECT id, v FROM s WHERE v > 1",
    "rank": "INSERT INTO o SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY v) AS n FROM s) WHERE n = 1",
    "join by another column": "INSERT INTO p SELECT s.id, r.v FROM s JOIN r ON s.k = r.id",
    "condition of a join": "INSERT INTO o SELECT s.id, r.v FROM s JOIN r ON s.id = r.id "
    "AND s.v < r.v",
    "materializer": "INSERT INTO o SELECT k, v FROM s ON CONFLICT DO DEDUPLICATE",
    "limit": "INSERT INTO p SELECT id, v FROM s ORDER BY v LIMIT 3",
}
NOT_NEEDED = {
    "copy": "INSERT INTO o SELECT id, v FROM s",
    "filter of the key": "INSERT INTO o SELECT id, v FROM s WHERE id > 1",
    "join by the key": "INSERT INTO o SELECT s.id, r.v FROM s JOIN r ON s.id = r.id",
}


def told(document: dict[str, Any]) -> list[str]:
    return [each.type for each in validate(load_plan(document)) if each.code == CODE]


def planned(statement: str) -> dict[str, Any]:
    return dict(compile_script(f"{TABLES}{statement};")[-1].document)


def without_before(document: dict[str, Any]) -> dict[str, Any]:
    for node in document["nodes"]:
        scan = node.get("scanTableSource")
        if scan is not None:
            scan["table"]["resolvedTable"]["options"]["changelog-mode"] = "I,UA,D"
    return document


@pytest.mark.parametrize("name", NEEDED)
def test_a_node_that_is_not_given_the_row_before_is_warned_of_once(name: str) -> None:
    document = planned(NEEDED[name])

    assert told(document) == []
    assert len(told(without_before(document))) == 1


@pytest.mark.parametrize("name", NOT_NEEDED)
def test_where_the_key_says_what_an_update_replaces_nothing_is_missing(name: str) -> None:
    assert told(without_before(planned(NOT_NEEDED[name]))) == []


def test_an_extreme_that_ignores_deletes_is_warned_of() -> None:
    document = planned("INSERT INTO o SELECT k, MAX(v) FROM s GROUP BY k")
    (aggregate,) = (each for each in document["nodes"] if "group-aggregate" in each["type"])

    assert told(document) == []
    aggregate["aggCallNeedRetractions"] = [False]
    assert told(document) == [aggregate["type"]]
