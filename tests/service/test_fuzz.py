"""Every endpoint under generated requests: never a 5xx, and every answer as the document says.

A real server on a loopback socket, so that what a client library would refuse to send arrives too.
Half of the addresses name what exists, since an unknown pipeline ends most routes early.
"""

from __future__ import annotations

import threading
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from operators.testing.operator_harness import Of, delete, insert
from service.api.paging import cursor_text
from service.app import HEAD_SIZE_MAX_BYTES, create_app
from service.settings import ExecutionSettings, LimitSettings
from tests.conftest import free_port
from tests.service.api.test_operator_states import AGGREGATE, Run
from tests.service.api.test_state import Flights, flight
from tests.service.app_client import (
    AppClient,
    StandInSpark,
    openapi_document,
    opener_with,
    settings_for,
    until,
)
from tests.service.keyed_states import write_states
from tests.service.mutations import kinds, mutated, mutations
from tests.service.plans import INGRESS, OPERATOR, change, flights_plan
from tests.service.plans import flight as outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RedisServer

EXAMPLES_PER_OPERATION = 12
CURSORS_PER_LIST = 60
SPOKEN = ("etag", "location", "retry-after", "allow", "www-authenticate", "idempotency-replayed")
"""Headers that tell a client what to do next."""


def headers_are_documented(_context: Any, response: Any, case: Any) -> None:
    """Every such header of an answer stands in the document, with that answer."""
    answers = case.operation.definition.raw["responses"]
    status = str(response.status_code)
    answer = answers.get(status) or answers.get(f"{status[0]}XX") or {}
    known = {each.lower() for each in answer.get("headers", {})}
    sent = {each.lower() for each in response.headers}
    assert sent.intersection(SPOKEN) <= known, (status, sent.intersection(SPOKEN) - known)


CHECKS = (
    headers_are_documented,
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
KNOWN = {
    "pipeline": "p",
    "operator": OPERATOR,
    "sink": "latest_flight",
    "table": "flights",
    "key": "N1",
    "slug": "internal",
    "state": "calls",
    "session": "known",
}
KEYED = {
    **KNOWN,
    "pipeline": "k",
    "operator": "5_group-aggregate",
    "state": "groupAggregateState",
}
"""The same where the operator keeps no histories."""
TABLES = """
CREATE TABLE s (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE t (id INT NOT NULL, v STRING, PRIMARY KEY (v) NOT ENFORCED)
  WITH ('connector' = 'redis');
"""
INSERT = "INSERT INTO t SELECT id, v FROM s ON CONFLICT DO DEDUPLICATE"
SCRIPTS = [
    f"{TABLES} {INSERT}",
    f"{TABLES} COMPILE PLAN 'fuzz.json' FOR {INSERT}; EXPLAIN PLAN 'fuzz.json'",
    f"{TABLES} COMPILE AND EXECUTE PLAN 'a/fuzz.json' IF NOT EXISTS FOR {INSERT}",
    f"{TABLES} EXPLAIN CHANGELOG_MODE, ESTIMATED_COST, PLAN_ADVICE {INSERT}; DESCRIBE s; SET",
    f"{TABLES} SHOW TABLES NOT LIKE '%%'; SHOW CREATE TABLE s; SHOW COLUMNS IN s LIKE '_'",
    "EXECUTE PLAN 'fuzz.json'",
    "EXECUTE PLAN '../fuzz.json'",
    "EXECUTE PLAN 'http://127.0.0.1:1/fuzz.json'",
    "SET 'table.exec.state.ttl' = 'x'; EXECUTE PLAN 'fuzz.json'",
    "SET '\x00' = '\ufffe'; SET; RESET '\x00'; DROP TABLE IF EXISTS a.b.c",
    "SHOW CREATE VIEW nosuch",
    ";;;",
]
_TTLS = st.dictionaries(
    st.sampled_from(["sinkMaterializeState", "leftState", ""]),
    # Long enough that what the pipeline holds stays.
    st.sampled_from(["0 ms", "1000000 d", "PT-1S", "9" * 90, "\x00", "१ d"]),
    min_size=1,
)
DELETING = "DELETE"
_LINES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([change("+I", outside(f"f{n}")) for n in range(3)]),
        st.sampled_from([b"{}", b"[]", b'{"op":"+I"}', b'{"op":7,"data":[]}', b"\xff", b""]),
    ),
    max_size=6,
)
_NUMBERS = st.sampled_from([0, 1, 7, -1, -200, 2**62, 2**63, 2**64 - 1])
_TEXTS = st.sampled_from(["", "1-0", "x", "0-foo", "-1-0", f"{2**63 - 1}-0", f"{2**64}-0"])
_POSITIONS = st.one_of(
    st.tuples(_NUMBERS),
    st.tuples(_TEXTS),
    st.tuples(_NUMBERS, _TEXTS),
    st.tuples(_NUMBERS, _NUMBERS, _TEXTS),
)
"""What a cursor may be made to say: it can be decoded, and has the form of some list's."""
schemathesis.openapi.media_type("application/x-ndjson", _LINES.map(b"\n".join))


@schemathesis.serializer("application/x-ndjson")
def _as_it_is(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@cache
def plans() -> list[Any]:
    """Some that run, and many with one property that is left out, null or of another type."""
    return [
        flights_plan(),
        flights_plan(source=INGRESS),
        flights_plan(sink={"connector": "print"}),
        *(mutated(where, to) for kind in kinds() for where, to in islice(mutations(kind, 4), 24)),
    ]


class Server:
    """The application in a thread, on a port of its own."""

    def __init__(self, app: Any) -> None:
        self.port = free_port()
        config = uvicorn.Config(
            app,
            host="127.0.0.1",
            port=self.port,
            log_config=None,
            ws="none",
            access_log=False,
            h11_max_incomplete_event_size=HEAD_SIZE_MAX_BYTES,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> str:
        self._thread.start()
        until(lambda: self._server.started)
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=20)


@pytest.fixture(scope="module")
def address(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has a pipeline with some state; 2 more may be created by the fuzz."""
    import redis

    with redis.Redis(port=redis_server.port) as client:
        client.flushall()
        settings = settings_for(
            redis_server.url,
            tmp_path_factory.mktemp("fuzz"),
            limits=LimitSettings(pipelines_max=4),
            execution=ExecutionSettings(supervise_interval_ms=50),
        )
        with AppClient(settings) as app:
            flights = Flights(app, client)
            flights.run_epoch(*[("+I", flight(f"f{n}")) for n in range(3)])
            flights.run_epoch(("-D", flight("f2")), ("-D", flight("f9", "N9")))
            write_states(client, "p")
            aggregate = Run(app, client, AGGREGATE, "group-aggregate", name="k")
            row = aggregate.row(0, tail="N1", delay=5)
            aggregate.harness.run_epoch(
                [Of(0, insert(*row)), Of(0, delete(*aggregate.row(0, tail="N9")))]
            )
            aggregate.harness.close()
            app.post("/v1/statements", {"sql": TABLES, "session": "known"})
            # There is no checkpoint, so it fails; which is a savepoint to look at, too.
            place = app.post("/v1/pipelines/p/savepoints", {}).headers["location"]
            until(lambda: app.json(place)["state"] == "FAILED")
            KNOWN["savepoint"] = place.rpartition("/")[2]
        with Server(create_app(settings, opener_with(StandInSpark()))) as url:
            yield url


@cache
def operations() -> list[Any]:
    """All operations of the document, which needs no server."""
    schema = schemathesis.openapi.from_dict(openapi_document())
    return [each.ok() for each in schema.get_all_operations()]


def _with_known(case: Any, draw: Any) -> None:
    """Put what exists in the place of half of the generated parts of an address."""
    known = draw(st.sampled_from([KNOWN, KEYED]))
    for name in case.path_parameters or {}:
        # The pipeline that has the state must live on.
        if name == "pipeline" and case.method == DELETING:
            continue
        if name in known and draw(st.booleans()):
            case.path_parameters[name] = known[name]
    if isinstance(case.body, dict):
        _with_known_body(case.body, draw)


def _with_known_body(body: dict[str, Any], draw: Any) -> None:
    """Put what means something in the place of half of the generated members of a body."""
    if "plan" in body and draw(st.booleans()):
        body["plan"] = draw(st.sampled_from(plans()))
        body.pop("plan_uri", None)
    if "sql" in body and draw(st.booleans()):
        body["sql"] = draw(st.sampled_from(SCRIPTS))
    if "states" in body and draw(st.booleans()):
        body["states"] = draw(_TTLS)
    for name in ("before", "after"):
        if name in body and draw(st.booleans()):
            plan = draw(st.sampled_from(plans()))
            ways = [{"plan": plan}, {"pipeline": "p"}, {"sql": SCRIPTS[0]}]
            body[name] = draw(st.sampled_from(ways))


@pytest.mark.parametrize("operation", operations(), ids=lambda each: each.label)
def test_no_request_breaks_the_service(operation: Any, address: str) -> None:
    @settings(
        max_examples=EXAMPLES_PER_OPERATION,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def fuzz(data: Any) -> None:
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        _with_known(case, data.draw)
        case.call_and_validate(base_url=address, checks=CHECKS)

    fuzz()


def lists() -> list[Any]:
    """The operations that take a cursor."""
    return [each for each in operations() if any(one.name == "cursor" for one in each.query)]


@pytest.mark.parametrize("operation", lists(), ids=lambda each: each.label)
def test_no_cursor_that_can_be_decoded_breaks_a_list(operation: Any, address: str) -> None:
    """Of what exists: a list of nothing would end before it looks at its cursor."""

    @settings(max_examples=CURSORS_PER_LIST, deadline=None, database=None, derandomize=True)
    @given(position=_POSITIONS, pipeline=st.sampled_from([KNOWN, KEYED]))
    def fuzz(position: tuple[int | str, ...], pipeline: dict[str, str]) -> None:
        known = {each.name: pipeline[each.name] for each in operation.path_parameters}
        query = {"cursor": cursor_text(*position)}
        case = operation.Case(path_parameters=known, query=query)
        case.call_and_validate(base_url=address, checks=CHECKS)

    fuzz()


def test_the_pipeline_with_state_is_still_there(address: str) -> None:
    import httpx

    with httpx.Client(base_url=address) as client:
        answer = client.get(f"/v1/pipelines/p/operators/{OPERATOR}/keys/N1/history")
        assert answer.json()["entries"] == 2
        answer = client.get("/v1/pipelines/k/operators/5_group-aggregate/keys/N1")
        assert answer.json()["states"]
        assert client.get("/readyz").json()["checks"][0]["ok"]


def test_every_operation_was_fuzzed() -> None:
    assert len(operations()) > 35
    assert len(lists()) == 12
