"""Joins, aggregates, ranks and windows over HTTP, in their own words, on state they made."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from operators.testing.operator_harness import Of, OperatorHarness, delete, insert
from operators.wire import WATERMARKS
from service.plan import load_plan
from service.runtime.operators import stateful_nodes
from service.runtime.records import PipelineOptions
from service.runtime.sinks.commit import record_effects
from state.backends.interface import EpochStamp
from state.epochs import EpochLedger
from tests.service.api.test_pipelines import PATH
from tests.service.api.test_sql import COMPILE
from tests.service.prepared import MAX_PARALLELISM
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from operators.spec import OperatorSpec
    from tests.service.app_client import AppClient

TABLES = """
CREATE TABLE flights (id INT NOT NULL, tail STRING, delay INT, at TIMESTAMP(3),
    WATERMARK FOR at AS at, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE calls (tail STRING, delay INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
  WITH ('connector' = 'filesystem', 'path' = 'calls', 'format' = 'json');
CREATE TABLE planes (tail STRING NOT NULL, model STRING, PRIMARY KEY (tail) NOT ENFORCED)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json');
"""
PRINT = "WITH ('connector' = 'print')"
JOIN = f"""{TABLES}
CREATE TABLE out (id INT, tail STRING, model STRING) {PRINT};
INSERT INTO out SELECT f.id, f.tail, p.model FROM flights f LEFT JOIN planes p ON f.tail = p.tail
"""
AGGREGATE = f"""{TABLES}
CREATE TABLE out (tail STRING, n BIGINT, most INT, d BIGINT) {PRINT};
INSERT INTO out SELECT tail, COUNT(*), MAX(delay), COUNT(DISTINCT delay) FROM flights GROUP BY tail
"""
TOTAL = f"""{TABLES}
CREATE TABLE out (n BIGINT) {PRINT};
INSERT INTO out SELECT COUNT(*) FROM flights
"""
RANK = f"""{TABLES}
CREATE TABLE out (id INT, tail STRING, delay INT, n BIGINT) {PRINT};
INSERT INTO out SELECT id, tail, delay, n FROM (SELECT id, tail, delay,
    ROW_NUMBER() OVER (PARTITION BY tail ORDER BY delay DESC) AS n FROM flights) WHERE n <= 2
"""
WINDOW = f"""{TABLES}
CREATE TABLE out (tail STRING, n BIGINT, ends TIMESTAMP(3)) {PRINT};
INSERT INTO out SELECT tail, COUNT(*), window_end
FROM TABLE(TUMBLE(TABLE calls, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY tail, window_start, window_end
"""
TEMPORAL = f"""{TABLES}
CREATE TABLE models (tail STRING NOT NULL, model STRING, at TIMESTAMP(3), WATERMARK FOR at AS at,
    PRIMARY KEY (tail) NOT ENFORCED) WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE out (tail STRING, model STRING) {PRINT};
INSERT INTO out SELECT c.tail, m.model
FROM calls c JOIN models FOR SYSTEM_TIME AS OF c.at AS m ON c.tail = m.tail
"""


class Run:
    """A pipeline whose one operator of a kind a test runs by hand."""

    def __init__(
        self,
        app: AppClient,
        client: redis.Redis,
        sql: str,
        kind: str,
        name: str = "p",
        **options: Any,
    ) -> None:
        plan = app.post(COMPILE, {"sql": sql}).json()
        in_force = PipelineOptions(max_parallelism=MAX_PARALLELISM).resolved(app.settings.execution)
        found = stateful_nodes(load_plan(plan), in_force)
        (info,) = [each for each in found if kind in each.id]
        spec: Any = info.spec
        self.spec: OperatorSpec = spec
        self.harness = OperatorHarness.on_redis(
            spec, client, pipeline=name, node=info.id, max_parallelism=MAX_PARALLELISM, **options
        )
        self.node = info.id
        body = {"name": name, "plan": plan, "options": {"max_parallelism": MAX_PARALLELISM}}
        made = app.post(PATH, body)
        assert made.status_code == 201, made.text
        self.path = f"{PATH}/{name}/operators/{info.id}"
        self._app = app

    def row(self, number: int, **values: Any) -> tuple[Any, ...]:
        """A row of an input by the names of its columns; null where none is given."""
        return tuple(values.get(name) for name in self.spec.inputs[number].names)

    def states(self, key: str, **query: Any) -> dict[str, Any]:
        """What the key shows, by state."""
        answer = self._app.json(f"{self.path}/keys/{key}", params=query)
        return {each["state"]: each for each in answer["states"]}


@pytest.fixture
def run(app: AppClient, redis_client: redis.Redis) -> Iterator[Any]:
    made: list[Run] = []

    def make(sql: str, kind: str, **options: Any) -> Run:
        made.append(Run(app, redis_client, sql, kind, **options))
        return made[-1]

    yield make
    for each in made:
        each.harness.close()


def plain(items: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(each["key"], each["value"]) for each in items]


def test_what_the_controller_did_is_shown_by_operator_and_in_metrics(
    app: AppClient, run: Any, redis_client: redis.Redis
) -> None:
    join = run(JOIN, "_join", prefetches=False)
    flights = [join.row(0, id=each, tail=tail) for each, tail in enumerate(["N1", "N2", "N1"])]
    join.harness.run([insert(*each) for each in flights])
    statistics = join.harness.statistics[-1]
    ledger = EpochLedger(redis_client, "p")
    stamp = EpochStamp(ledger.marker().epoch + 1, ledger.open_run([join.node], MAX_PARALLELISM), 1)
    sums = {"rows_in": 3, "rows_out": 3, "dead": 0, "time_ms": 1, "offsets": {}}
    record = {"epoch": stamp.epoch, "run": stamp.run, "nodes": {join.node: statistics}, **sums}
    ledger.close_epoch(stamp, {}, record_effects(record, progress_max=10))

    shown, text = app.json(join.path)["last_epoch"], app.get("/metrics").text

    expected = {"in_flight_peak": 3, "blocking_peak": 1, "blocking_keys_peak": 1, "active_peak": 2}
    assert {name: shown[name] for name in expected} == expected
    for name, value in expected.items():
        assert f'operator_{name}{{operator="{join.node}",pipeline="p"}} {value}.0' in text
    for name in ("batches", "requests", "cache_hits"):
        label = name if name == "cache_hits" else f"state_{name}"
        assert (
            f'operator_{label}_total{{operator="{join.node}",pipeline="p"}} {shown[name]}' in text
        )
    assert shown["requests"] > shown["batches"] > 0


def test_a_join_shows_both_sides(app: AppClient, run: Any) -> None:
    join = run(JOIN, "_join")
    flight = [join.row(0, id=each, tail="N1") for each in (1, 2)]
    plane = join.row(1, tail="N1", model="A320")
    lonely = join.row(1, tail="N9", model="B747")
    join.harness.run_epoch(
        [*(Of(0, insert(*each)) for each in flight), Of(1, insert(*plane)), Of(1, insert(*lonely))]
    )

    states = join.states("N1")

    assert list(states) == ["leftState", "rightState"]
    (right,) = states["rightState"]["items"]
    assert right["value"] == {"tail": "N1", "model": "A320"}
    assert [each["value"]["row"]["id"] for each in states["leftState"]["items"]] == [1, 2]
    assert [each["value"]["associations"] for each in states["leftState"]["items"]] == [1, 1]
    assert list(join.states("N9")) == ["rightState"]
    operator = app.json(join.path)
    assert [[c["name"] for c in each["key_columns"]] for each in operator["inputs"]] == [
        ["tail"],
        ["tail"],
    ]
    assert [each["name"] for each in operator["inputs"][1]["columns"]] == ["tail", "model"]
    keys = app.json(f"{join.path}/keys")["items"]
    assert sorted(each["key"] for each in keys) == [["N1"], ["N9"]]
    assert [app.json(each["href"])["key"] for each in keys] == [each["key"] for each in keys]


def test_an_orphan_says_by_which_input_it_came(app: AppClient, run: Any) -> None:
    join = run(JOIN, "_join")
    gone = join.row(1, tail="N1", model="A320")
    join.harness.run_epoch([Of(0, delete(*join.row(0, id=7, tail="N1"))), Of(1, delete(*gone))])

    page = app.json(f"{join.path}/orphans")

    assert page["count"] == 2
    assert {each["input"]: each["row"].get("id") for each in page["items"]} == {0: 7, 1: None}
    assert page["items"][1]["row"] == {"tail": "N1", "model": "A320"}


def test_an_aggregate_shows_its_accumulators(app: AppClient, run: Any) -> None:
    aggregate = run(AGGREGATE, "group-aggregate")
    rows = [aggregate.row(0, tail="N1", delay=each) for each in (5, 9, 9)]
    aggregate.harness.run_epoch([Of(0, insert(*each)) for each in rows])
    aggregate.harness.run_epoch([Of(0, delete(*rows[2]))])

    states = aggregate.states("N1")

    (accumulators,) = states["groupAggregateState"]["items"]
    assert accumulators["value"] == {"rows": 2, "EXPR$1": 2, "EXPR$2": [9, 2], "EXPR$3": 2}
    assert plain(states["groupAggregateState_values_1"]["items"]) == [([5], 1), ([9], 1)]
    distinct = states["groupAggregateState_distinct_0"]["items"]
    assert plain(distinct) == [([5], {"EXPR$3": 1}), ([9], {"EXPR$3": 1})]
    assert_problem(app.get(f"{aggregate.path}/keys/N2"), 404, "key-not-found")
    assert_problem(app.get(f"{aggregate.path}/keys/N1/history"), 404, "state-not-found")


def test_an_operator_without_a_key_has_one_key(app: AppClient, run: Any) -> None:
    total = run(TOTAL, "group-aggregate")
    total.harness.run_epoch([Of(0, insert(*total.row(0)))] * 3)

    (key,) = app.json(f"{total.path}/keys")["items"]

    assert key["key"] == []
    (state,) = app.json(key["href"])["states"]
    assert state["items"][0]["value"]["rows"] == 3
    assert app.json(state["href"])["items"] == state["items"]
    assert app.json(f"{total.path}/keys", params={"prefix": "x"})["items"] == []


def test_a_rank_shows_its_buffer_in_order(app: AppClient, run: Any) -> None:
    rank = run(RANK, "rank")
    rows = [rank.row(0, id=at, tail="N1", delay=each) for at, each in enumerate((5, None, 30, 20))]
    rank.harness.run_epoch([Of(0, insert(*each)) for each in rows])

    buffer = rank.states("N1")["rows"]

    assert [each["rank"] for each in buffer["items"]] == [1, 2, 3, 4]
    assert [each["key"] for each in buffer["items"]] == [[30], [20], [5], [None]]
    assert [each["value"]["id"] for each in buffer["items"]] == [2, 3, 0, 1]
    pages = list(app.pages(buffer["href"], limit=1))
    assert pages == buffer["items"]
    (first,) = (each for each in rank.states("N1", limit=1).values() if each["state"] == "rows")
    assert first["next"] is not None
    assert app.json(first["next"])["items"][0]["rank"] == 2


def test_a_window_shows_namespaces_timers_and_late_rows(app: AppClient, run: Any) -> None:
    window = run(WINDOW, "window")
    at = [datetime(1970, 1, 1, 0, each, 30) for each in (0, 1)]  # noqa: DTZ001 - a TIMESTAMP
    rows = [window.row(0, tail="N1", at=each) for each in at]
    window.harness.run_epoch([Of(0, insert(*each)) for each in rows], watermark_ms=60_000)
    window.harness.run_epoch([Of(0, insert(*rows[0]))])

    states = window.states("N1")

    (slice_,) = states["slices"]["items"]
    assert (slice_["key"], slice_["value"]) == ([120_000], {"rows": 1, "EXPR$1": 1})
    assert plain(states["event_timers"]["items"]) == [("120000", 119_999)]
    assert app.json(window.path)["late"] == 1
    (timer,) = app.json(f"{window.path}/states/event_timers/keys")["items"]
    assert (timer["key"], timer["namespace"], timer["entries"]) == (["N1"], "120000", 1)
    assert app.json(timer["href"])["items"] == states["event_timers"]["items"]
    counts = {each["name"]: each["keys"] for each in app.json(f"{window.path}/states")["items"]}
    assert counts == {"slices": 1, "event_timers": 1}


def test_an_operator_shows_how_far_event_time_has_come(
    app: AppClient, run: Any, redis_client: redis.Redis
) -> None:
    join = run(TEMPORAL, "join")
    before = app.json(join.path)
    (orders,), (rates,) = (
        app.app.state.services.contents.of(app.app.state.services.registry.get("p"))
        .operators[0]
        .assigners
    )
    ledger = EpochLedger(redis_client, "p")
    stamp = EpochStamp(ledger.marker().epoch + 1, ledger.open_run([join.node], MAX_PARALLELISM), 1)
    ledger.close_epoch(stamp, {WATERMARKS: {orders[0]: [90_000, 95_000]}}, [])
    one_side = app.json(join.path)
    stamp = replace(stamp, epoch=stamp.epoch + 1)
    reached = {orders[0]: [95_000, 95_000], rates[0]: [60_000, 60_000]}
    ledger.close_epoch(stamp, {WATERMARKS: reached}, [])
    both = app.json(join.path)

    shown = [
        (each["watermark"], [one["watermark"] for one in each["inputs"]])
        for each in (before, one_side, both)
    ]
    assert shown == [
        (None, [None, None]),
        (None, ["1970-01-01T00:01:30.000Z", None]),
        ("1970-01-01T00:01:00.000Z", ["1970-01-01T00:01:35.000Z", "1970-01-01T00:01:00.000Z"]),
    ]


def test_an_operator_without_event_time_shows_none(app: AppClient, run: Any) -> None:
    shown = app.json(run(AGGREGATE, "aggregate").path)

    assert (shown["watermark"], shown["inputs"][0]["watermark"]) == (None, None)


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_key_of_several_states_is_listed_once(app: AppClient, run: Any, limit: int) -> None:
    join = run(JOIN, "_join")
    left = [Of(0, insert(*join.row(0, id=at, tail=f"N{at:02}"))) for at in range(14)]
    right = [Of(1, insert(*join.row(1, tail=f"N{at:02}", model="A"))) for at in range(7, 21)]
    join.harness.run_epoch([*left, *right])

    found = [each["key"][0] for each in app.pages(f"{join.path}/keys", limit=limit)]
    begins = [each["key"][0] for each in app.pages(f"{join.path}/keys", limit=limit, prefix="N1")]

    assert sorted(found) == [f"N{at:02}" for at in range(21)]
    assert sorted(begins) == [f"N{at:02}" for at in range(10, 20)]
    of_side = [each["key"][0] for each in app.pages(f"{join.path}/states/rightState/keys")]
    assert sorted(of_side) == [f"N{at:02}" for at in range(7, 21)]


def test_a_key_of_which_all_has_expired_is_410(app: AppClient, run: Any) -> None:
    aggregate = run(f"SET 'table.exec.state.ttl' = '1 s'; {AGGREGATE}", "group-aggregate")
    aggregate.harness.run_epoch([Of(0, insert(*aggregate.row(0, tail="N1", delay=5)))])

    assert_problem(app.get(f"{aggregate.path}/keys/N1"), 410, "key-expired")
    assert app.json(f"{aggregate.path}/keys")["items"] == []
