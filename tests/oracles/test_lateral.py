"""LATERAL (SELECT ..) gives, for each row, what the subquery gives for that row alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import RowKind
from service.plan import load_plan
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = """
CREATE TABLE a (k STRING) WITH ('connector' = 'filesystem', 'path' = 'a',
    'format' = 'changelog-json', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE b (k STRING, y INT) WITH ('connector' = 'filesystem', 'path' = 'b',
    'format' = 'changelog-json', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE snk (k STRING, y BIGINT) WITH ('connector' = 'filesystem', 'path' = 'c',
    'format' = 'changelog-json', 'changelog-mode' = 'retract');
COMPILE PLAN 'plan.json' FOR
INSERT INTO snk SELECT k, CAST(l.y AS BIGINT) FROM {query};
"""
TOP = "(SELECT y FROM b WHERE b.k = a.k ORDER BY y DESC LIMIT 2) AS l"
CASES: list[tuple[str, Callable[[list[int]], list[int | None]]]] = [
    (f"a, LATERAL {TOP}", lambda found: [*found[:2]]),
    (f"a LEFT JOIN LATERAL {TOP} ON TRUE", lambda found: [*found[:2]] or [None]),
    (
        f"a LEFT JOIN LATERAL {TOP} ON l.y > 2",
        lambda found: [each for each in found[:2] if each > 2] or [None],
    ),
    (
        "a, LATERAL (SELECT y FROM b WHERE b.k = a.k ORDER BY y DESC LIMIT 1 OFFSET 1) AS l",
        lambda found: [*found[1:2]],
    ),
    (
        "a LEFT JOIN LATERAL (SELECT COUNT(*) AS y FROM b WHERE b.k = a.k) AS l ON TRUE",
        lambda found: [len(found)],
    ),
    (
        "a LEFT JOIN LATERAL (SELECT MAX(y) + 1 AS y FROM b WHERE b.k = a.k) AS l ON TRUE",
        lambda found: [max(found) + 1 if found else None],
    ),
    ("a, LATERAL (SELECT y FROM b WHERE b.k = a.k AND y > 1) AS l", lambda found: [
        each for each in found if each > 1
    ]),
]  # fmt: skip  # a query and what it means, side by side
KEYS = st.sampled_from(["x", "y", None])
CHANGES = st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 4)), max_size=14)


@pytest.mark.parametrize(("query", "meaning"), CASES)
@settings(max_examples=25)
@given(drawn=CHANGES)
def test_it_is_asked_of_each_row(
    query: str, meaning: Callable[[list[int]], list[int | None]], drawn: list[Any]
) -> None:
    """A row of b is there once: what is drawn again is taken back."""
    left: Counter[Any] = Counter()
    right: set[tuple[str | None, int]] = set()
    lines = []
    for at, (is_left, key, value) in enumerate(drawn):
        data: dict[str, Any] = {"k": key} if is_left else {"k": key, "y": value}
        kind = "+I"
        if is_left:
            kind = "-D" if left[key] and value > 2 else "+I"
            left[key] += 1 if kind == "+I" else -1
        else:
            kind = "-D" if (key, value) in right else "+I"
            right ^= {(key, value)}
        lines.append(Line(at * 10, "a" if is_left else "b", {"op": kind, "data": data}))
    plan = load_plan(compile_script(SCRIPT.format(query=query))[-1].document)

    harness = PlanHarness(plan, PipelineOptions().resolved(ExecutionSettings()))
    harness.run(lines)
    harness.close()

    (collected,) = harness.collected.values()
    found: Counter[Any] = Counter()
    for each in collected:
        found[each.row] += 1 if each.kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    wanted: Counter[Any] = Counter()
    for key, count in left.items():
        own = sorted((y for k, y in right if k == key and key is not None), reverse=True)
        for value in meaning(own):
            wanted[key, value] += count
    assert +found == +wanted
