"""Tables of a plan: schema, key, options, and the catalogue's word against the plan's."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan.errors import InvalidProperty, PlanError, SchemaMismatch, UnresolvedTable
from service.plan.properties import JsonObject
from service.plan.tables import Table, parse_identifier, parse_table
from tests.service.plan.builders import call, recorded, ref, table

COLUMNS = {"k": "INT NOT NULL", "v": "VARCHAR(5)"}
NAME = "`default_catalog`.`default_database`.`t`"


def read(reference: Any, catalog: dict[str, Any] | None = None) -> Table:
    return parse_table(JsonObject({"table": reference}, "/x", 7), catalog)


def resolved(**more: Any) -> dict[str, Any]:
    return table("t", COLUMNS, key=("k",), format="json")["resolvedTable"] | more


def test_a_resolved_table_needs_no_catalogue() -> None:
    found = read({"identifier": NAME, "resolvedTable": resolved()})

    assert (found.name, found.names[0], found.schema.primary_key) == (
        "t",
        "default_catalog",
        ("k",),
    )
    assert found.options == {"connector": "filesystem", "format": "json"}
    assert [column.name for column in found.schema.physical] == ["k", "v"]


def test_a_name_alone_is_resolved_by_the_catalogue() -> None:
    found = read({"identifier": NAME}, {"default_catalog.default_database.t": resolved()})

    assert found.schema.primary_key == ("k",)


def test_a_name_that_nobody_knows_is_refused() -> None:
    for catalog in (None, {}, {"`a`.`b`.`t`": resolved()}):
        with pytest.raises(UnresolvedTable, match="only its name") as refusal:
            read({"identifier": NAME}, catalog)
        assert refusal.value.node_id == 7


def test_options_are_merged_and_the_catalogue_wins() -> None:
    planned = resolved(options={"connector": "a", "path": "p"})
    catalog = {NAME: resolved(options={"connector": "b", "format": "f"})}

    found = read({"identifier": NAME, "resolvedTable": planned}, catalog)

    assert found.options == {"connector": "b", "path": "p", "format": "f"}


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"k": "INT NOT NULL", "v": "VARCHAR(6)"}, 'column "v" differs'),
        ({"k": "INT NOT NULL"}, 'column "v" is not in the catalogue'),
        (COLUMNS | {"w": "INT"}, 'column "w" is not in the plan'),
        ({"v": "VARCHAR(5)", "k": "INT NOT NULL"}, "columns differs"),
    ],
)
def test_another_schema_in_the_catalogue_is_refused(other: dict[str, str], difference: str) -> None:
    catalog = {NAME: table("t", other, key=("k",))["resolvedTable"]}

    with pytest.raises(SchemaMismatch, match=difference):
        read({"identifier": NAME, "resolvedTable": resolved()}, catalog)


def test_another_key_is_another_schema_but_another_comment_is_not() -> None:
    planned = resolved()
    commented = resolved()
    commented["schema"]["columns"][0]["comment"] = "of the table"
    keyless = resolved(schema={"columns": planned["schema"]["columns"]})

    assert read({"identifier": NAME, "resolvedTable": planned}, {NAME: commented})
    with pytest.raises(SchemaMismatch, match="primary key differs"):
        read({"identifier": NAME, "resolvedTable": planned}, {NAME: keyless})


def test_kinds_of_columns() -> None:
    columns = [
        {"name": "a", "dataType": "INT"},
        {"name": "b", "kind": "COMPUTED", "expression": {"rexNode": ref(0)}},
        {"name": "c", "kind": "METADATA", "metadataKey": "offset", "dataType": "BIGINT"},
        {"name": "d", "kind": "METADATA", "isVirtual": True, "dataType": "BIGINT"},
    ]

    schema = read({"identifier": NAME, "resolvedTable": {"schema": {"columns": columns}}}).schema

    assert [column.kind for column in schema.columns] == [
        "PHYSICAL",
        "COMPUTED",
        "METADATA",
        "METADATA",
    ]
    assert [column.metadata_key for column in schema.columns] == [None, None, "offset", "d"]
    assert [column.name for column in schema.physical] == ["a"]
    assert [column.name for column in schema.persisted] == ["a", "c"]


def test_watermarks_of_recorded_tables_are_read() -> None:
    marks = [
        read(node["scanTableSource"]["table"]).schema.watermarks
        for entry in recorded()
        for node in entry["plan"]["nodes"]
        if "scanTableSource" in node and "watermarkSpecs" in str(node)
    ]

    assert marks
    assert all(each and each[0].rowtime_attribute for each in marks)


def test_an_anonymous_table_has_no_name() -> None:
    assert read({"resolvedTable": resolved()}).name == "*anonymous*"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`a`.`b`.`c`", ("a", "b", "c")),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`.`c``d`.`e f`", ("a.b", "c`d", "e f")),
        ("`a`", None),
        ("a.b.c.d", None),
        ("a.b.", None),
        ("a..c", None),
        ("`a`b.c.d", None),
    ],
)
def test_identifiers(text: str, names: tuple[str, ...] | None) -> None:
    assert parse_identifier(text) == names


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        (5, "/x/table"),
        ({"identifier": "t", "resolvedTable": resolved()}, "/x/table/identifier"),
        ({"identifier": NAME, "resolvedTable": {}}, "/x/table/resolvedTable/schema"),
        (
            {"identifier": NAME, "resolvedTable": {"schema": {"columns": [{"name": "a"}]}}},
            "/x/table/resolvedTable/schema/columns/0/dataType",
        ),
        (
            {
                "identifier": NAME,
                "resolvedTable": {
                    "schema": {
                        "columns": [{"name": "a", "dataType": "INT"}],
                        "primaryKey": {"name": "PK", "type": "PRIMARY_KEY", "columns": ["b"]},
                    }
                },
            },
            "/x/table/resolvedTable/schema/primaryKey/columns",
        ),
    ],
)
def test_a_malformed_table_is_refused_with_its_place(reference: Any, path: str) -> None:
    with pytest.raises(PlanError) as refusal:
        read(reference)

    assert refusal.value.path == path


def test_a_computed_column_without_an_expression_is_refused() -> None:
    columns = [{"name": "b", "kind": "COMPUTED"}]

    with pytest.raises(InvalidProperty, match="expression is missing"):
        read({"identifier": NAME, "resolvedTable": {"schema": {"columns": columns}}})


def test_a_watermark_keeps_its_expression() -> None:
    schema = {
        "columns": [{"name": "ts", "dataType": "TIMESTAMP(3)"}],
        "watermarkSpecs": [
            {"rowtimeAttribute": "ts", "expression": {"rexNode": call("-", ref(0), ref(0))}}
        ],
    }

    (mark,) = read({"identifier": NAME, "resolvedTable": {"schema": schema}}).schema.watermarks

    assert (
        mark.expression.path == "/x/table/resolvedTable/schema/watermarkSpecs/0/expression/rexNode"
    )
