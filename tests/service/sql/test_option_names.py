"""SET: what nothing here honours is refused by name, and what is honoured is in the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.sql import SqlError, compile_script
from service.sql.option_names import HONOURED, THRESHOLD_HIGH, THRESHOLD_LOW
from tests.service.sql.scripts import TABLES

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "table.exec.mini-batch.enabld",
            "true",
            "is not honoured .did you mean table.exec.mini-batch.enabled",
        ),
        ("table.optimizer.join-reorder-enabled", "true", "can only be 'false'"),
        ("pipeline.max-parallelism", "8", "is not honoured"),
        ("execution.runtime-mode", "batch", "can only be 'streaming'"),
        ("execution.savepoint.path", "/s", "is not honoured"),
        ("table.dml-sync", "true", "can only be 'false'"),
        ("table.sql-dialect", "hive", "can only be 'default'"),
        ("table.exec.emit.early-fire.enabled", "true", "can only be 'false'"),
        ("table.exec.emit.early-fire.delay", "1 s", "is not honoured: a window of GROUP BY comes"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused_with_its_place(
    name: str, value: str, reason: str
) -> None:
    with pytest.raises(SqlError, match=f"line 2, column 1: option {name} {reason}"):
        compile_script(f"{TABLES.splitlines()[0]}\nSET '{name}' = '{value}'")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("execution.runtime-mode", "STREAMING"),
        ("execution.checkpointing.interval", "10 s"),
        ("execution.buffer-timeout.interval", "10 ms"),
        ("parallelism.default", "4"),
        ("pipeline.object-reuse", "true"),
        ("pipeline.operator-chaining.enabled", "false"),
        ("restart-strategy.type", "fixed-delay"),
        ("sql-client.execution.result-mode", "tableau"),
        ("table.dml-sync", "false"),
        ("table.exec.async-lookup.buffer-capacity", "10"),
        ("table.exec.resource.default-parallelism", "4"),
        ("table.optimizer.join-reorder-enabled", "false"),
        ("table.sql-dialect", "DEFAULT"),
        ("my.own", "x"),
    ],
)
def test_what_is_so_anyway_or_a_users_own_may_be_set(name: str, value: str) -> None:
    assert compile_script(f"SET '{name}' = '{value}'") == []


def test_the_list_has_what_the_code_reads_and_nothing_else() -> None:
    code = "\n".join(
        path.read_text()
        for folder in ("service/sql", "service/api", "state/execution")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "option_names.py"
    )
    named = set(re.findall(r'"((?:table|execution)\.[a-z0-9.-]+[a-z0-9])"', code))

    assert named - HONOURED <= {"execution.async-state"}
    assert HONOURED - named == {THRESHOLD_HIGH, THRESHOLD_LOW, "pipeline.name"}
