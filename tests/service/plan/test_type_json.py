"""Types as plans hold them: SQL text and the object form."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan.errors import InvalidType
from service.plan.type_json import parse_type_json
from state.types import LogicalType, TypeRoot, format_type, parse_type

ROWTIME = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}
PROCTIME = {
    "type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    "nullable": False,
    "precision": 3,
    "kind": "PROCTIME",
}


def test_text_is_read_as_sql() -> None:
    assert parse_type_json("DECIMAL(10, 2) NOT NULL", "") == parse_type("DECIMAL(10, 2) NOT NULL")


def test_time_attributes_have_the_object_form() -> None:
    rowtime, proctime = parse_type_json(ROWTIME, ""), parse_type_json(PROCTIME, "")

    assert (rowtime.time_attribute, rowtime.nullable) == ("ROWTIME", True)
    assert (proctime.time_attribute, proctime.nullable) == ("PROCTIME", False)
    assert format_type(rowtime) == "TIMESTAMP(3)"


def test_a_row_with_a_time_attribute_inside() -> None:
    row = {
        "type": "ROW",
        "nullable": False,
        "fields": [{"name": "k", "fieldType": "INT"}, {"name": "ts", "fieldType": ROWTIME}],
    }

    found = parse_type_json(row, "")

    assert (found.field_names, found.nullable) == (("k", "ts"), False)
    assert found.children[1].time_attribute == "ROWTIME"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "ARRAY", "elementType": "INT"}, "ARRAY<INT>"),
        ({"type": "MULTISET", "elementType": "INT"}, "MULTISET<INT>"),
        ({"type": "MAP", "keyType": "INT", "valueType": "DATE"}, "MAP<INT, DATE>"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 6, "kind": "REGULAR"},
         "TIMESTAMP(6)"),
        ({"type": "DISTINCT_TYPE", "objectIdentifier": "`a`.`b`.`c`", "sourceType": "INT"}, "INT"),
        ({"type": "DISTINCT_TYPE", "nullable": False, "sourceType": "INT"}, "INT NOT NULL"),
    ],
)  # fmt: skip  # a table: a case a line
def test_containers_and_distinct_types(value: dict[str, Any], text: str) -> None:
    assert parse_type_json(value, "") == parse_type(text)


def test_types_without_text_are_known_by_their_root() -> None:
    empty = parse_type_json({"type": "CHAR", "nullable": False, "length": 0}, "")
    symbol = parse_type_json({"type": "SYMBOL", "nullable": False}, "")
    raw = parse_type_json({"type": "RAW", "class": "a.B", "specialSerializer": "NULL"}, "")
    structured = {
        "type": "STRUCTURED_TYPE",
        "implementationClass": "a.B",
        "attributes": [{"name": "x", "attributeType": "INT"}],
    }

    assert empty == LogicalType(TypeRoot.CHAR, nullable=False, length=0)
    assert symbol.root is TypeRoot.SYMBOL
    assert raw.arguments == ("a.B",)
    assert parse_type_json(structured, "").children == (parse_type("INT"),)
    assert parse_type_json({"type": "STRUCTURED_TYPE", "class": "a.B"}, "").root is (
        TypeRoot.UNRESOLVED
    )


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (None, "/t"),
        (5, "/t"),
        ("INTT", "/t"),
        ("ROW<`a` my_type>", "/t"),
        ("DECIMAL(50, 2)", "/t"),
        ({}, "/t/type"),
        ({"type": "INTEGER"}, "/t/type"),
        ({"type": "ROW", "fields": {}}, "/t/fields"),
        ({"type": "ROW", "fields": [{"fieldType": "INT"}]}, "/t/fields/0"),
        ({"type": "ROW", "fields": [{"name": "a", "fieldType": "?"}]}, "/t/fields/0/fieldType"),
        ({"type": "ARRAY"}, "/t/elementType"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "kind": "ROWTIME"}, "/t/precision"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "X"}, "/t/kind"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 30, "kind": "REGULAR"}, "/t"),
        ({"type": "ARRAY", "elementType": "INT", "nullable": 1}, "/t/nullable"),
    ],
)
def test_what_is_no_type_is_refused_with_its_place(value: Any, path: str) -> None:
    with pytest.raises(InvalidType) as refusal:
        parse_type_json(value, "/t")

    assert refusal.value.path == path
