"""A case is run and each of its epochs compared; what fails is made smaller."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from service.plan import load_plan
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.batch_sql import batch_answers
from tests.consistency.epochs import Died, Epochs
from tests.consistency.generated import BATCH_COLUMNS, Case, LiveTable, smaller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    import redis

    from operators.changelog import Row
    from service.plan import CompiledPlan
    from service.runtime.records import RunOptions

SHRINKS_MAX = 400
"""Smaller cases that are tried."""


class Wrong(AssertionError):
    """A sink's table is not what the batch engine gives."""


def planned(case: Case) -> CompiledPlan:
    """The plan of a case."""
    script = case.script().replace("EXECUTE STATEMENT SET", "COMPILE PLAN 'p' FOR STATEMENT SET")
    return load_plan(compile_script(script)[-1].document)


def check(case: Case, client: redis.Redis | None = None) -> int:
    """Run all epochs of a case; the number of comparisons.

    Raises:
        Wrong: After an epoch, a table differs; it says which, and how.
    """
    chance = random.Random(case.seed)
    live = {each.name: LiveTable(each) for each in case.sources}
    batch = _Batch(case, live)
    epochs = Epochs(planned(case), _options(case, 0), chance, client)
    try:
        for number, operations in enumerate(case.epochs, 1):
            lines: dict[str, list[object]] = {each: [] for each in live}
            for each in operations:
                lines[each.table] += live[each.table].apply(each)
            if (restart := case.restarts.get(number)) is not None:
                if restart.dies_at is not None:
                    with suppress(Died):  # as the case asks
                        epochs.run(lines, dies_at=restart.dies_at)
                if epochs.epoch < number:
                    epochs.restart(
                        _options(case, restart.ttl_ms),
                        partitions=restart.partitions,
                        columns_from=restart.columns_from,
                    )
            if epochs.epoch < number:
                epochs.run(lines)
            # A total of no rows is a row, from the first epoch on.
            changed = {name for name, each in lines.items() if each or number == 1}
            _compare(number, epochs, batch.answers(changed))
    finally:
        epochs.close()
    return len(case.epochs) * len(case.statements)


class _Batch:
    """What the batch engine gives of the tables as they are, asked anew where one has changed."""

    def __init__(self, case: Case, live: Mapping[str, LiveTable]) -> None:
        self._live = live
        self._queries = [each.batch for each in case.statements]
        self._reads = [
            frozenset(re.findall(r"\bFROM (\w+)", query)) & live.keys() for query in self._queries
        ]
        self._answers: list[Counter[Row]] = [Counter() for _ in self._queries]

    def answers(self, changed: Set[str]) -> list[Counter[Row]]:
        """The rows of each statement."""
        due = [at for at, reads in enumerate(self._reads) if reads & changed]
        tables = {name: (BATCH_COLUMNS, each.rows) for name, each in self._live.items()}
        asked = batch_answers([self._queries[at] for at in due], **tables) if due else []
        for at, rows in zip(due, asked, strict=True):
            self._answers[at] = Counter(rows)
        return self._answers


def _compare(number: int, epochs: Epochs, answers: Sequence[Counter[Row]]) -> None:
    for at, expected in enumerate(answers):
        found = epochs.tables[f"s{at}"].rows
        if found != expected:
            raise Wrong(
                f"epoch {number}, sink s{at}: too much {dict(found - expected)}, "
                f"missing {dict(expected - found)}"
            )


def _options(case: Case, ttl_ms: int) -> RunOptions:
    options = PipelineOptions(upsert_materialize_strategy=case.strategy, default_ttl_ms=ttl_ms)
    return options.resolved(ExecutionSettings())


def shrunk(case: Case, client: redis.Redis | None = None) -> tuple[Case, str]:
    """The smallest case that was found to be wrong, and how it is."""
    said = _wrong(case, client) or ""
    tried = 0
    found = True
    while found:
        found = False
        for each in smaller(case):
            tried += 1
            if tried > SHRINKS_MAX:
                return case, said
            if (answer := _wrong(each, client)) is not None:
                case, said, found = each, answer, True
                break
    return case, said


def _wrong(case: Case, client: redis.Redis | None) -> str | None:
    try:
        check(case, client)
    except Wrong as error:
        return str(error)
    except Exception as error:  # whatever it is, a smaller case may have it, too
        return f"{type(error).__name__}: {error}"
    return None
