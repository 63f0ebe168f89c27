"""SHOW and DESCRIBE, in the words of Flink 2.3."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sql import Session, ValidationError
from service.sql.script import parse_script
from service.sql.show import Listing, create_table_text, describe, is_like, options_listing, show
from service.sql.statements import Describe, Show

SCRIPT = """
CREATE TABLE Orders (
  id BIGINT NOT NULL COMMENT 'the order''s id',
  price DECIMAL(10, 2),
  name STRING,
  total AS price * 2,
  topic STRING METADATA VIRTUAL,
  ts TIMESTAMP(3) METADATA FROM 'timestamp',
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'all of them' WITH ('connector' = 'kafka', 'properties.sasl.jaas.config' = 'hush');
CREATE TEMPORARY TABLE other (a INT) WITH ('connector' = 'print');
CREATE VIEW cheap (num) AS SELECT id FROM Orders WHERE price < 5;
"""


def listed(statement: str) -> Listing:
    session = Session()
    for each in parse_script(SCRIPT + statement):
        match each:
            case Show():
                return show(each, session.catalogue)
            case Describe():
                return describe(each, session.catalogue)
            case _:
                session.run(each)
    raise AssertionError("no statement that shows")


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SHOW TABLES", ["Orders", "cheap", "other"]),
        ("SHOW TABLES LIKE 'o%'", ["other"]),
        ("SHOW TABLES NOT LIKE '%e_'", ["Orders", "cheap"]),
        ("SHOW VIEWS", ["cheap"]),
        ("SHOW CATALOGS", ["default_catalog"]),
        ("SHOW DATABASES", ["default_database"]),
        ("SHOW CURRENT CATALOG", ["default_catalog"]),
        ("SHOW CURRENT DATABASE", ["default_database"]),
        ("SHOW COLUMNS FROM Orders LIKE 't%'", ["total", "topic", "ts"]),
    ],
)
def test_what_there_is(statement: str, names: list[str]) -> None:
    assert [row[0] for row in listed(statement).rows] == names


@pytest.mark.parametrize("statement", ["DESCRIBE Orders", "DESC EXTENDED Orders"])
def test_a_table_is_described(statement: str) -> None:
    found = listed(statement)

    assert [name for name, _ in found.columns] == [
        "name", "type", "null", "key", "extras", "watermark", "comment",
    ]  # fmt: skip  # a list of names, several a line
    assert found.rows == (
        ("id", "BIGINT", False, "PRI(id)", None, None, "the order's id"),
        ("price", "DECIMAL(10, 2)", True, None, None, None, None),
        ("name", "STRING", True, None, None, None, None),
        ("total", "DECIMAL(21, 2)", True, None, "AS `price` * 2", None, None),
        ("topic", "STRING", True, None, "METADATA VIRTUAL", None, None),
        (
            "ts",
            "TIMESTAMP(3) *ROWTIME*",
            True,
            None,
            "METADATA FROM 'timestamp'",
            "`ts` - INTERVAL '5' SECOND",
            None,
        ),
    )


def test_a_view_is_described() -> None:
    assert listed("DESCRIBE cheap").rows == (("num", "BIGINT", False, None, None, None),)


def test_a_table_is_shown_as_the_statement_that_makes_it() -> None:
    [[text]] = listed("SHOW CREATE TABLE Orders").rows

    assert isinstance(text, str)
    assert text.startswith("CREATE TABLE `default_catalog`.`default_database`.`Orders` (\n  `id` ")
    assert "CONSTRAINT `pk` PRIMARY KEY (`id`) NOT ENFORCED\n)\nCOMMENT 'all of them'\n" in text
    again, first = Session(), Session()
    again.run_script(text)
    first.run_script(SCRIPT)
    name = ("default_catalog", "default_database", "Orders")
    made, given_table = again.catalogue.objects[name], first.catalogue.objects[name]
    assert create_table_text(made) == create_table_text(given_table) == text


def test_secrets_are_masked() -> None:
    [[text]] = listed("SHOW CREATE TABLE Orders").rows

    assert "hush" not in str(text)
    assert "'properties.sasl.jaas.config' = '******'" in str(text)
    shown = options_listing({"a.Password": "x", "b": "y"})
    assert shown.rows == (("a.Password", "******"), ("b", "y"))


def test_an_address_is_shown_without_its_secrets() -> None:
    url = "jdbc:mysql://u:hush@db:3306/shop?user=u&password=hush;hush"
    table = f"CREATE TABLE d (id INT) WITH ('connector' = 'jdbc', 'url' = '{url}')"
    view = f"CREATE VIEW v AS SELECT id FROM Orders /*+ OPTIONS('url' = '{url}') */"
    shown = "'url' = 'jdbc:mysql://******@db:3306/shop?user=u&password=******'"

    for statement in (f"{table}; SHOW CREATE TABLE d", f"{view}; SHOW CREATE VIEW v"):
        [[text]] = listed(statement).rows
        assert shown in str(text)
        assert "hush" not in str(text)


def test_a_view_is_shown_as_it_was_written() -> None:
    [[text]] = listed("SHOW CREATE VIEW cheap").rows

    assert text == (
        "CREATE VIEW `default_catalog`.`default_database`.`cheap` (`num`) "
        "AS SELECT id FROM Orders WHERE price < 5"
    )


@pytest.mark.parametrize(
    "key",
    ["'password'", "password", "`password`", "'token:a b/c'", "'it''s a secret'"],
)
def test_secrets_in_the_hints_of_a_view_are_masked(key: str) -> None:
    query = (
        "SELECT 'password' = '/*+ ''' AS x FROM Orders "
        f"/*+ OPTIONS({key} = 'it''s', 'a' = 'password', 'b' = 'c') */"
    )
    [[text]] = listed(f"CREATE VIEW hinted AS {query}; SHOW CREATE VIEW hinted").rows

    assert str(text).endswith(query.replace("'it''s',", "'******',"))


def test_comments_in_the_hints_of_a_view_are_left_out() -> None:
    query = "SELECT id FROM Orders /*+ OPTIONS('a' -- =\n= 'b' /* 'password' = 'hunter2' */) */"
    [[text]] = listed(f"CREATE VIEW hinted AS {query}; SHOW CREATE VIEW hinted").rows

    assert str(text).endswith("/*+ OPTIONS('a' = 'b' ) */")


@pytest.mark.parametrize(
    "statement",
    ["SHOW CREATE TABLE cheap", "SHOW CREATE VIEW Orders", "DESCRIBE order", "DESC x.y"],
)
def test_what_is_not_there_is_an_error_with_its_place(statement: str) -> None:
    with pytest.raises(ValidationError) as caught:
        listed(statement)
    assert caught.value.position is not None
    assert caught.value.position.line == SCRIPT.count("\n") + 1


@given(st.text("ab%_", max_size=8), st.text("ab%_", max_size=6))
def test_like_is_what_a_regular_expression_says(text: str, pattern: str) -> None:
    expression = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)

    assert is_like(text, pattern) == (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_a_pattern_of_many_wildcards_ends() -> None:
    assert not is_like("a" * 5_000, "%a" * 200 + "b")
