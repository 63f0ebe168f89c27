"""IN and EXISTS inside of expressions: the rows are those that SQL's three values say."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from service.plan import CompiledPlan, load_plan
from service.runtime.records import RunOptions
from service.settings import ExecutionSettings
from service.sql import UnsupportedSql, ValidationError, compile_script
from tests.oracles.plan_harness import Line, PlanHarness

WITH = "'connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'x.jsonl'"
TABLES = f"""
CREATE TABLE a (id INT, k STRING, x INT) WITH ({WITH}, 'changelog-mode' = 'I');
CREATE TABLE b (k STRING, y INT) WITH ({WITH}, 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE o (id INT, v BOOLEAN) WITH ({WITH}, 'changelog-mode' = 'retract');
"""
KEYS = ("p", "q", None)
LEFT = [
    {"id": at, "k": key, "x": x} for at, (key, x) in enumerate(product(KEYS, (1, 9, None)), start=1)
]
RIGHTS = [
    [],
    [{"k": "p", "y": 1}, {"k": "p", "y": 2}],
    [{"k": "q", "y": 1}, {"k": None, "y": 2}],
    [{"k": None, "y": 1}],
]
"""What the subquery may give: nothing, a key twice, a key and NULL, NULL alone."""


def is_in(row: dict[str, Any], right: list[dict[str, Any]]) -> bool | None:
    if any(row["k"] is not None and row["k"] == each["k"] for each in right):
        return True
    return None if right and (row["k"] is None or None in [e["k"] for e in right]) else False


def exists(row: dict[str, Any], right: list[dict[str, Any]]) -> bool:
    return is_in(row, right) is True


def above(row: dict[str, Any]) -> bool | None:
    return None if row["x"] is None else row["x"] > 3


def either(first: bool | None, second: bool | None) -> bool | None:
    if first or second:
        return True
    return None if None in (first, second) else False


def opposite(value: bool | None) -> bool | None:
    return None if value is None else not value


def both(first: bool | None, second: bool | None) -> bool | None:
    return opposite(either(opposite(first), opposite(second)))


def any_of(row: dict[str, Any], right: list[dict[str, Any]], meets: Any) -> bool:
    """Whether a row of the subquery meets a condition, which is not true where NULL takes part."""
    return any(
        meets(row, each) for each in right if None not in (row["k"], row["x"], each["k"], each["y"])
    )


IN, EXISTS = "k IN (SELECT k FROM b)", "EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"
CONDITIONS = {
    f"x > 3 OR {IN}": lambda row, right: either(above(row), is_in(row, right)),
    f"x > 3 OR NOT {IN}": lambda row, right: either(above(row), opposite(is_in(row, right))),
    "x > 3 OR k NOT IN (SELECT k FROM b)": lambda row, right: either(
        above(row), opposite(is_in(row, right))
    ),
    f"NOT (x > 3 AND {IN})": lambda row, right: opposite(both(above(row), is_in(row, right))),
    f"NOT (x > 3 OR {IN})": lambda row, right: opposite(either(above(row), is_in(row, right))),
    f"x > 3 OR ({IN}) IS TRUE": lambda row, right: either(above(row), is_in(row, right) is True),
    f"({IN}) IS NULL": lambda row, right: is_in(row, right) is None,
    f"({IN}) IS NOT FALSE": lambda row, right: is_in(row, right) is not False,
    f"x > 3 OR {EXISTS}": lambda row, right: either(above(row), exists(row, right)),
    "x > 3 OR k IN (SELECT k FROM b WHERE b.k = a.k)": lambda row, right: either(
        above(row), exists(row, right)
    ),
    f"x > 3 OR NOT {EXISTS}": lambda row, right: either(above(row), not exists(row, right)),
    f"NOT (x > 3 OR {EXISTS})": lambda row, right: opposite(either(above(row), exists(row, right))),
    "x > 3 OR EXISTS (SELECT 1 FROM b)": lambda row, right: either(above(row), bool(right)),
    "x < 3 OR EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y < a.x)": lambda row, right: either(
        opposite(above(row)), any_of(row, right, lambda a, b: a["k"] == b["k"] and b["y"] < a["x"])
    ),
    "x < 3 OR NOT EXISTS (SELECT 1 FROM b WHERE b.k <> a.k AND b.y + 1 <= a.x * 1)": (
        lambda row, right: either(
            opposite(above(row)),
            not any_of(row, right, lambda a, b: a["k"] != b["k"] and b["y"] + 1 <= a["x"]),
        )
    ),
    "x > 3 OR k IN (SELECT k FROM b WHERE b.y = a.x)": lambda row, right: either(
        above(row), any_of(row, right, lambda a, b: a["k"] == b["k"] and a["x"] == b["y"])
    ),
    "x > 3 OR COALESCE(k, 'q') NOT IN (SELECT COALESCE(k, 'q') FROM b WHERE b.y < a.x)": (
        lambda row, right: either(
            above(row),
            all(
                (row["k"] or "q") != (each["k"] or "q")
                for each in right
                if row["x"] is not None and each["y"] < row["x"]
            ),
        )
    ),
    f"x > 3 OR {IN} OR (x = 1 AND k = ANY (SELECT k FROM b))": lambda row, right: either(
        above(row), is_in(row, right)
    ),
    f"({IN} AND x > 3) OR (NOT {IN} AND x < 3)": lambda row, right: either(
        both(above(row), is_in(row, right)),
        both(opposite(above(row)), opposite(is_in(row, right))),
    ),
    f"CASE WHEN {IN} THEN x > 3 ELSE x < 3 END": lambda row, right: (
        above(row) if is_in(row, right) else opposite(above(row))
    ),
}


@cache
def plan_of(query: str) -> CompiledPlan:
    """Its plan, which is the same for all that the subquery may give."""
    return load_plan(compile_script(f"{TABLES}INSERT INTO o {query}")[-1].document)


def rows_of(query: str, right: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What is left of a query's changelog; rows of the subquery come last, and one goes again."""
    harness = PlanHarness(plan_of(query), RunOptions.of(ExecutionSettings()))
    gone = {"k": "q", "y": 7}
    lines = [Line(at, "a", {"op": "+I", "data": row}) for at, row in enumerate(LEFT)]
    lines += [
        Line(50 + at, "b", {"op": "+I", "data": row}) for at, row in enumerate([gone, *right])
    ]
    lines.append(Line(90, "b", {"op": "-D", "data": gone}))
    try:
        harness.run(lines)
        [found] = harness.collected.values()
    finally:
        harness.close()
    left: list[tuple[Any, ...]] = []
    for change in found:
        if change.kind.short in ("+I", "+U"):
            left.append(change.row)
        else:
            left.remove(change.row)
    return sorted(left)


@pytest.mark.parametrize("right", RIGHTS, ids=["nothing", "twice", "and NULL", "NULL"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_that_meet_a_condition(condition: str, right: list[dict[str, Any]]) -> None:
    wanted = [(row["id"], True) for row in LEFT if CONDITIONS[condition](row, right)]

    assert rows_of(f"SELECT id, TRUE FROM a WHERE {condition}", right) == wanted


@pytest.mark.parametrize("right", RIGHTS[1:], ids=["twice", "and NULL", "NULL"])
@pytest.mark.parametrize(
    ("value", "meaning"), [(IN, is_in), (EXISTS, exists)], ids=["IN", "EXISTS"]
)
def test_conditions_as_values(value: str, meaning: Any, right: list[dict[str, Any]]) -> None:
    wanted = [(row["id"], meaning(row, right)) for row in LEFT]

    assert rows_of(f"SELECT id, {value} FROM a", right) == wanted


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("x > 3 OR EXISTS (SELECT 1 FROM b WHERE b.k = a.k OR b.y > a.x)", "this correlated"),
        ("x > 3 OR k IN (SELECT k FROM b WHERE b.y < a.x)", "correlated subquery of IN inside"),
        ("x > 3 OR k NOT IN (SELECT k FROM b WHERE b.y = a.x)", "correlated subquery of IN inside"),
        ("(k IN (SELECT k FROM b WHERE b.y = a.x)) IS NULL", "correlated subquery of IN inside"),
        ("x > 3 OR (k, x) NOT IN (SELECT k, y FROM b)", "NOT IN, or IN as a value, of several"),
    ],
)
def test_what_is_refused_by_name(condition: str, reason: str) -> None:
    with pytest.raises(UnsupportedSql, match=reason) as caught:
        compile_script(f"{TABLES}INSERT INTO o SELECT id, TRUE FROM a WHERE {condition}")
    assert caught.value.position is not None
    assert caught.value.hint


def test_values_and_columns_must_fit() -> None:
    for condition in ("x > 3 OR k IN (SELECT k, y FROM b)", "x > 3 OR k IN (SELECT y > 1 FROM b)"):
        with pytest.raises(ValidationError, match="IN") as caught:
            compile_script(f"{TABLES}INSERT INTO o SELECT id, TRUE FROM a WHERE {condition}")
        assert caught.value.position is not None
