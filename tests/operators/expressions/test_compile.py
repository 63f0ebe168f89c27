"""What is decided when an expression is compiled, and what a compiled one does at a row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from operators.errors import InvalidSpec, OperatorError
from operators.expressions import (
    EvaluationFailed,
    MalformedExpression,
    UnsupportedExpression,
    compile_predicate,
    compile_rex,
    rex_from_json,
    rex_to_json,
)
from operators.expressions.compiler import DEPTH_MAX, compile_inside
from operators.expressions.rex import CorrelVariable
from service.plan.rex import parse_rex
from state.types import parse_type

PATH = "/nodes/1/condition"


def ref(index: int, kind: str) -> dict[str, Any]:
    """An input reference."""
    return {"kind": "INPUT_REF", "inputIndex": index, "type": kind}


def lit(value: object, kind: str) -> dict[str, Any]:
    """A literal."""
    return {"kind": "LITERAL", "value": value, "type": kind}


def call(name: str, kind: str, *operands: dict[str, Any]) -> dict[str, Any]:
    """A call of a built-in."""
    internal = f"${name}$1"
    return {"kind": "CALL", "internalName": internal, "operands": list(operands), "type": kind}


def value(rex: dict[str, Any], *row: Any) -> Any:
    """The expression's value for a row."""
    return compile_rex(parse_rex(rex, PATH))(row)


B, C = ref(0, "BOOLEAN"), ref(1, "BOOLEAN")
S, I = ref(0, "STRING"), ref(0, "INT")  # noqa: E741 - as short as in the plans
UNIT = {
    "kind": "LITERAL",
    "symbol": "TIME_UNIT_RANGE",
    "value": "HOUR",
    "type": {"type": "SYMBOL", "nullable": False},
}
NULLS = {**UNIT, "symbol": "JSON_ON_NULL", "value": "NULL"}
TRUTH = (True, False, None)
DIVISION = call("/", "INT", lit(1, "INT NOT NULL"), ref(1, "INT"))


@pytest.mark.parametrize(
    ("rex", "function", "path", "words"),
    [
        # unknown functions are named with their place, also deep inside
        (call("UPPER", "STRING", call("PRINTF", "STRING", S, S)), "PRINTF", "/operands/0",
         "not known here"),
        # what would change on replay, or needs what is not there
        (call("RAND", "DOUBLE NOT NULL"), "RAND", "", "run again"),
        (call("NOW", "TIMESTAMP_LTZ(3) NOT NULL"), "NOW", "", "time of the epoch"),
        ({"kind": "CALL", "catalogName": "`c`.`d`.`f`", "operands": [I], "type": "INT"},
         "`c`.`d`.`f`", "", "only built-in"),
        ({"kind": "CALL", "internalName": "$ABS$2", "operands": [I], "type": "INT"}, "ABS", "",
         "not known here"),
        (call("ABS", "INT"), "ABS", "", "0 operands"),
        # Flink writes no JSON of these, and takes JSON() nowhere else
        (call("JSON_STRING", "STRING", ref(0, "DATE")), "JSON_STRING", "", "DATE is not written"),
        (call("JSON_STRING", "STRING", ref(0, "ARRAY<ROW<a TIME(3)>>")), "JSON_STRING", "",
         "TIME(3) is not written"),
        (call("JSON_STRING", "STRING", ref(0, "MAP<INT, INT>")), "JSON_STRING", "", "MAP<INT"),
        (call("JSON_OBJECT", "STRING NOT NULL", NULLS, S, I), "JSON_OBJECT", "", "may be NULL"),
        (call("JSON", "STRING", S), "JSON", "", "only be a value in JSON_OBJECT"),
        (call("UPPER", "STRING", call("JSON", "STRING", S)), "JSON", "/operands/0", "only be"),
        (call("JSON_OBJECT", "STRING NOT NULL", NULLS, call("JSON", "STRING NOT NULL", S), I),
         "JSON", "/operands/1", "only be a value"),
        (call("JSON_QUOTE", "STRING", I), "JSON_QUOTE", "", "INT"),
        # patterns must mean the same in Java and here
        (call("REGEXP", "BOOLEAN", S, lit(r"\R", "STRING NOT NULL")), "REGEXP", "", r"\R"),
        (call("LIKE", "BOOLEAN", S, lit("a!b", "CHAR(3)"), lit("!", "CHAR(1)")), "LIKE", "",
         "escape"),
        (call("SIMILAR TO", "BOOLEAN", S, lit("(a", "CHAR(2)")), "SIMILAR TO", "", "is none"),
        (call("SIMILAR TO", "BOOLEAN", S, lit("a]", "CHAR(2)")), "SIMILAR TO", "", "] without ["),
        (call("SIMILAR TO", "BOOLEAN", S, lit("(?i)a", "CHAR(5)")), "SIMILAR TO", "", "(?"),
        (call("SIMILAR TO", "BOOLEAN", S, lit("%*", "CHAR(2)")), "SIMILAR TO", "", "% is repeated"),
        (call("SIMILAR TO", "BOOLEAN", S, lit("a#b", "CHAR(3)"), lit("#", "CHAR(1)")),
         "SIMILAR TO", "", "escape character must stand before"),
        (call("EXTRACT", "BIGINT", UNIT, ref(0, "DATE")), "EXTRACT", "", "HOUR of DATE is not"),
        # types that rows cannot hold, casts that do not exist
        (ref(0, "TIMESTAMP(9)"), "INPUT_REF", "", "6 digits"),
        (call("CAST", "TIME(0)", ref(0, "TIMESTAMP(3)")), "CAST", "", "no conversion"),
        (call("=", "BOOLEAN", S, I), "=", "", "not compared"),
        (lit("1000", "INTERVAL SECOND(3) NOT NULL"), "a result", "", "cannot be stored"),
    ],
)  # fmt: skip  # a table: a case a line
def test_refusals_name_function_place_and_reason(
    rex: dict[str, Any], function: str, path: str, words: str
) -> None:
    with pytest.raises(UnsupportedExpression) as caught:
        compile_rex(parse_rex(rex, PATH))

    assert caught.value.code == "expression.unsupported"
    assert caught.value.function == function
    assert caught.value.path == PATH + path
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("rex", "words"),
    [
        (lit(300, "TINYINT NOT NULL"), "out of the range"),
        (call("CASE", "INT", B, I, B, I), "pairs"),
        ({"kind": "FIELD_ACCESS", "name": "z", "expr": ref(0, "ROW<`a` INT>")}, "no field 'z'"),
        (call("MAP", "MAP<INT, INT>", lit(1, "INT NOT NULL")), "pairs"),
        (call("JSON_OBJECT", "STRING NOT NULL", NULLS, lit("a", "CHAR(1) NOT NULL")), "pairs"),
        (call("JSON_ARRAY", "STRING NOT NULL", UNIT, I), "what becomes of NULL"),
    ],
)
def test_what_flink_cannot_have_written_is_malformed(rex: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedExpression, match=words):
        compile_rex(parse_rex(rex, PATH))


def test_a_reference_beyond_the_row_is_malformed() -> None:
    with pytest.raises(MalformedExpression, match="2 columns"):
        compile_rex(parse_rex(ref(2, "INT"), PATH), width=2)


def test_depth_is_refused_before_the_interpreter_ends_it() -> None:
    rex = I
    for _ in range(DEPTH_MAX - 1):
        rex = call("ABS", "INT", rex)

    assert value(rex, -3) == 3
    with pytest.raises(UnsupportedExpression, match="inside each other"):
        compile_rex(parse_rex(call("ABS", "INT", rex), PATH))


def test_a_condition_must_be_one() -> None:
    with pytest.raises(MalformedExpression, match="BOOLEAN"):
        compile_predicate(parse_rex(I, PATH))


# Three-valued logic


def both(a: bool | None, b: bool | None) -> bool | None:
    """AND by its definition: the lesser of the two, UNKNOWN between FALSE and TRUE."""
    return min((a, b), key=(False, None, True).index)


@pytest.mark.parametrize(("a", "b"), list(product(TRUTH, TRUTH)))
def test_logic_has_three_values(a: bool | None, b: bool | None) -> None:
    conjunction, disjunction = call("AND", "BOOLEAN", B, C), call("OR", "BOOLEAN", B, C)
    negation = call("NOT", "BOOLEAN", B)

    assert value(conjunction, a, b) is both(a, b)
    assert value(call("AND", "BOOLEAN", B, C, B), a, b) is both(a, b)
    assert value(negation, a) is (None if a is None else not a)
    # De Morgan
    nots = [call("NOT", "BOOLEAN", each) for each in (B, C)]
    assert value(disjunction, a, b) is value(
        call("NOT", "BOOLEAN", call("AND", "BOOLEAN", *nots)), a, b
    )


@pytest.mark.parametrize("condition", TRUTH)
def test_a_predicate_is_true_only_where_the_condition_is(condition: bool | None) -> None:
    assert compile_predicate(parse_rex(B, PATH))((condition,)) is (condition is True)
    constant = lit(condition, "BOOLEAN")
    assert compile_predicate(parse_rex(constant, PATH))(()) is (condition is True)


@pytest.mark.parametrize("condition", TRUTH)
def test_truth_tests_are_never_unknown(condition: bool | None) -> None:
    for expected, name in ((True, "TRUE"), (False, "FALSE")):
        found = value(call(f"IS {name}", "BOOLEAN NOT NULL", B), condition)
        assert found is (condition is expected)
        assert value(call(f"IS NOT {name}", "BOOLEAN NOT NULL", B), condition) is not found


def test_logic_and_case_do_not_look_where_flink_does_not() -> None:
    """The division by zero stands behind a FALSE, a TRUE or a branch that is not taken."""
    equal = call("=", "BOOLEAN", DIVISION, lit(1, "INT NOT NULL"))

    assert value(call("AND", "BOOLEAN", B, equal), False, 0) is False
    assert value(call("OR", "BOOLEAN", B, equal), True, 0) is True
    assert value(call("CASE", "INT", B, lit(7, "INT NOT NULL"), DIVISION), True, 0) == 7
    with pytest.raises(EvaluationFailed):
        value(call("AND", "BOOLEAN", B, equal), None, 0)


# At a row


def test_an_error_at_a_row_is_one_of_operators_and_names_no_value() -> None:
    run = compile_rex(parse_rex(call("CAST", "INT", S), PATH))

    with pytest.raises(OperatorError, match="a text is no INT") as caught:
        run(("my secret",))
    assert caught.value.code == "operator-expression"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("rex", "given"),
    [
        (call("JSON_ARRAY", "STRING NOT NULL", NULLS, call("JSON", "STRING", S)), "my secret"),
        (call("JSON_STRING", "STRING", ref(0, "MAP<STRING, INT>")), [(None, 1)]),
        (call("JSON_UNQUOTE", "STRING", S), '"my secret" \\u12"'),
    ],
)
def test_what_no_json_is_made_of_fails_at_a_row(rex: dict[str, Any], given: object) -> None:
    run = compile_rex(parse_rex(rex, PATH))

    assert run((None,)) in (None, "[null]")
    with pytest.raises(EvaluationFailed) as caught:
        run((given,))
    assert "secret" not in str(caught.value)


def test_what_fails_with_constants_fails_at_a_row_and_not_before() -> None:
    run = compile_rex(parse_rex(call("CAST", "INT", lit("x", "STRING NOT NULL")), PATH))

    with pytest.raises(EvaluationFailed):
        run(())


def test_constants_are_computed_once() -> None:
    one = lit(1, "INT NOT NULL")
    found = compile_inside(parse_rex(call("+", "INT", call("+", "INT", one, one), one), PATH))

    assert found.is_constant
    assert found.constant == 3


def test_the_time_of_the_epoch_is_asked_at_each_row() -> None:
    times = iter((1_500, 2_500))
    rex = parse_rex(call("NOW", "TIMESTAMP_LTZ(3) NOT NULL"), PATH)
    run = compile_rex(rex, now_ms=lambda: next(times))

    found = [run(()), run(())]

    assert found == [dt.datetime(1970, 1, 1, 0, 0, s, 500_000, tzinfo=dt.UTC) for s in (1, 2)]


@pytest.mark.parametrize("name", ["CURRENT_TIME", "LOCALTIME"])
def test_the_time_of_the_day_is_that_of_the_epoch_to_the_second(name: str) -> None:
    run = compile_rex(
        parse_rex(call(name, "TIME(0) NOT NULL"), PATH), now_ms=lambda: 86_400_000 + 3_723_999
    )

    assert run(()) == dt.time(1, 2, 3)


ELEMENTS = ("DOUBLE", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<x INT>")


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(
    "name",
    ["ARRAY_DISTINCT", "ARRAY_UNION", "ARRAY_INTERSECT", "ARRAY_EXCEPT", "ARRAY_SORT"],
)
def test_elements_that_are_not_equal_alike_are_not_compared(name: str, element: str) -> None:
    array = ref(0, f"ARRAY<{element}>")
    operands = [array] if name in ("ARRAY_DISTINCT", "ARRAY_SORT") else [array, array]

    with pytest.raises(UnsupportedExpression, match=name):
        compile_rex(parse_rex(call(name, f"ARRAY<{element}>", *operands), PATH))


@pytest.mark.parametrize("name", ["ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT"])
def test_truth_has_no_order(name: str) -> None:
    kind = "ARRAY<BOOLEAN>" if name == "ARRAY_SORT" else "BOOLEAN"

    with pytest.raises(UnsupportedExpression, match=name):
        compile_rex(parse_rex(call(name, kind, ref(0, "ARRAY<BOOLEAN>")), PATH))


MAP = ref(0, "MAP<STRING, INT>")


@pytest.mark.parametrize(
    ("rex", "expected"),
    [
        (call("MAP_KEYS", "ARRAY<STRING>", MAP), ["", "a", "b"]),
        (call("MAP_VALUES", "ARRAY<INT>", MAP), [3, 2, 1]),
        (
            call("MAP_ENTRIES", "ARRAY<ROW<`key` STRING, `value` INT>>", MAP),
            [("", 3), ("a", 2), ("b", 1)],
        ),
    ],
)
def test_what_is_in_a_map_comes_in_the_order_of_its_keys(rex: Any, expected: list[Any]) -> None:
    assert value(rex, [("b", 1), ("", 3), ("a", 2)]) == expected


@pytest.mark.parametrize(
    ("names", "values"), [(["a", None], [1, 2]), (["a", "a"], [1, 2]), (["a"], [1, 2])]
)
def test_a_map_has_no_key_twice_and_none_that_is_null(names: list[Any], values: list[Any]) -> None:
    rex = call("MAP_FROM_ARRAYS", "MAP<STRING, INT>", ref(0, "ARRAY<STRING>"), ref(1, "ARRAY<INT>"))

    with pytest.raises(EvaluationFailed, match="as many values as keys"):
        value(rex, names, values)


def test_a_year_that_rows_cannot_hold_ends_the_query() -> None:
    years = lit("12", "INTERVAL YEAR(2) NOT NULL")

    with pytest.raises(EvaluationFailed, match="9999"):
        value(call("+", "DATE", ref(0, "DATE"), years), dt.date(9999, 12, 31))


TIMES = {
    "DATE": (dt.date(2020, 2, 29), "2020-02-29"),
    "TIME(3)": (dt.time(13, 14, 15, 678_000), "13:14:15.678"),
    "TIMESTAMP(6)": (dt.datetime(2020, 2, 29, 13, 14, 15, 678_901), "2020-02-29 13:14:15.678901"),  # noqa: DTZ001 - it has no zone
    "TIMESTAMP_LTZ(6)": (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        "1969-12-31 23:59:59.999999",
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_come_in_and_go_out_as_rows_have_them(kind: str) -> None:
    time, text = TIMES[kind]
    hidden = call("COALESCE", kind, ref(0, kind))

    assert value(ref(0, kind), time) == time
    assert value(hidden, time) == time
    assert value(lit(text, f"{kind} NOT NULL")) == time
    # by all ways of comparing: columns, a column and a literal, anything
    for left, right in product((ref(0, kind), hidden, lit(text, kind)), repeat=2):
        assert value(call("=", "BOOLEAN", left, right), time) is True
        assert value(call("<", "BOOLEAN", left, right), time) is False


ROW = "ROW<`x` INT, `d` DATE>"
DAY = dt.date(2020, 2, 29)
NESTED = [
    (call("ARRAY", "ARRAY<BIGINT>", ref(0, "INT"), lit(None, "INT")), [7, None]),
    (call("ARRAY", "ARRAY<DATE>", lit("2020-02-29", "DATE NOT NULL")), [DAY]),
    (call("ROW", "ROW<`a` INT, `b` STRING>", ref(0, "INT"), ref(1, "STRING")), (7, "seven")),
    ({"kind": "FIELD_ACCESS", "name": "d", "expr": ref(2, ROW)}, DAY),
    (call("EXTRACT", "BIGINT",
          {"kind": "LITERAL", "symbol": "TIME_UNIT_RANGE", "value": "YEAR",
           "type": {"type": "SYMBOL", "nullable": False}},
          {"kind": "FIELD_ACCESS", "name": "d", "expr": ref(2, ROW)}), 2020),
    # elements count from 1; beyond the end there is NULL
    (call("ITEM", "INT", ref(3, "ARRAY<INT>"), lit(2, "INT NOT NULL")), 20),
    (call("ITEM", "INT", ref(3, "ARRAY<INT>"), lit(9, "INT NOT NULL")), None),
    (call("ITEM", "INT", ref(3, "ARRAY<INT>"), lit(0, "INT NOT NULL")), None),
    # a key that is not there gives NULL
    (call("ITEM", "DATE", ref(4, "MAP<STRING, DATE>"), lit("a", "CHAR(1) NOT NULL")), DAY),
    (call("ITEM", "DATE", ref(4, "MAP<STRING, DATE>"), lit("z", "CHAR(1) NOT NULL")), None),
    (call("CARDINALITY", "INT", ref(3, "ARRAY<INT>")), 3),
    (call("MAP", "MAP<STRING, INT>", lit("k", "STRING NOT NULL"), ref(0, "INT")), [("k", 7)]),
    # an element that is NULL does not make the answer NULL
    (call("ARRAY_CONTAINS", "BOOLEAN", ref(3, "ARRAY<INT>"), lit(5, "INT NOT NULL")), False),
    (lit("Cv8=", "BINARY(2) NOT NULL"), b"\x0a\xff"),
    (lit(None, "ROW<`x` INT>"), None),
    # the calls that the planner rewrites away in its own plans
    (call("IS DISTINCT FROM", "BOOLEAN NOT NULL", ref(0, "INT"), lit(None, "INT")), True),
    (call("BETWEEN", "BOOLEAN", ref(0, "INT"), lit(1, "INT"), lit(7, "INT")), True),
    (call("IN", "BOOLEAN", ref(0, "INT"), lit(1, "INT"), lit(7, "INT")), True),
    (call("NULLIF", "INT", ref(0, "INT"), lit(7, "INT")), None),
    # a DECIMAL has the digits of its declared scale
    (call("+", "DECIMAL(12, 2)", ref(0, "INT"), lit("1.50", "DECIMAL(3, 2) NOT NULL")),
     Decimal("8.50")),
]  # fmt: skip  # a table: a case a line


@pytest.mark.parametrize(("rex", "expected"), NESTED)
def test_nested_values_and_rewritten_calls(rex: dict[str, Any], expected: Any) -> None:
    found = value(rex, 7, "seven", (1, DAY), [10, 20, None], [("a", DAY)])

    assert str(found) == str(expected)
    assert found == expected


LONG = 200_000
INTS = ref(0, "ARRAY<INT>")
LENGTHY = [
    # Python makes no numbers of so many digits
    (call("INET_ATON", "BIGINT", ref(0, "STRING")), "9" * LONG, None),
    (call("INET_ATON", "BIGINT", ref(0, "STRING")), "0" * LONG + "1.2", 16_777_218),
    (call("IS_DECIMAL", "BOOLEAN NOT NULL", ref(0, "STRING")), "\u0663" * LONG, False),
    (call("IS_DECIMAL", "BOOLEAN NOT NULL", ref(0, "STRING")), "-" + "\u0660" * LONG, True),
    # what takes time by the square of the length does not end here
    (call("IS_DECIMAL", "BOOLEAN NOT NULL", ref(0, "STRING")), "1" * LONG + "x", False),
    (call("CARDINALITY", "INT", call("ARRAY_INTERSECT", "ARRAY<INT>", INTS, INTS)),
     [*range(LONG), None], LONG + 1),
    (call("CARDINALITY", "INT", call("ARRAY_EXCEPT", "ARRAY<INT>", INTS, INTS)),
     [*range(LONG), None], 0),
]  # fmt: skip  # a table: a case a line


@pytest.mark.parametrize(("rex", "given", "expected"), LENGTHY)
def test_long_texts_and_arrays(rex: dict[str, Any], given: Any, expected: Any) -> None:
    assert value(rex, given) == expected


@pytest.mark.parametrize(("digits", "expected"), [
    ("9223372036854775807", True), ("-9223372036854775808", True), ("-9223372036854775809", False),
    ("+09223372036854775808", False), ("0" * 30 + "7", True), ("+", False), ("1" + "0" * 19, False),
])  # fmt: skip  # a table: a case a line
def test_digits_of_any_script_are_a_decimal_as_far_as_a_bigint(digits: str, expected: bool) -> None:
    arabic = digits.translate({ord("0") + at: 0x660 + at for at in range(10)})

    assert value(call("IS_DECIMAL", "BOOLEAN NOT NULL", ref(0, "STRING")), arabic) is expected


# In a spec


def test_a_spec_that_holds_something_else_is_invalid() -> None:
    for found in (None, [], ["what"], ["ref", 1], ["ref", 0, {"root": "NONE"}, ""], {"a": 1}):
        with pytest.raises(InvalidSpec):
            rex_from_json(found)


def test_what_no_operator_evaluates_has_no_form_in_a_spec() -> None:
    with pytest.raises(UnsupportedExpression, match="CorrelVariable"):
        rex_to_json(CorrelVariable("$cor0", parse_type("INT"), PATH))


def test_types_that_no_text_can_say_travel_in_a_spec() -> None:
    rowtime = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}
    empty = {"type": "CHAR", "length": 0, "nullable": False}
    for rex in (
        {"kind": "INPUT_REF", "inputIndex": 0, "type": rowtime},
        {"kind": "LITERAL", "value": "", "type": empty},
        lit(None, "ROW<`a` ARRAY<INT NOT NULL>, `b` MAP<STRING, DECIMAL(5, 2)>>"),
    ):
        tree = parse_rex(rex, PATH)
        assert rex_from_json(rex_to_json(tree)) == tree
