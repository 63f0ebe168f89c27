"""Statements one after the other: what they declare, set, and ask for."""

from __future__ import annotations

import pytest

from service.plan import load_plan
from service.sql import Session, SqlError, ValidationError, compile_script
from service.sql.script import parse_script
from service.sql.statements import CompilePlan, ExecuteInserts
from tests.service.sql.scripts import TABLES, WITH, node_types, plan


def test_a_plan_loads() -> None:
    document = plan("COMPILE PLAN '/tmp/p.json' FOR INSERT INTO snk SELECT v FROM s WHERE v > 3")
    assert node_types(document) == ["table-source-scan", "calc", "sink"]
    load_plan(document)


def test_compile_plan_says_where_and_whether_to_run() -> None:
    insert = "INSERT INTO snk SELECT v FROM s"
    first, second, third = parse_script(
        f"COMPILE PLAN 'a' FOR {insert}; COMPILE AND EXECUTE PLAN 'b' IF NOT EXISTS FOR {insert};"
        f"EXECUTE {insert}"
    )
    assert isinstance(first, CompilePlan)
    assert (first.uri, first.executes, first.if_absent) == ("a", False, False)
    assert isinstance(second, CompilePlan)
    assert (second.uri, second.executes, second.if_absent) == ("b", True, True)
    assert isinstance(third, ExecuteInserts)


@pytest.mark.parametrize(
    "opening", ["STATEMENT SET BEGIN", "EXECUTE STATEMENT SET BEGIN", "BEGIN STATEMENT SET;"]
)
def test_a_statement_set_is_one_plan(opening: str) -> None:
    if not opening.startswith("EXECUTE") and not opening.startswith("BEGIN"):
        opening = "COMPILE PLAN 'p' FOR " + opening
    case = "CASE WHEN v > 1 THEN 1 ELSE 2 END"
    inserts = f"INSERT INTO snk SELECT {case} FROM s; INSERT INTO snk SELECT id FROM s;"
    [planned] = compile_script(f"{TABLES}{opening} {inserts} END;")
    assert node_types(planned.document)[-2:] == ["union", "sink"]
    load_plan(planned.document)


def test_options_are_set_and_reset() -> None:
    session = Session()
    session.run_script("SET 'a' = '1'; SET 'b' = '2'; SET 'c' = '3'; RESET 'b';")
    assert session.catalogue.options == {"a": "1", "c": "3"}
    session.run_script("RESET;")
    assert session.catalogue.options == {}


def test_statements_before_a_wrong_one_have_taken_effect() -> None:
    session = Session()
    with pytest.raises(SqlError):
        session.run_script("SET 'a' = '1'; SELECT 1;")
    assert session.catalogue.options == {"a": "1"}


def test_a_table_is_created_once() -> None:
    create = f"TABLE {{}} s (a INT) WITH ({WITH} = 'I');"
    with pytest.raises(ValidationError, match="s"):
        compile_script(TABLES + "CREATE " + create.format(""))
    compile_script(TABLES + "CREATE " + create.format("IF NOT EXISTS"))


def test_a_table_that_is_dropped_is_gone() -> None:
    with pytest.raises(ValidationError):
        compile_script(TABLES + "DROP TABLE s; INSERT INTO snk SELECT v FROM s")
    compile_script(TABLES + "DROP TABLE IF EXISTS nosuch; DROP TABLE s;")


def test_views() -> None:
    view = "CREATE VIEW w (x, y) AS SELECT k, v FROM s WHERE v > 3;"
    document = plan(view + "INSERT INTO snk SELECT y FROM w")
    assert node_types(document) == ["table-source-scan", "calc", "sink"]


WRONG_VIEWS = [
    ("CREATE VIEW w AS SELECT nosuch FROM s", 28),
    ("CREATE VIEW w (x, y) AS SELECT v FROM s", None),
    ("CREATE VIEW w AS SELECT v FROM s; INSERT INTO w SELECT v FROM s", None),
]


@pytest.mark.parametrize(("sql", "column"), WRONG_VIEWS)
def test_views_that_mean_nothing(sql: str, column: int | None) -> None:
    with pytest.raises(ValidationError) as caught:
        compile_script(TABLES + sql)
    assert caught.value.position is not None
    assert caught.value.position.line == 2


def test_comments_and_letter_case() -> None:
    document = plan("insert INTO snk -- here\n select v /* w */ from s where v>3")
    assert node_types(document) == ["table-source-scan", "calc", "sink"]


def test_names_are_exact() -> None:
    with pytest.raises(ValidationError, match="did you mean v"):
        plan("INSERT INTO snk SELECT V FROM s")
