"""One plan that most tests of dataflows run: changes of `s`, out of order, materialized by key."""

from __future__ import annotations

import random
from typing import Any

import orjson

from tests.integration.pipelines import PlanBuilder, change, ref

INPUT = {"id": "INT NOT NULL", "k": "VARCHAR(2147483647)", "v": "INT"}
OUTPUT = {"k": "VARCHAR(2147483647)", "v": "INT"}
PROJECTION = [ref(1, "VARCHAR(2147483647)"), ref(2, "INT")]


def materialize_plan(**source: str) -> dict[str, Any]:
    """Out-of-order changes of `s`, by key `k`, into files; as in the oracle plan 100."""
    plan = PlanBuilder()
    options = {"connector": "filesystem", "format": "changelog-json", "path": "in", **source}
    scan = plan.scan("s", INPUT, **options)
    calc = plan.calc(OUTPUT, scan, PROJECTION)
    plan.sink(
        "snk",
        OUTPUT,
        calc,
        key=["k"],
        materialize=True,
        connector="filesystem",
        format="changelog-json",
        path="out",
        changelog_mode="upsert",
    )
    return plan.document()


def random_changes(count: int, seed: int = 7) -> list[bytes]:
    """Inserts and retractions of live rows, over few keys so that rows cancel."""
    dice = random.Random(seed)
    live: list[tuple[int, str, int]] = []
    lines = []
    for number in range(count):
        if live and dice.random() < 0.45:
            row = live.pop(dice.randrange(len(live)))
            lines.append(change("-D", id=row[0], k=row[1], v=row[2]))
        else:
            row = (number, f"k{dice.randrange(6)}", dice.randrange(4))
            live.append(row)
            lines.append(change("+I", id=row[0], k=row[1], v=row[2]))
    return lines


def expected_table(lines: list[bytes]) -> dict[str, dict[str, Any]]:
    """The newest live row of each key, by the plain rule."""
    history: dict[str, list[int]] = {}
    shown: dict[str, dict[str, Any]] = {}
    for line in lines:
        found = orjson.loads(line)
        key, value = found["data"]["k"], found["data"]["v"]
        rows = history.setdefault(key, [])
        if found["op"] == "+I":
            rows.append(value)
        else:
            rows.remove(value)
        if rows:
            shown[key] = {"k": key, "v": rows[-1]}
        else:
            shown.pop(key, None)
    return shown
