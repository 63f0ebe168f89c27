"""A function of users in a pipeline: installed by pip, called by a plan that Flink wrote, posted
over HTTP, run by workers of Spark on Redis, looked into, stopped and gone on with."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.installed import importing
from tests.integration.system import System
from tests.oracles import RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.runtime.launcher import EmbeddedSpark

pytestmark = pytest.mark.timeout(600)

PLAN = RECORDED / "functions" / "H01_custom_window" / "plan.json"
"""`SELECT ... FROM CustomWindow(TABLE s PARTITION BY k, 'v', 10000, DESCRIPTOR(ts))`, by Flink."""
SIZE_MS = 10_000
DELAY_MS = 5_000
"""How far the watermark is behind the newest row: none is late."""
START = datetime(2020, 1, 1, tzinfo=UTC)
FLUSH_MS = 10_000_000
"""When a row comes that moves the watermark past all others."""

Row = tuple[str | None, int | None, int]
"""Key, amount, and the row's time in ms behind `START`."""


@pytest.fixture(scope="module")
def system(
    tmp_path_factory: pytest.TempPathFactory, spark_server: EmbeddedSpark, custom_window: Path
) -> Iterator[System]:
    settings = {
        "TAILRACE_EXECUTION__TICK_INTERVAL_MS": "200",
        "PYTHONPATH": importing(custom_window),
    }
    with System(tmp_path_factory.mktemp("functions"), spark_server, **settings) as running:
        yield running


def test_a_function_of_users_on_spark(system: System) -> None:
    rows = _rows(120)
    first, second = rows[:60], [*rows[60:], (None, None, FLUSH_MS)]
    options = {"rows_per_epoch_max": 25}
    _write(system, "a", first)
    system.post("/v1/pipelines", {"name": "w", "plan": _plan(), "options": options, "start": True})
    _wait(system, len(first))

    _see_states(system, first)

    system.post("/v1/pipelines/w/stop")
    system.wait_for("the stop", lambda: _state(system) == "STOPPED")
    _write(system, "b", second)
    system.post("/v1/pipelines/w/start")
    _wait(system, len(rows) + 1)
    system.wait_for("all totals", lambda: len(_found(system)) >= len(rows))
    assert sorted(_found(system), key=str) == sorted(_totals(rows), key=str)
    (newest,) = system.get("/v1/pipelines/w/progress", limit=1)["items"]
    assert newest["run"] > 1


def _see_states(system: System, rows: Sequence[Row]) -> None:
    """All that the function keeps of each key, once the timers that are due have fired."""
    (operator,) = system.get("/v1/pipelines/w/operators")["items"]
    assert operator["kind"] == "process-table-function"
    path = f"/v1/pipelines/w/operators/{operator['id']}"
    states = {each["name"]: each["kind"] for each in system.get(f"{path}/states")["items"]}
    assert states == {
        "amounts": "sorted_map",
        "event_timers": "timers",
        "processing_timers": "timers",
    }

    def shown() -> dict[str | None, tuple[list[Any], list[int]]]:
        found = {}
        for each in system.get(f"{path}/keys", limit=100)["items"]:
            answer = system.http.get(each["href"]).raise_for_status().json()
            items = {state["state"]: state["items"] for state in answer["states"]}
            amounts = [(item["key"][0], item["value"]) for item in items["amounts"]]
            found[each["key"][0]] = amounts, [item["value"] for item in items["event_timers"]]
        return found

    kept = _kept(rows)
    system.wait_for("timers that are due", lambda: shown() == kept)


def _kept(rows: Sequence[Row]) -> dict[str | None, tuple[list[Any], list[int]]]:
    """By key: the amounts that a later window may have, and the timers that wait, in order."""
    start_ms = round(START.timestamp() * 1_000)
    watermark_ms = max(at for _, _, at in rows) - DELAY_MS
    found = {}
    for key in {key for key, _, _ in rows}:
        mine = [(at, amount or 0) for k, amount, at in rows if k == key]
        in_window = sorted(
            (pair for pair in mine if pair[0] + SIZE_MS >= watermark_ms), key=lambda pair: pair[0]
        )
        due = {each for at, _ in mine for each in (at, at + SIZE_MS + 1) if each > watermark_ms}
        found[key] = (
            [(start_ms + at, amount) for at, amount in in_window],
            [start_ms + each for each in sorted(due)],
        )
    return found


def _rows(count: int) -> list[Row]:
    """Rows of three keys, out of order by less than the watermark's delay."""
    dice = random.Random("functions")
    now_ms = DELAY_MS
    found: list[Row] = []
    for _ in range(count):
        now_ms += dice.choice([0, 250, 1_000, 3_000])
        amount = dice.choice([None, -4, 1, 2, 7])
        found.append((dice.choice(["a", "b", None]), amount, now_ms - dice.randrange(DELAY_MS)))
    return found


def _totals(rows: Sequence[Row]) -> list[tuple[str | None, int, str]]:
    """For each row the sum over the time before it, by looking at all rows of its key."""
    return [
        (
            key,
            sum(v or 0 for k, v, at in rows if k == key and end - SIZE_MS <= at <= end),
            _text(end),
        )
        for key, _, end in rows
    ]


def _text(at_ms: int) -> str:
    text = (START + timedelta(milliseconds=at_ms)).isoformat(" ", "milliseconds").partition("+")[0]
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plan() -> dict[str, Any]:
    """Flink's own plan, with the options of its tables changed."""
    plan: dict[str, Any] = orjson.loads(PLAN.read_bytes())
    source = plan["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["options"]
    source |= {"path": "in", "source.monitor-interval": "100 ms"}
    plan["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]["options"]["path"] = "out"
    return plan


def _write(system: System, name: str, rows: Sequence[Row]) -> None:
    folder = system.files / "in"
    folder.mkdir(exist_ok=True)
    lines = [
        orjson.dumps({"op": "+I", "data": {"k": key, "v": amount, "ts": _text(at)}})
        for key, amount, at in rows
    ]
    # The source takes a file once it is there, so it comes whole.
    (folder / f".{name}").write_bytes(b"\n".join(lines) + b"\n")
    (folder / f".{name}").rename(folder / f"{name}.jsonl")


def _state(system: System) -> str:
    return str(system.get("/v1/pipelines/w")["status"]["state"])


def _wait(system: System, count: int) -> None:
    def rows_in() -> int:
        reply = system.http.get("/v1/pipelines/w/progress", params={"limit": 1})
        return int(reply.json()["totals"]["rows_in"]) if reply.is_success else 0

    system.wait_for(f"{count} rows", lambda: rows_in() >= count)


def _found(system: System) -> list[tuple[str | None, int, str]]:
    rows = [
        orjson.loads(line)["data"]
        for path in (system.files / "out").glob("part-*")
        for line in path.read_bytes().splitlines()
    ]
    return [(each["k"], each["total"], each["ts"]) for each in rows]
