"""What a plan says of metadata that a scan reads: it fits the table, and the rows above."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan import load_plan
from service.plan.errors import InvalidProperty
from service.plan.metadata import metadata_columns, readable_metadata
from service.plan.nodes import TableScan
from service.plan.properties import JsonObject
from service.plan.tables import parse_schema
from state.types import format_type
from tests.service.plan.builders import edited, recorded_plan

SCAN = "/nodes/0/scanTableSource"
COLUMNS = f"{SCAN}/table/resolvedTable/schema/columns"


def scan_of(document: dict[str, Any]) -> TableScan:
    view = load_plan(document).node(document["nodes"][0]["id"]).view
    assert isinstance(view, TableScan)
    return view


def test_a_scan_appends_what_it_reads_under_the_names_of_the_table() -> None:
    """`s` is declared INT: the plan casts what the source gives."""
    found = metadata_columns(scan_of(recorded_plan("170_metadata_projected")))

    assert [(each.name, each.metadata_key, format_type(each.type)) for each in found] == [
        ("p", "file.path", "VARCHAR(2147483647) NOT NULL"),
        ("s", "file.size", "BIGINT NOT NULL"),
        ("m", "file.modification-time", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
    ]
    assert metadata_columns(scan_of(recorded_plan("172_metadata_left_out"))) == []


@pytest.mark.parametrize(
    ("edits", "reason", "path"),
    [
        (
            [["set", f"{SCAN}/abilities/1/metadataKeys", ["file.path", "file.size", "at"]]],
            "no column of the table has the metadata key 'at'",
            f"{SCAN}/abilities/1/metadataKeys/2",
        ),
        (
            [["set", f"{SCAN}/abilities/1/metadataKeys", ["file.path"]]],
            "the scan gives 4 columns, and reads 1 physical columns and 1 metadata keys",
            f"{SCAN}/abilities/1/metadataKeys",
        ),
        (
            [["set", f"{SCAN}/abilities/0/projectedFields", [[0], [1]]]],
            "the scan gives 4 columns, and reads 2 physical columns and 3 metadata keys",
            f"{SCAN}/abilities/1/metadataKeys",
        ),
        (
            [
                [
                    "set",
                    f"{SCAN}/abilities/1/metadataKeys",
                    ["file.size", "file.path", "file.modification-time"],
                ]
            ],
            "metadata 'file.size' is BIGINT NOT NULL, and the scan gives VARCHAR",
            "/nodes/0/outputType",
        ),
    ],
)
def test_a_scan_whose_metadata_does_not_fit_is_refused(
    edits: list[list[Any]], reason: str, path: str
) -> None:
    document = edited(recorded_plan("170_metadata_projected"), edits)

    with pytest.raises(InvalidProperty, match=reason) as caught:
        load_plan(document)

    assert caught.value.path == path


@pytest.mark.parametrize("value", [None, "file.path", [["file.path"]], {"a": 1}])
def test_keys_are_a_list(value: Any) -> None:
    document = edited(
        recorded_plan("170_metadata_projected"),
        [["set", f"{SCAN}/abilities/1/metadataKeys", value]],
    )

    with pytest.raises(InvalidProperty):
        load_plan(document)


def test_a_column_without_a_key_is_known_by_its_name() -> None:
    columns = [
        {"name": "topic", "kind": "METADATA", "dataType": "INT", "isVirtual": False},
        {"name": "t", "kind": "METADATA", "dataType": "INT", "metadataKey": "topic"},
    ]

    schema = parse_schema(JsonObject({"columns": columns}, "/schema"))

    assert [each.metadata_key for each in schema.columns] == ["topic", "topic"]
    assert [each.is_persisted for each in schema.columns] == [True, True]


def test_keys_have_the_types_that_flink_documents() -> None:
    files = readable_metadata("filesystem")

    assert list(files) == ["file.path", "file.name", "file.size", "file.modification-time"]
    assert readable_metadata("datagen") == readable_metadata("") == {}
    assert not any(
        each.nullable for each in [*files.values(), *readable_metadata("kafka").values()]
    )
