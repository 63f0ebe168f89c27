"""After every closed epoch all sinks of random pipelines hold what DuckDB gives of the prefix.

1,000 epochs; `make test-consistency` sets the variables below and runs 20,000 of other seeds.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.consistency.checks import Wrong, check, shrunk
from tests.consistency.generated import (
    Case,
    Operation,
    Relation,
    Restart,
    Source,
    Statement,
    drawn,
)

if TYPE_CHECKING:
    import redis

EPOCHS = int(os.environ.get("TAILRACE_TEST_EPOCHS", "1000"))
SEED = int(os.environ.get("TAILRACE_TEST_SEED", "27"))
OF_A_CASE = 25
"""Epochs; planning costs as much as ten of them."""
CHUNKS = 8
"""Tests, which may run side by side."""

ROWS = "SELECT id AS c0, g AS c1 FROM a"
COPY = Relation(ROWS, ROWS, ("INT", "INT"), (0,), changes=True)


@pytest.mark.timeout(max(300, EPOCHS))
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_epoch_is_one_prefix_for_all_sinks(chunk: int) -> None:
    cases = -(-EPOCHS // OF_A_CASE // CHUNKS)
    for number in range(cases):
        _holds(drawn(SEED * 100_000 + chunk * cases + number, epochs=OF_A_CASE))


@pytest.mark.parametrize("number", range(2))
def test_the_same_on_redis(number: int, redis_client: redis.Redis) -> None:
    _holds(drawn(SEED * 100_000 + 90_000 + number, epochs=10), redis_client)


def test_a_dozen_statements_over_five_tables() -> None:
    seeds = range(SEED * 100_000, SEED * 100_000 + 99_000)
    cases = (drawn(each, epochs=8, statements=12) for each in seeds)
    _holds(next(each for each in cases if len(each.sources) == 5 and len(each.statements) == 12))


def test_what_is_wrong_is_told_and_made_small() -> None:
    """The batch engine is asked something else here, which differs in one row."""
    wrong = replace(COPY, batch=f"{ROWS} WHERE id <> 3")
    epochs = tuple((Operation("a", (at, at, at, "x"), True),) for at in range(6))
    case = _case(Statement(COPY, (0,)), Statement(wrong, (0,)), epochs=epochs)

    with pytest.raises(Wrong, match=r"epoch 4, sink s1: too much \{\(3, 3\): 1\}, missing \{\}"):
        check(case)
    small, said = shrunk(case)

    assert small.statements == (Statement(wrong, (0,)),)
    assert small.epochs == ((Operation("a", (3, 3, 3, "x"), True),),)
    assert "too much {(3, 3): 1}" in said


def test_an_epoch_whose_first_attempt_died_counts_once() -> None:
    count = "SELECT g AS c0, COUNT(*) AS c1 FROM a GROUP BY g"
    counted = Statement(Relation(count, count, ("INT", "BIGINT"), (0,), changes=True), None)
    epochs = tuple((Operation("a", (at, 1, at, "x"), True),) for at in range(4))
    death = Restart(partitions=3, columns_from=1, ttl_ms=0, dies_at=1)

    assert check(_case(counted, epochs=epochs, restarts={2: death, 4: death})) == len(epochs)


def test_a_row_that_falls_out_of_the_first_ones() -> None:
    """The sink's key is the rows' own, but what a rank with its number sends is about places."""
    order = "ROW_NUMBER() OVER (ORDER BY v DESC, id) AS rn"
    first = f"SELECT id AS c0, v AS c1, rn AS c2 FROM (SELECT *, {order} FROM a) AS r WHERE rn <= 2"
    relation = Relation(first, first, ("INT", "BIGINT", "BIGINT"), (0,), changes=True)
    rows = [(1, 5), (2, 5), (3, 7), (4, 6), (3, 1), (1, 9), (4, 0)]
    operations = [Operation("a", (number, 1, value, "x"), True) for number, value in rows]
    operations.append(Operation("a", operations[5].row, False))

    for size in (1, 2, 4):
        cut = [tuple(operations[at : at + size]) for at in range(0, len(operations), size)]
        check(_case(Statement(relation, (0,)), epochs=tuple(cut)))


def _holds(case: Case, client: redis.Redis | None = None) -> None:
    try:
        check(case, client)
    except Exception:  # told with the smallest case that has one
        small, said = shrunk(case, client)
        pytest.fail(f"{said}\n{small.told()}", pytrace=False)


def _case(*statements: Statement, **changed: object) -> Case:
    case = Case(
        seed=1,
        sources=(Source("a", "I,UB,UA,D", "changelog-json", is_keyed=True),),
        settings={},
        strategy="ADAPTIVE",
        statements=statements,
        epochs=(),
    )
    return replace(case, **changed)  # type: ignore[arg-type]  # fields of a case
