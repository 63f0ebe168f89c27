"""What the helper processes beside the driver do at their first calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc
from service.runtime.helpers import settle

counts = [gc.get_freeze_count()]
for role, kept in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
    extra = [[n] for n in range(1_000)]
    globals()[f"kept_{kept}"] = extra
    settle(role)
    counts.append(gc.get_freeze_count())
print(*counts)
"""


def test_what_is_there_at_the_first_two_calls_of_a_role_is_out_of_collections() -> None:
    # In a process of its own: what is frozen stays so.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )

    before, first, second, third, other = map(int, done.stdout.split())
    assert before == 0
    assert first > 1_000
    assert second >= first + 1_000
    assert third == second
    assert other >= second + 1_000


IMPORTS = """
import sys

import pytest
from service.runtime.sources.data_source import reader_class
from service.runtime.sources.spec import SourceSpec
from pyspark.sql.types import LongType, StructType

spec = SourceSpec("CONNECTOR", "t", "p", "redis://x", ("a",), ("BIGINT",), (("a", "BIGINT"),),
                  options={"format": "json", "path": "in"})
reader_class(spec.connector)(spec, StructType().add("a", LongType()))
print(*sys.modules, sep="\\n")
"""


@pytest.mark.parametrize("connector", ["filesystem", "ingress", "datagen", "ticks", "values"])
def test_making_a_reader_imports_nothing_that_only_reading_needs(connector: str) -> None:
    """Each start of a query has two processes make one, of which neither reads a row."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS.replace("CONNECTOR", connector)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    found = set(done.stdout.split())
    assert f"service.runtime.sources.{connector}" in found
    assert not {
        "service.plan",
        "state.codec",
        "state.epochs",
        "pyarrow.parquet",
        "pydantic",
        "sqlglot",
        "fastapi",
    }.intersection(found)
