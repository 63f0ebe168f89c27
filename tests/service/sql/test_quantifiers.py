"""ANY, SOME and ALL: the rows are those that SQL's three values say."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pytest

from service.sql import SqlError, UnsupportedSql, ValidationError, compile_script
from tests.service.sql.test_marked_subqueries import LEFT, TABLES, opposite, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "<>": operator.ne,
    "=": operator.eq,
}
RIGHTS: list[list[int | None]] = [[1], [1, 1], [1, 9], [1, None], [9, 1, None], [None]]
"""What the subquery may give: one value, twice, several, with NULL, NULL alone."""


def any_of(value: Any, sign: str, others: Sequence[Any]) -> bool | None:
    """What a comparison with any of these values is."""
    found = [None if None in (value, each) else COMPARISONS[sign](value, each) for each in others]
    return True if True in found else None if None in found else False


def all_of(value: Any, sign: str, others: Sequence[Any]) -> bool | None:
    """What a comparison with all of these values is."""
    found = [None if None in (value, each) else COMPARISONS[sign](value, each) for each in others]
    return False if False in found else None if None in found else True


MEANINGS = {"ANY": any_of, "SOME": any_of, "ALL": all_of}


@pytest.mark.parametrize("right", RIGHTS, ids=str)
@pytest.mark.parametrize("quantifier", ["ANY", "ALL"])
@pytest.mark.parametrize("sign", COMPARISONS)
def test_a_query_is_compared_as_its_rows_are(
    sign: str, quantifier: str, right: list[int | None]
) -> None:
    rows = [{"k": "p", "y": each} for each in right]
    meanings = {row["id"]: MEANINGS[quantifier](row["x"], sign, right) for row in LEFT}
    asked = f"x {sign} {quantifier} (SELECT y FROM b)"

    assert rows_of(f"SELECT id, {asked} FROM a", rows) == list(meanings.items())
    for condition, wanted in (
        (asked, True),
        (f"NOT ({asked})", False),
        (f"({asked}) IS NULL", None),
        (f"id < 0 OR {asked}", True),
        (f"NOT (id < 0 OR {asked})", False),
    ):
        found = rows_of(f"SELECT id, TRUE FROM a WHERE {condition}", rows)
        assert [each for each, _ in found] == [
            each for each, meaning in meanings.items() if meaning is wanted
        ], condition


@pytest.mark.parametrize("quantifier", MEANINGS)
@pytest.mark.parametrize("sign", COMPARISONS)
def test_a_list_is_compared_as_its_values_are(sign: str, quantifier: str) -> None:
    for given in ([1], [9, 1], [1, None]):
        texts = ", ".join("CAST(NULL AS INT)" if each is None else str(each) for each in given)
        value = f"x {sign} {quantifier} ({texts})"
        wanted = [(row["id"], MEANINGS[quantifier](row["x"], sign, given)) for row in LEFT]

        assert rows_of(f"SELECT id, {value} FROM a", []) == wanted
        negated = [(each, opposite(meaning)) for each, meaning in wanted]
        assert rows_of(f"SELECT id, NOT {value} FROM a", []) == negated


@pytest.mark.parametrize(
    ("condition", "kind", "reason"),
    [
        ("x > ANY (SELECT y FROM b WHERE b.k = a.k)", UnsupportedSql, "correlated subquery of ANY"),
        ("(id, x) > ALL (SELECT y, y FROM b)", UnsupportedSql, "of rows of several columns"),
        ("x > ANY (SELECT k, y FROM b)", UnsupportedSql, "of rows of several columns"),
        ("k > ANY (SELECT y > 1 FROM b)", ValidationError, "the sides of ANY cannot be compared"),
        ("x + ANY (SELECT y FROM b) > 1", UnsupportedSql, "are supported on the right of"),
        ("x > ALL ()", ValidationError, "has no values"),
        ("ANY (SELECT y FROM b) > x", UnsupportedSql, "are supported on the right of"),
    ],
)
def test_what_is_refused_by_name(condition: str, kind: type[SqlError], reason: str) -> None:
    with pytest.raises(kind, match=reason) as caught:
        compile_script(f"{TABLES}INSERT INTO o SELECT id, TRUE FROM a WHERE {condition}")
    assert caught.value.position is not None


def test_any_of_a_query_in_a_join_is_refused_by_name() -> None:
    joined = "a JOIN b ON a.x > ANY (SELECT y FROM b)"
    with pytest.raises(UnsupportedSql, match="ANY"):
        compile_script(f"{TABLES}INSERT INTO o SELECT id, TRUE FROM {joined}")
