"""IN and BETWEEN of numbers of several types: all of them are compared as they are written."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from operators.expressions import compile_predicate
from service.plan import load_plan
from service.sql import compile_script

SCRIPT = """
CREATE TABLE t ({} {}) WITH ('connector' = 'ingress', 'format' = 'changelog-json',
  'changelog-mode' = 'I');
CREATE TABLE snk (v {}) WITH ('connector' = 'filesystem', 'path' = 'b',
  'format' = 'changelog-json');
COMPILE PLAN 'p' FOR INSERT INTO snk SELECT v FROM t WHERE {};
"""


@pytest.mark.parametrize(
    ("kind", "condition", "inside", "outside"),
    [
        ("INT", "v BETWEEN 1 AND 2.5", 2, 3),
        ("INT", "v BETWEEN 1 AND 3000000000", 2_000_000_000, 0),
        ("BIGINT", "v BETWEEN 1 AND 3000000000", 3_000_000_000, 3_000_000_001),
        ("BIGINT", "v NOT IN (1, 3000000000)", 2, 3_000_000_000),
        ("DECIMAL(10, 2)", "v BETWEEN 1 AND 2.25", Decimal("2.25"), Decimal("2.26")),
        ("DECIMAL(10, 2)", "v IN (1.5, 20)", Decimal("20.00"), Decimal("20.50")),
        ("DOUBLE", "v BETWEEN 1 AND 2.5", 2.5, 2.75),
    ],
)
def test_every_end_counts(kind: str, condition: str, inside: Any, outside: Any) -> None:
    planned = compile_script(SCRIPT.format("v", kind, kind, condition))[-1]
    plan = load_plan(planned.document)
    (calc,) = [node.view for node in plan.nodes if node.type == "stream-exec-calc"]

    holds = compile_predicate(calc.condition, now_ms=lambda: 0)

    assert holds((inside,))
    assert not holds((outside,))
