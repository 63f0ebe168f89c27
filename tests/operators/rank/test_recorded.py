"""What Flink 2.3.0 of PyPI emits for the same input, recorded on its heap backend.

The queries are `ROW_NUMBER() OVER (PARTITION BY cat ORDER BY ...)` over `s (id, cat, p)`, with
`rn BETWEEN start AND end`, `rn` shown or not.
"""

from __future__ import annotations

import pytest

from operators.ordering import SortColumn
from operators.spec import InputSpec
from operators.testing.operator_harness import OperatorHarness
from state.types import parse_type
from tests.operators.rank.ranks import ASCENDING, changes, rank_spec

APPENDED = "+I 1 a 10; +I 2 a 20; +I 3 a 15; +I 5 a 20; +I 6 a 5; +I 8 a 30"
RETRACTED = """
    +I 1 a 10; +I 2 a 20; +I 3 a 15; -D 2 a 20; -U 1 a 10; +U 1 a 40; +I 5 a 12
    -U 3 a 15; -D 1 a 40; -D 5 a 12
"""
NULLS = "+I 1 a -; +I 2 a 5; +I 3 a -; +I 4 a 1; -D 2 a 5; -D 1 a -"
TIES = """
    +I 1 a 1; +I 2 a 1; +I 3 a 1; +I 2 a 1; -D 2 a 1; -D 1 a 1; -D 3 a 1; -D 2 a 1; -D 9 a 1
    +I 4 a 1
"""
NULLS_LAST = (SortColumn(column=2, nulls_last=True),)
NULLS_FIRST = (SortColumn(column=2, descending=True),)
TWO_COLUMNS = (SortColumn(column=2), SortColumn(column=0, descending=True, nulls_last=True))

CASES = {
    "append": (
        {"strategy": "append"},
        APPENDED,
        """
        +I 1 a 10; +I 2 a 20; -D 1 a 10; +I 3 a 15; -D 3 a 15; +I 5 a 20; -D 5 a 20; +I 8 a 30
        """,
    ),
    "append with number": (
        {"strategy": "append", "with_number": True},
        APPENDED,
        """
        +I 1 a 10 1; -U 1 a 10 1; +U 2 a 20 1; +I 1 a 10 2; -U 1 a 10 2; +U 3 a 15 2
        -U 3 a 15 2; +U 5 a 20 2; -U 2 a 20 1; +U 8 a 30 1; -U 5 a 20 2; +U 2 a 20 2
        """,
    ),
    "append, first only": (
        {"strategy": "append", "end": 1},
        APPENDED,
        "+I 1 a 10; -U 1 a 10; +U 2 a 20; -U 2 a 20; +U 8 a 30",
    ),
    "append, first only with number": (
        {"strategy": "append", "end": 1, "with_number": True},
        APPENDED,
        "+I 1 a 10 1; -U 1 a 10 1; +U 2 a 20 1; -U 2 a 20 1; +U 8 a 30 1",
    ),
    "append, ranks 2 to 3": (
        {"strategy": "append", "start": 2, "end": 3},
        APPENDED,
        """
        +I 1 a 10; -U 1 a 10; +U 3 a 15; +I 1 a 10; -U 3 a 15; +U 5 a 20; -U 1 a 10; +U 3 a 15
        -U 5 a 20; +U 2 a 20; -U 3 a 15; +U 5 a 20
        """,
    ),
    "append, ranks 2 to 3 with number": (
        {"strategy": "append", "start": 2, "end": 3, "with_number": True},
        APPENDED,
        """
        +I 1 a 10 2; -U 1 a 10 2; +U 3 a 15 2; +I 1 a 10 3; -U 3 a 15 2; +U 5 a 20 2
        -U 1 a 10 3; +U 3 a 15 3; -U 5 a 20 2; +U 2 a 20 2; -U 3 a 15 3; +U 5 a 20 3
        """,
    ),
    "retract": (
        {},
        RETRACTED,
        """
        +I 1 a 10; +I 2 a 20; -D 1 a 10; +I 3 a 15; -D 2 a 20; +I 1 a 10; -D 1 a 10; +I 1 a 40
        -D 3 a 15; +I 5 a 12; -D 1 a 40; -D 5 a 12
        """,
    ),
    "retract with number": (
        {"with_number": True},
        RETRACTED,
        """
        +I 1 a 10 1; -U 1 a 10 1; +U 2 a 20 1; +I 1 a 10 2; -U 1 a 10 2; +U 3 a 15 2
        -U 2 a 20 1; +U 3 a 15 1; -U 3 a 15 2; +U 1 a 10 2; -D 1 a 10 2
        -U 3 a 15 1; +U 1 a 40 1; +I 3 a 15 2; -U 3 a 15 2; +U 5 a 12 2
        -U 1 a 40 1; +U 5 a 12 1; -D 5 a 12 2; -D 5 a 12 1
        """,
    ),
    "retract, first only": (
        {"end": 1},
        RETRACTED,
        """
        +I 1 a 10; -D 1 a 10; +I 2 a 20; -D 2 a 20; +I 3 a 15; -D 3 a 15; +I 1 a 40
        -D 1 a 40; +I 5 a 12; -D 5 a 12
        """,
    ),
    "retract, ranks 2 to 3 with number": (
        {"start": 2, "end": 3, "with_number": True},
        RETRACTED,
        """
        +I 1 a 10 2; -U 1 a 10 2; +U 3 a 15 2; +I 1 a 10 3; -U 3 a 15 2; +U 1 a 10 2
        -D 1 a 10 3; -D 1 a 10 2; +I 3 a 15 2; +I 5 a 12 3; -U 3 a 15 2; +U 5 a 12 2
        -D 5 a 12 3; -D 5 a 12 2
        """,
    ),
    "equal sort keys": (
        {"order": ASCENDING},
        TIES,
        """
        +I 1 a 1; +I 2 a 1; -D 2 a 1; +I 3 a 1; -D 1 a 1; +I 2 a 1; -D 3 a 1; -D 2 a 1; +I 4 a 1
        """,
    ),
    "equal sort keys with number": (
        {"order": ASCENDING, "with_number": True},
        TIES,
        """
        +I 1 a 1 1; +I 2 a 1 2; -U 2 a 1 2; +U 3 a 1 2; -U 1 a 1 1; +U 3 a 1 1
        -U 3 a 1 2; +U 2 a 1 2; -U 3 a 1 1; +U 2 a 1 1; -D 2 a 1 2; -D 2 a 1 1; +I 4 a 1 1
        """,
    ),
    "nulls, p": (
        {"order": ASCENDING, "with_number": True},
        NULLS,
        """
        +I 1 a - 1; +I 2 a 5 2; -U 2 a 5 2; +U 3 a - 2; -U 1 a - 1; +U 3 a - 1
        -U 3 a - 2; +U 4 a 1 2
        """,
    ),
    "nulls, p DESC": (
        {"with_number": True},
        NULLS,
        """
        +I 1 a - 1; -U 1 a - 1; +U 2 a 5 1; +I 1 a - 2; -U 1 a - 2; +U 4 a 1 2; -U 2 a 5 1
        +U 4 a 1 1; -U 4 a 1 2; +U 1 a - 2; -U 1 a - 2; +U 3 a - 2
        """,
    ),
    "nulls, p NULLS LAST": (
        {"order": NULLS_LAST, "with_number": True},
        NULLS,
        """
        +I 1 a - 1; -U 1 a - 1; +U 2 a 5 1; +I 1 a - 2; -U 2 a 5 1; +U 4 a 1 1; -U 1 a - 2
        +U 2 a 5 2; -U 2 a 5 2; +U 1 a - 2; -U 1 a - 2; +U 3 a - 2
        """,
    ),
    "nulls, p DESC NULLS FIRST": (
        {"order": NULLS_FIRST, "with_number": True},
        NULLS,
        """
        +I 1 a - 1; +I 2 a 5 2; -U 2 a 5 2; +U 3 a - 2; -U 1 a - 1; +U 3 a - 1
        -U 3 a - 2; +U 4 a 1 2
        """,
    ),
    "p, id DESC": (
        {"order": TWO_COLUMNS, "with_number": True},
        NULLS,
        """
        +I 1 a - 1; +I 2 a 5 2; -U 1 a - 1; +U 3 a - 1; -U 2 a 5 2; +U 1 a - 2
        -U 1 a - 2; +U 4 a 1 2
        """,
    ),
    "limit, append": ({"strategy": "append", "order": (), "start": 2, "end": 3}, APPENDED,
        "+I 2 a 20; +I 3 a 15"),
    "limit, retract": (
        {"order": ()},
        RETRACTED,
        """
        +I 1 a 10; +I 2 a 20; -D 2 a 20; +I 3 a 15; -D 1 a 10; +I 1 a 40; -D 3 a 15; +I 5 a 12
        -D 1 a 40; -D 5 a 12
        """,
    ),
}  # fmt: skip  # a table: a case a line


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epoch_changes", [1, None])
def test_it_is_emitted(name: str, epoch_changes: int | None) -> None:
    fields, given, expected = CASES[name]
    harness = OperatorHarness.on_heap(rank_spec(**fields))
    assert harness.run(changes(given), epoch_changes=epoch_changes) == changes(expected)


COUNTED = """
    +I a 1 1; +I a 2 1; +I a 3 1; +I a 4 1; +U a 3 2; +U a 2 2; +U a 2 3; +U a 1 2; +U a 1 3
    +U a 1 4; +U a 4 2; +U a 4 3; +U a 4 4; +U a 4 5; +U a 4 6
"""
UPDATES = {
    "with number": (
        {"with_number": True, "end": 3},
        """
        +I a 1 1 1; +I a 2 1 2; +I a 3 1 3
        -U a 1 1 1; -U a 3 1 3; +U a 3 2 1; -U a 2 1 2; +U a 1 1 2; +U a 2 1 3
        -U a 1 1 2; -U a 2 1 3; +U a 2 2 2; +U a 1 1 3; -U a 3 2 1; -U a 2 2 2; +U a 2 3 1
        +U a 3 2 2; -U a 1 1 3; +U a 1 2 3; -U a 3 2 2; -U a 1 2 3; +U a 1 3 2; +U a 3 2 3
        -U a 2 3 1; -U a 1 3 2; +U a 1 4 1; +U a 2 3 2; -U a 3 2 3; +U a 4 3 3
        -U a 2 3 2; -U a 4 3 3; +U a 4 4 2; +U a 2 3 3; -U a 1 4 1; -U a 4 4 2; +U a 4 5 1
        +U a 1 4 2; -U a 4 5 1; +U a 4 6 1
        """,
    ),
    "without": (
        {"end": 3},
        """
        +I a 1 1; +I a 2 1; +I a 3 1; -U a 3 1; +U a 3 2; -U a 2 1; +U a 2 2; -U a 2 2; +U a 2 3
        -U a 1 1; +U a 1 2; -U a 1 2; +U a 1 3; -U a 1 3; +U a 1 4; -D a 3 2; +I a 4 3
        -U a 4 3; +U a 4 4; -U a 4 4; +U a 4 5; -U a 4 5; +U a 4 6
        """,
    ),
    "ranks 2 to 3": (
        {"start": 2, "end": 3},
        """
        +I a 2 1; +I a 3 1; -U a 3 1; -U a 2 1; +U a 1 1; +U a 2 1; -U a 1 1; -U a 2 1; +U a 2 2
        +U a 1 1; -U a 2 2; +U a 3 2; -U a 1 1; +U a 1 2; -U a 3 2; -U a 1 2; +U a 1 3; +U a 3 2
        -U a 1 3; +U a 2 3; -U a 3 2; +U a 4 3; -U a 2 3; -U a 4 3; +U a 4 4; +U a 2 3
        -U a 4 4; +U a 1 4
        """,
    ),
}  # fmt: skip  # a table: a case a line


@pytest.mark.parametrize("name", UPDATES)
def test_rows_that_rise_are_emitted(name: str) -> None:
    """Counts by id, as an aggregation updates them, ranked by count."""
    fields, expected = UPDATES[name]
    types = tuple(parse_type(each) for each in ("STRING", "INT", "BIGINT"))
    row = InputSpec(types=types, names=("cat", "id", "c"), key=(0,))
    number = (parse_type("BIGINT"),) if fields.get("with_number") else ()
    names = ("cat", "id", "c", *(("rn",) if number else ()))
    spec = rank_spec(
        "update",
        unique_key=(0, 1),
        inputs=(row,),
        output={"types": (*types, *number), "names": names},
        **fields,
    )
    for epoch_changes in (1, None):
        harness = OperatorHarness.on_heap(spec)
        given = changes(COUNTED)
        assert harness.run(given, epoch_changes=epoch_changes) == changes(expected)
