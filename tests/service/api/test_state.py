"""Operators, keys, histories, orphans and tables over HTTP, on state that real epochs made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.api.paging import cursor_text
from service.plan import load_plan
from service.runtime.operators import stateful_nodes
from service.runtime.sinks.spec import SinkSpec, WriterSpec
from service.runtime.sinks.tables import PrintSink
from state.backends.interface import EpochStamp
from state.codec import RowCodec
from state.epochs import EpochLedger
from state.registry import register_states
from state.ttl import TtlClock
from state.types import parse_type
from tests.service.api.test_pipelines import PATH
from tests.service.app_client import until
from tests.service.plans import OPERATOR, flights_plan
from tests.service.prepared import KINDS, MAX_PARALLELISM, Change, PreparedPipeline
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

AT = datetime(2013, 1, 1, 5, 15)  # noqa: DTZ001 - a TIMESTAMP has no zone
OF_OPERATOR = f"{PATH}/p/operators/{OPERATOR}"


def flight(flight_id: str, tailnum: str = "N1", status: str = "SCHEDULED") -> tuple[Any, ...]:
    return (flight_id, tailnum, "UA", "EWR", "IAH", status, AT, AT, None, None)


class Flights:
    """The demo's pipeline, created over HTTP and run by hand."""

    def __init__(
        self,
        app: AppClient,
        client: redis.Redis,
        ttl: str | None = None,
        plan: dict[str, Any] | None = None,
    ) -> None:
        plan = plan or flights_plan(source={"connector": "ingress"}, ttl=ttl)
        options = {"max_parallelism": MAX_PARALLELISM}
        made = app.post(PATH, {"name": "p", "plan": plan, "options": options})
        assert made.status_code == 201, made.text
        record = app.app.state.services.registry.get("p")
        resolved = record.options.resolved(app.settings.execution)
        (operator,) = stateful_nodes(load_plan(plan), resolved)
        self.operator, self.client = operator, client
        self.prepared = PreparedPipeline(
            client, "p", operator.spec, node=operator.id, table="latest_flight"
        )

    def run_epoch(self, *changes: Change, **more: Any) -> None:
        self.prepared.run_epoch(changes, **more)

    def register(self) -> None:
        """Make the state one that a run has registered, as the start of a query does."""
        states = [self.operator.spec.descriptor]
        register_states(EpochLedger(self.client, "p"), self.operator.id, states, TtlClock(0))


@pytest.fixture
def flights(app: AppClient, redis_client: redis.Redis) -> Flights:
    return Flights(app, redis_client)


def test_operators_say_what_they_keep(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")), ("+I", flight("f2", "N2")), ("-D", flight("f9", "N3")))

    (operator,) = app.json(f"{PATH}/p/operators")["items"]

    assert operator["id"] == OPERATOR
    assert operator["kind"] == "sink-materializer"
    assert operator["key_columns"] == [{"name": "tailnum", "type": "VARCHAR(2147483647)"}]
    assert [each["name"] for each in operator["upsert_key_columns"]] == ["flight_id"]
    assert (operator["keys"], operator["orphans"], operator["epoch"]) == (2, 1, 1)
    assert operator["strategy"] == "ADAPTIVE"
    assert operator["ttl_ms"] is None
    assert app.json(OF_OPERATOR) == operator


def test_a_tag_changes_with_what_is_shown_and_not_with_each_epoch(
    app: AppClient, flights: Flights
) -> None:
    flights.run_epoch(("+I", flight("f1")), ("+I", flight("f2", "N2")))
    paths = (
        *(f"{OF_OPERATOR}/keys/N1{more}" for more in ("", "/history", "/explain")),
        *(f"{OF_OPERATOR}/keys", f"{PATH}/p/tables/latest_flight/rows/N1"),
    )
    paths = [each for each in paths if app.get(each).status_code == 200]
    assert len(paths) >= 4
    tags = {each: app.get(each).headers["etag"] for each in paths}
    assert all(each.startswith('W/"') for each in tags.values())

    flights.run_epoch()
    for path, tag in tags.items():
        same = app.get(path)
        assert same.json()["epoch"] == 2
        assert same.headers["etag"] == tag
        kept = app.get(path, headers={"If-None-Match": f'"x", {tag}'})
        assert (kept.status_code, kept.headers["etag"], kept.content) == (304, tag, b"")

    flights.run_epoch(("+I", flight("f3")), ("+I", flight("f4", "N4")))
    for path, tag in tags.items():
        other = app.get(path, headers={"If-None-Match": tag})
        assert other.status_code == 200, path
        assert other.headers["etag"] != tag


def test_an_unknown_operator_is_a_problem(app: AppClient, flights: Flights) -> None:
    for path in ("", "/keys", "/keys/N1", "/keys/N1/history", "/keys/N1/explain", "/orphans"):
        answer = app.get(f"{PATH}/p/operators/9_nothing{path}")
        problem = assert_problem(answer, 404, "operator-not-found")
        assert OPERATOR in problem["hint"]


def test_a_history_is_oldest_first_and_names_its_epoch(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")), ("+I", flight("f2")), time_ms=1_000)
    flights.run_epoch(("+U", flight("f1", status="LANDED")), time_ms=61_000)

    history = app.json(f"{OF_OPERATOR}/keys/N1/history")

    assert history["epoch"] == 2
    assert history["key"] == ["N1"]
    assert history["entries"] == 2
    older, newer = history["items"]
    assert (older["row"]["flight_id"], older["row"]["status"]) == ("f1", "LANDED")
    assert older["inserted_at"] == "1970-01-01T00:01:01.000Z"
    assert (older["current"], older["shown"]) == (False, True)
    assert (newer["current"], newer["shown"]) == (True, False)
    assert newer["row"] == {
        "flight_id": "f2",
        "tailnum": "N1",
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "status": "SCHEDULED",
        "scheduled": "2013-01-01 05:15:00",
        "changed_at": "2013-01-01 05:15:00",
        "dep_delay": None,
        "arr_delay": None,
    }
    assert newer["expires_at"] is None
    assert older["sequence_number"] < newer["sequence_number"]
    current = app.json(f"{OF_OPERATOR}/keys/N1")
    assert current["row"] == newer["row"]
    assert (current["entries"], current["epoch"]) == (2, 2)


def test_the_keys_of_the_histories_lead_to_them(app: AppClient, flights: Flights) -> None:
    tails = ("N1", "a/b", "a?b", "..")
    flights.run_epoch(*[("+I", flight(f"of {tail}", tail)) for tail in tails])
    flights.register()

    keys = app.json(f"{OF_OPERATOR}/states/history/keys")["items"]

    assert {key["key"][0] for key in keys} == set(tails)
    for key in keys:
        (entry,) = app.json(key["href"])["items"]
        assert entry["row"]["flight_id"] == f"of {key['key'][0]}"


def test_a_history_is_paged(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(*[("+I", flight(f"f{n}")) for n in range(7)])

    for limit in (1, 3, 100):
        found = app.pages(f"{OF_OPERATOR}/keys/N1/history", limit=limit)
        assert [each["row"]["flight_id"] for each in found] == [f"f{n}" for n in range(7)]


LISTS = {
    "": [[1], [0, 0]],
    "/p/operators": [[-1], [2**63], ["0"], [True]],
    "/p/tables": [[-1], [0.5]],
    "/p/tables/latest_flight": [[-1, ""], [0, 5], [0]],
    "/p/progress": [[-1], [2**63]],
    "/p/dead-letters": [[0, "foo"], [-1, ""], [0, "1-0-0"], [0, f"{2**63}-0"], [1, "-1-0"]],
    f"/p/operators/{OPERATOR}/keys": [[-200, 0, ""], [0, -1, ""], [0, 0, 1], [0, 0]],
    f"/p/operators/{OPERATOR}/keys/N1/history": [[-1], [2**63], [1, 1]],
    f"/p/operators/{OPERATOR}/orphans": [[3, "x"], [-1, "1-0"], [0, "1"]],
}


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_that_no_list_gave_is_refused(app: AppClient, flights: Flights, path: str) -> None:
    flights.run_epoch(("+I", flight("f1")), ("-D", flight("f9", "N9")))

    for position in LISTS[path]:
        answer = app.get(f"{PATH}{path}", params={"cursor": cursor_text(*position)})
        assert_problem(answer, 422, "cursor-invalid")


@pytest.mark.parametrize(
    ("path", "position"),
    [
        ("", ["zzz"]),
        ("/p/operators", [2**62]),
        ("/p/tables", [2**62]),
        ("/p/progress", [0]),
        ("/p/dead-letters", [2, ""]),
        (f"/p/operators/{OPERATOR}/keys", [2**62, 0, ""]),
        (f"/p/operators/{OPERATOR}/keys/N1/history", [2**63 - 1]),
        (f"/p/operators/{OPERATOR}/orphans", [2**62, ""]),
        (f"/p/operators/{OPERATOR}/orphans", [7, f"{2**63 - 1}-{2**63 - 1}"]),
        ("/p/dead-letters", [0, f"{2**63 - 1}-{2**63 - 1}"]),
    ],
)
def test_a_cursor_that_points_nowhere_gives_an_empty_page(
    app: AppClient, flights: Flights, path: str, position: list[Any]
) -> None:
    flights.run_epoch(("+I", flight("f1")), ("-D", flight("f9", "N9")))

    page = app.json(f"{PATH}{path}", params={"cursor": cursor_text(*position)})

    assert (page["items"], page["next"]) == ([], None)


def test_an_explanation_says_what_the_sink_falls_back_to(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(*[("+I", flight(f"f{n}")) for n in range(3)])

    why = app.json(f"{OF_OPERATOR}/keys/N1/explain")

    assert why["current"]["row"]["flight_id"] == "f2"
    assert why["fallback"]["row"]["flight_id"] == "f1"
    assert why["shown_sequence_number"] == why["current"]["sequence_number"]
    assert (why["entries"], why["entries_behind"]) == (3, 2)
    assert why["on_retraction"] == "update"
    assert "falls back to entry" in why["text"]


@pytest.mark.parametrize("path", ["keys/N1", "keys/N1/what-if", "states/history/keys/N1"])
def test_a_namespace_of_a_history_is_refused(app: AppClient, flights: Flights, path: str) -> None:
    """It was ignored: histories have none."""
    flights.run_epoch(("+I", flight("f1")))
    query = {"namespace": "60000", **({"ttl": "1 h"} if "what-if" in path else {})}

    answer = app.get(f"{OF_OPERATOR}/{path}", params=query)

    (error,) = assert_problem(answer, 422, "invalid-request")["errors"]
    assert (error["in"], error["path"]) == ("query", "/namespace")
    assert error["message"] == "an upsert materializer uses no namespaces"
    assert app.get(f"{OF_OPERATOR}/keys/N1", params={"namespace": ""}).status_code == 200


def test_an_unknown_key_is_404_and_an_expired_one_410(
    app: AppClient, redis_client: redis.Redis
) -> None:
    flights = Flights(app, redis_client, ttl="50 ms")
    flights.run_epoch(("+I", flight("f1")), time_ms=1_000)

    for path in ("", "/history", "/explain"):
        unknown = app.get(f"{OF_OPERATOR}/keys/N404{path}")
        expired = app.get(f"{OF_OPERATOR}/keys/N1{path}")
        assert "N404" not in unknown.text
        assert_problem(unknown, 404, "key-not-found")
        assert_problem(expired, 410, "key-expired")
    flights.run_epoch(time_ms=2_000)
    for path in ("", "/history", "/explain"):
        cleaned = app.get(f"{OF_OPERATOR}/keys/N1{path}")
        assert_problem(cleaned, 404, "key-not-found")


def test_changed_options_count_for_readers_from_the_next_start_on(
    app: AppClient, redis_client: redis.Redis
) -> None:
    plan = flights_plan(source={"connector": "ingress"})
    plan["nodes"][-1]["state"] = None
    flights = Flights(app, redis_client, plan=plan)
    flights.run_epoch(("+I", flight("f1")), time_ms=1_000)
    app.post(f"{PATH}/p/start")
    until(lambda: app.json(f"{PATH}/p")["status"]["state"] == "RUNNING")
    run = app.json(f"{PATH}/p")["status"]["run"]

    changed = app.request("PATCH", f"{PATH}/p", json={"options": {"default_ttl_ms": 50}})

    assert changed.json()["options"]["default_ttl_ms"] == 50
    assert app.json(f"{OF_OPERATOR}/keys/N1/history")["items"][0]["expires_at"] is None
    assert app.json(OF_OPERATOR)["ttl_ms"] is None
    app.post(f"{PATH}/p/stop")
    until(lambda: app.json(f"{PATH}/p")["status"]["state"] == "STOPPED")
    app.json(f"{OF_OPERATOR}/keys/N1/history")
    app.post(f"{PATH}/p/start")
    until(lambda: app.json(f"{PATH}/p")["status"]["run"] > run)
    until(lambda: app.json(f"{PATH}/p")["status"]["state"] == "RUNNING")
    assert_problem(app.get(f"{OF_OPERATOR}/keys/N1/history"), 410, "key-expired")
    assert app.json(OF_OPERATOR)["ttl_ms"] == 50


def test_what_is_not_closed_is_not_seen(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")))
    flights.run_epoch(("+I", flight("f2")), ("+I", flight("f3", "N2")), close=False)

    assert app.json(f"{OF_OPERATOR}/keys/N1/history")["entries"] == 1
    assert_problem(app.get(f"{OF_OPERATOR}/keys/N2"), 404, "key-not-found")
    assert app.json(f"{PATH}/p/tables/latest_flight")["epoch"] == 1


NAMES = [
    "N14228",
    "a b",
    "50%",
    "a/b",
    "a,b",
    "-",
    ".",
    "..",
    "",
    "日本",
    'say "hi"',
    "a?b#c",
    "a+b&c=d",
    "null",
    "\u0001",
]


def test_every_listed_key_is_found_at_its_address(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(*[("+I", flight(f"f{n}", name)) for n, name in enumerate(NAMES)])

    listed = list(app.pages(f"{OF_OPERATOR}/keys", limit=4))

    assert sorted(each["key"][0] for each in listed) == sorted(NAMES)
    for each in listed:
        assert each["layout"] == "packed"
        assert app.json(each["href"])["row"]["tailnum"] == each["key"][0]
    by_name = {each["key"][0]: each["href"] for each in listed}
    assert by_name["N14228"] == f"{OF_OPERATOR}/keys/N14228"
    assert by_name["a/b"] == f"{OF_OPERATOR}/keys/-?key=%5B%22a%2Fb%22%5D"
    rows = list(app.pages(f"{PATH}/p/tables/latest_flight", limit=4))
    for each in rows:
        assert app.json(each["href"])["row"] == each["row"]
    assert len(rows) == len(NAMES)


def test_keys_are_found_by_prefix(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(*[("+I", flight(f"f{n}", name)) for n, name in enumerate(NAMES)])

    assert [each["key"] for each in app.pages(f"{OF_OPERATOR}/keys", prefix="N1")] == [["N14228"]]
    found = sorted(each["key"][0] for each in app.pages(f"{OF_OPERATOR}/keys", prefix="a", limit=2))
    assert found == sorted(name for name in NAMES if name.startswith("a"))
    assert [each["key"] for each in app.pages(f"{OF_OPERATOR}/keys", prefix="日")] == [["日本"]]


@pytest.mark.parametrize("query", ["", "x", "{}", "[]", '["a","b"]', "[1]", "[null,1]", '"N1"'])
def test_a_malformed_key_is_a_problem(app: AppClient, flights: Flights, query: str) -> None:
    for path in (f"{OF_OPERATOR}/keys/-", f"{PATH}/p/tables/latest_flight/-"):
        answer = app.get(path, params={"key": query})
        assert_problem(answer, 422, "key-malformed")
    twice = app.get(f"{OF_OPERATOR}/keys/N1", params={"key": '["N1"]'})
    assert_problem(twice, 422, "key-malformed")


def test_orphans_are_counted_and_listed(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(*[("-D", flight(f"f{n}", f"N{n}")) for n in range(5)], time_ms=2_000)

    body = app.json(f"{OF_OPERATOR}/orphans", params={"limit": 2})
    listed = list(app.pages(f"{OF_OPERATOR}/orphans", limit=2))

    assert (body["count"], body["epoch"]) == (5, 1)
    assert sorted(each["key"][0] for each in listed) == [f"N{n}" for n in range(5)]
    assert {each["op"] for each in listed} == {"-D"}
    assert listed[0]["time"] == "1970-01-01T00:00:02.000Z"
    assert listed[0]["row"]["carrier"] == "UA"


def test_tables_tell_what_can_be_read_and_written(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")), ("+I", flight("f2", "N2")))

    source, sink = app.json(f"{PATH}/p/tables")["items"]

    assert (source["name"], source["role"], source["accepts_ingress"]) == (
        "flights",
        "source",
        True,
    )
    assert (sink["name"], sink["role"], sink["queryable"]) == ("latest_flight", "sink", True)
    assert (source["primary_key"], sink["primary_key"]) == (["flight_id"], ["tailnum"])
    assert sink["rows"] == 2


def test_a_table_shows_what_the_sink_took(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")), ("+I", flight("f2")), ("+I", flight("f3", "N2")))
    flights.run_epoch(("-D", flight("f2")), ("-D", flight("f3", "N2")))

    (item,) = app.json(f"{PATH}/p/tables/latest_flight")["items"]

    assert item["row"]["flight_id"] == "f1"
    assert item["key"] == ["N1"]
    found = app.json(f"{PATH}/p/tables/latest_flight/N1")
    assert (found["row"], found["epoch"]) == (item["row"], 2)
    assert_problem(app.get(f"{PATH}/p/tables/latest_flight/N2"), 404, "key-not-found")
    for name in ("flights", "nothing"):
        assert_problem(app.get(f"{PATH}/p/tables/{name}"), 404, "table-not-found")


def test_rows_of_tables_and_keys_are_read_at_one_epoch(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(*[("+I", flight(f"of {tail}", tail)) for tail in ("N1", "a/b", "c")])
    listed = app.json(f"{PATH}/p/tables/latest_flight")["items"]
    addresses = ["latest_flight", "latest_flight/N2"]
    addresses += [each["href"].partition("/tables/")[2] for each in listed]

    found = app.json(f"{PATH}/p/rows", params={"of": addresses})

    assert found["epoch"] == 1
    assert [each["of"] for each in found["items"]] == addresses
    whole, absent, *single = found["items"]
    assert sorted(each["key"] for each in whole["rows"]) == [["N1"], ["a/b"], ["c"]]
    assert absent == {"of": "latest_flight/N2", "table": "latest_flight", "rows": []}
    assert [each["rows"] for each in single] == [
        [{"key": each["key"], "row": each["row"]}] for each in listed
    ]


def test_rows_that_are_read_together_are_never_of_two_epochs(
    app: AppClient, flights: Flights
) -> None:
    """A flight goes from one aircraft to the other in each epoch, so just one of them has it."""
    moves = [("N1", "N2"), ("N2", "N1")] * 40
    flights.run_epoch(("+I", flight("f1", "N1")))
    asked = {"of": ["latest_flight/N1", "latest_flight/N2", "latest_flight"]}
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(
            lambda: [
                flights.run_epoch(("-D", flight("f1", left)), ("+I", flight("f1", entered)))
                for left, entered in moves
            ]
        )
        epochs = set()
        while not writing.done():
            found = app.json(f"{PATH}/p/rows", params=asked)
            one, other, both = (each["rows"] for each in found["items"])
            # The first epoch, and every second one behind it, is of N1.
            assert [row["key"] for row in both] == [["N1" if found["epoch"] % 2 else "N2"]]
            assert one + other == both
            epochs.add(found["epoch"])
    writing.result()
    assert len(epochs) > 2


def test_rows_that_cannot_be_read_together_are_refused(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")), ("+I", flight("f2", "N2")))
    path = f"{PATH}/p/rows"

    assert_problem(app.get(path), 422, "invalid-request")
    assert_problem(app.get(path, params={"of": ["x"] * 101}), 422, "invalid-request")
    assert_problem(app.get(path, params={"of": "flights"}), 404, "table-not-found")
    assert_problem(app.get(path, params={"of": "latest_flight/-?key=["}), 422, "key-malformed")
    answer = app.get(path, params={"of": "latest_flight", "limit": 1})
    assert "has 2 rows" in assert_problem(answer, 422, "invalid-request")["detail"]
    assert app.get(path, params={"of": "latest_flight/N1", "limit": 1}).status_code == 200


def print_changes(client: redis.Redis, app: AppClient, changes: list[Change]) -> None:
    """Epochs of one change each, closed with what the print sink makes of it."""
    table = app.app.state.services.contents.of(app.app.state.services.registry.get("p")).sinks[0]
    sink = SinkSpec(3, table.name, "print", table.names, table.types, (), "retract")
    writer = WriterSpec("p", 1, "", None, "", (sink,), print_rows_max=4)
    codec = RowCodec([parse_type(each) for each in table.types], table.names)
    ledger = EpochLedger(client, "p")
    run = ledger.open_run([], MAX_PARALLELISM)
    for epoch, (op, row) in enumerate(changes, 1):
        columns = codec.decode_columns([codec.encode(row)])
        writes = PrintSink(writer, sink).writes(columns, np.array([KINDS[op]], np.int8))
        ledger.close_epoch(EpochStamp(epoch, run, 1_000), {}, writes)


def test_a_print_table_lists_the_newest_changes_with_their_kinds(
    app: AppClient, redis_client: redis.Redis
) -> None:
    plan = flights_plan(source={"connector": "ingress"}, sink={"connector": "print"})
    assert app.post(PATH, {"name": "p", "plan": plan}).status_code == 201
    changes = [(op, flight(f"f{n}")) for n, op in enumerate(["+I", "+I", "+U", "-U", "+U", "-D"])]
    path = f"{PATH}/p/tables/latest_flight"
    assert app.json(path)["items"] == []

    print_changes(redis_client, app, changes)

    for limit in (1, 2, 3, 100):
        listed = list(app.pages(path, limit=limit))
        assert [(each["epoch"], each["op"]) for each in listed] == [
            (3, "+U"),
            (4, "-U"),
            (5, "+U"),
            (6, "-D"),
        ]
        assert [each["row"]["flight_id"] for each in listed] == ["f2", "f3", "f4", "f5"]
    assert app.json(path)["epoch"] == 6
    table = app.json(f"{PATH}/p/tables")["items"][1]
    assert (table["queryable"], table["rows"]) == (True, 4)
    assert_problem(app.get(path, params={"prefix": "N"}), 422, "invalid-request")
    assert_problem(app.get(f"{path}/N1"), 404, "table-not-found")
    for position in (["x"], [5], ["1-0", 0]):
        answer = app.get(path, params={"cursor": cursor_text(*position)})
        assert_problem(answer, 422, "cursor-invalid")


def test_lives_are_extended_by_one_call_each_and_the_calls_add_up(
    app: AppClient, flights: Flights
) -> None:
    path = f"{PATH}/p/ttl-extension"

    first = app.post(path, {"by_ms": 5_000}, headers={"Idempotency-Key": "a"})
    again = app.post(path, {"by_ms": 5_000}, headers={"Idempotency-Key": "a"})
    other = app.post(path, {"by_ms": 2_000})

    assert first.json() == again.json() == {"extension_ms": 5_000, "in_force_ms": 0}
    assert other.json() == app.json(path) == {"extension_ms": 7_000, "in_force_ms": 0}
    assert app.post(path, {"by_ms": 0}).status_code == 422
    assert_problem(app.post(f"{PATH}/q/ttl-extension", {"by_ms": 1}), 404, "pipeline-not-found")


def test_progress_is_newest_first_with_totals(app: AppClient, flights: Flights) -> None:
    for n in range(5):
        flights.run_epoch(("+I", flight(f"f{n}")), ("+I", flight(f"g{n}", "N2")))

    page = app.json(f"{PATH}/p/progress", params={"limit": 2})
    listed = list(app.pages(f"{PATH}/p/progress", limit=2))

    assert page["epoch"] == 5
    assert page["totals"] == {
        "epochs": 5,
        "rows_in": 10,
        "rows_out": 10,
        "dead": 0,
    }
    assert [each["epoch"] for each in listed] == [5, 4, 3, 2, 1]
    assert listed[0]["nodes"][OPERATOR]["rows_in"] == 2
    assert listed[0]["close_ms"] is None
    flights.run_epoch(("+I", flight("f9")))
    assert app.json(f"{PATH}/p/progress")["totals"]["rows_in"] == 11


def test_metrics_tell_of_epochs_once_each(app: AppClient, flights: Flights) -> None:
    flights.run_epoch(("+I", flight("f1")), ("-D", flight("f9", "N14228")))

    for _ in range(2):
        text = app.get("/metrics").text
    flights.run_epoch(("+I", flight("f2")))
    later = app.get("/metrics").text

    assert 'tailrace_pipeline_epoch{pipeline="p"} 1.0' in text
    assert 'tailrace_pipeline_rows_total{direction="in",pipeline="p"} 2.0' in text
    assert f'tailrace_operator_orphans_total{{operator="{OPERATOR}",pipeline="p"}} 1.0' in text
    assert "N14228" not in text
    assert 'tailrace_pipeline_rows_total{direction="in",pipeline="p"} 3.0' in later
    assert 'tailrace_pipelines{state="STOPPED"} 1.0' in later


def test_dead_letters_are_listed_without_content(app: AppClient, flights: Flights) -> None:
    letter = {"table": "flights", "position": "f.json:10", "reason": "not JSON"}
    flights.run_epoch(("+I", flight("f1")), dead=[letter, {**letter, "position": "f.json:20"}])

    body = app.json(f"{PATH}/p/dead-letters")
    one_by_one = list(app.pages(f"{PATH}/p/dead-letters", limit=1))

    assert body["count"] == 2
    assert body["items"] == one_by_one
    assert body["items"][0] == {**letter, "origin": "source", "epoch": 1, "time": None}
