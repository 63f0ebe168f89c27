"""No money is made or lost in any epoch, whatever the borders of epochs and the number of tasks."""

from __future__ import annotations

import random
from functools import cache

import pytest

from benchmarks.bank import QUESTIONS, changes, ring, script
from service.plan import CompiledPlan, load_plan
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.consistency.epochs import Epochs

ACCOUNTS = 7
EPOCHS = 25


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
@pytest.mark.parametrize("columns_from", [1, 64])
def test_money_stays(partitions: int, columns_from: int) -> None:
    chance = random.Random(partitions)
    options = PipelineOptions().resolved(ExecutionSettings())
    bank = Epochs(_plan(), options, chance, partitions=partitions, columns_from=columns_from)
    stream = changes(chance, ACCOUNTS, first=ACCOUNTS)

    bank.run({"transfers": ring(ACCOUNTS)})
    for _ in range(EPOCHS):
        _is_even(bank)
        # A request is never torn apart, and this may be as few as one change.
        lines = [line for _ in range(chance.choice((1, 2, 30))) for line in next(stream)]
        bank.run({"transfers": lines})
    _is_even(bank)


def _is_even(bank: Epochs) -> None:
    found = {name: dict(table.rows) for name, table in bank.tables.items()}
    assert found == {each: {(1, 0): 1} for each in QUESTIONS}, f"epoch {bank.epoch}"


@cache
def _plan() -> CompiledPlan:
    text = script(
        "'connector' = 'ingress', 'changelog-mode' = 'I,UB,UA,D'", "'connector' = 'redis'"
    )
    text = text.replace("EXECUTE STATEMENT SET", "COMPILE PLAN 'p' FOR STATEMENT SET")
    return load_plan(compile_script(text)[-1].document)
