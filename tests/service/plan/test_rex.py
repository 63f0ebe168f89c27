"""Expressions: every kind is read, places are kept, what is none is refused."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan.errors import InvalidExpression, InvalidType, PlanError
from service.plan.rex import (
    Bound,
    Call,
    CorrelVariable,
    FieldAccess,
    InputRef,
    Literal,
    PatternInputRef,
    SargLiteral,
    SargRange,
    SymbolLiteral,
    TableArgument,
    parse_rex,
    walk,
)
from state.types import TypeRoot, parse_type
from tests.service.plan.builders import call, literal, ref

INT = parse_type("INT")


def sarg(*ranges: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "LITERAL", "sarg": {"ranges": list(ranges)} | more, "type": "INT NOT NULL"}


def bound(value: Any, kind: str) -> dict[str, Any]:
    return {"value": value, "boundType": kind}


def test_a_call_keeps_name_version_syntax_and_places() -> None:
    rex = parse_rex(call("=", ref(2), literal(5)), "/nodes/1/condition")

    assert isinstance(rex, Call)
    assert (rex.name, rex.version, rex.origin, rex.syntax) == ("=", 1, "built-in", "BINARY")
    assert [part.path for part in walk(rex)] == [
        "/nodes/1/condition",
        "/nodes/1/condition/operands/0",
        "/nodes/1/condition/operands/1",
    ]


@pytest.mark.parametrize(
    ("function", "name", "version", "origin"),
    [
        ({"internalName": "$IS NOT NULL$1"}, "IS NOT NULL", 1, "built-in"),
        ({"internalName": "$$SCALAR_QUERY$1"}, "$SCALAR_QUERY", 1, "built-in"),
        ({"catalogName": "`c`.`d`.`f`"}, "`c`.`d`.`f`", None, "catalog"),
        ({"catalogName": "`c`.`d`.`f`", "class": "a.F"}, "`c`.`d`.`f`", None, "catalog"),
        ({"class": "a.F"}, "a.F", None, "class"),
        ({"systemName": "f"}, "f", None, "system"),
    ],
)
def test_the_function_of_a_call(
    function: dict[str, str], name: str, version: int | None, origin: str
) -> None:
    rex = parse_rex({"kind": "CALL", "operands": [], "type": "INT"} | function, "")

    assert isinstance(rex, Call)
    assert (rex.name, rex.version, rex.origin, rex.syntax) == (name, version, origin, "FUNCTION")


def test_a_call_without_operands_or_type_is_read() -> None:
    rex = parse_rex({"kind": "CALL", "internalName": "$PROCTIME$1"}, "")

    assert isinstance(rex, Call)
    assert (rex.operands, rex.type) == ((), None)


def test_a_search_argument_keeps_its_ranges() -> None:
    rex = parse_rex(
        sarg(
            {"upper": bound(0, "OPEN")},
            {"lower": bound(5, "CLOSED"), "upper": bound(7, "OPEN")},
            nullAs="TRUE",
        ),
        "/x",
    )

    assert rex == SargLiteral(
        (
            SargRange(None, Bound(0, is_inclusive=False)),
            SargRange(Bound(5, is_inclusive=True), Bound(7, is_inclusive=False)),
        ),
        "TRUE",
        parse_type("INT NOT NULL"),
        "/x",
    )


@pytest.mark.parametrize(
    ("more", "null_as"),
    [({"containsNull": True}, "TRUE"), ({"containsNull": False}, "UNKNOWN"), ({}, "UNKNOWN")],
)
def test_older_plans_say_whether_null_is_contained(more: dict[str, Any], null_as: str) -> None:
    rex = parse_rex(sarg({"lower": bound(1, "OPEN")}, **more), "")

    assert isinstance(rex, SargLiteral)
    assert rex.null_as == null_as


def test_the_other_kinds_are_read() -> None:
    symbol = {"kind": "LITERAL", "symbol": "TRIM", "value": "BOTH"}
    symbol["type"] = {"type": "SYMBOL", "nullable": False}
    argument = {"kind": "TABLE_ARG_CALL", "inputIndex": 0, "partitionKeys": [1], "type": "INT"}
    pattern = {"kind": "PATTERN_INPUT_REF", "alpha": "A", "inputIndex": 1, "type": "INT"}
    correl = {"kind": "CORREL_VARIABLE", "correl": "$cor0", "type": "ROW<`a` INT>"}
    access = {"kind": "FIELD_ACCESS", "name": "a", "expr": correl}

    assert parse_rex(ref(3), "") == InputRef(3, INT, "")
    assert parse_rex(literal(None, "INT"), "") == Literal(None, INT, "")
    assert isinstance(parse_rex(symbol, ""), SymbolLiteral)
    assert parse_rex(argument, "") == TableArgument(0, (1,), (), INT, "")
    assert parse_rex(pattern, "") == PatternInputRef("A", 1, INT, "")
    found = parse_rex(access, "/x")
    assert isinstance(found, FieldAccess)
    assert isinstance(found.expression, CorrelVariable)
    assert found.expression.path == "/x/expr"
    assert len(list(walk(found))) == 2


LITERALS = [
    (True, "BOOLEAN NOT NULL"),
    (9_223_372_036_854_775_807, "BIGINT NOT NULL"),
    ("12", "INT NOT NULL"),
    ("0.5", "DECIMAL(2, 1) NOT NULL"),
    ("1E-7", "DOUBLE NOT NULL"),
    ("any text", "CHAR(8) NOT NULL"),
    ("Cv8=", "BINARY(2) NOT NULL"),
    ("2020-02-29", "DATE NOT NULL"),
    ("13:14:15.678", "TIME(3) NOT NULL"),
    ("2020-02-29 13:14:15", "TIMESTAMP(0) NOT NULL"),
    ("2020-02-29 13:14:15.123456789", "TIMESTAMP_LTZ(9) NOT NULL"),
    ("259200000", "INTERVAL DAY(2) NOT NULL"),
    ("12", "INTERVAL YEAR(2) NOT NULL"),
]
NOT_LITERALS = [
    ("abc", "INT NOT NULL"),
    (True, "INT NOT NULL"),
    ("NaN", "DOUBLE NOT NULL"),
    ("2021-02-29", "DATE NOT NULL"),
    ("2020-2-9", "DATE NOT NULL"),
    (18_000, "DATE NOT NULL"),
    ("2020-02-29T13:14:15", "TIMESTAMP(0) NOT NULL"),
    ("24:00:00", "TIME(0) NOT NULL"),
    ("not base64!", "VARBINARY(9) NOT NULL"),
    ("1 day", "INTERVAL DAY(2) NOT NULL"),
    ({"a": 1}, "INT NOT NULL"),
]


@pytest.mark.parametrize(("value", "type_text"), LITERALS)
def test_a_literal_keeps_what_the_plan_writes(value: Any, type_text: str) -> None:
    assert parse_rex(literal(value, type_text), "") == Literal(value, parse_type(type_text), "")


@pytest.mark.parametrize(("value", "type_text"), NOT_LITERALS)
def test_a_value_of_another_type_is_refused(value: Any, type_text: str) -> None:
    with pytest.raises(InvalidExpression) as refusal:
        parse_rex(literal(value, type_text), "/x")

    assert refusal.value.path == "/x/value"


BROKEN = [
    ({"kind": "CALL", "internalName": "odd", "operands": []}, "/x/internalName"),
    ({"kind": "CALL", "syntax": "binary", "internalName": "$=$1"}, "/x/syntax"),
    (5, "/x"),
    ({}, "/x/kind"),
    ({"kind": "RANGE_REF"}, "/x/kind"),
    ({"kind": ["CALL"]}, "/x/kind"),
    ({"kind": "INPUT_REF", "type": "INT"}, "/x/inputIndex"),
    ({"kind": "INPUT_REF", "inputIndex": -1, "type": "INT"}, "/x/inputIndex"),
    ({"kind": "INPUT_REF", "inputIndex": 0}, "/x"),
    ({"kind": "LITERAL", "type": "INT"}, "/x"),
    ({"kind": "CALL", "operands": [], "type": "INT"}, "/x"),
    ({"kind": "CALL", "internalName": "$A$1", "operands": 5}, "/x/operands"),
    (call("=", ref(0), {"kind": "?"}), "/x/operands/1/kind"),
    (sarg({"lower": bound(1, "HALF")}), "/x/sarg/ranges/0/lower"),
    (sarg({"lower": bound(None, "OPEN")}), "/x/sarg/ranges/0/lower/value"),
    (sarg({"lower": bound("a", "OPEN")}), "/x/sarg/ranges/0/lower/value"),
    (sarg(nullAs="MAYBE"), "/x/sarg/nullAs"),
    ({"kind": "LITERAL", "sarg": {}, "type": "INT"}, "/x/sarg"),
    ({"kind": "FIELD_ACCESS", "name": "a", "expr": None}, "/x/expr"),
    (ref(0, "INTT"), "/x/type"),
]


@pytest.mark.parametrize(("value", "path"), BROKEN)
def test_what_is_no_expression_is_refused_with_its_place(value: Any, path: str) -> None:
    with pytest.raises(PlanError) as refusal:
        parse_rex(value, "/x")

    assert refusal.value.path == path
    assert isinstance(refusal.value, (InvalidExpression, InvalidType))


def test_walk_has_no_limit_of_depth() -> None:
    rex: Any = InputRef(0, INT, "")
    for _ in range(50_000):
        rex = FieldAccess("a", rex, "")

    assert sum(1 for _ in walk(rex)) == 50_001


def test_types_of_symbols_are_their_own() -> None:
    rex = parse_rex(
        {"kind": "LITERAL", "symbol": "TRIM", "value": "BOTH", "type": {"type": "SYMBOL"}}, ""
    )

    assert isinstance(rex, SymbolLiteral)
    assert rex.type.root is TypeRoot.SYMBOL
