"""Plans that Flink wrote, with the tables that a test wants."""

from __future__ import annotations

import copy
from importlib.resources import files
from typing import Any

import orjson

FLIGHTS: dict[str, Any] = orjson.loads(
    files("service.demo").joinpath("latest_flight.plan.json").read_bytes()
)
INGRESS = {"connector": "ingress"}
OPERATOR = "3_sink-materializer"


def flights_plan(
    source: dict[str, str] | None = None,
    sink: dict[str, str] | None = None,
    ttl: str | None = None,
) -> dict[str, Any]:
    """The demo's plan (source `flights`, sink `latest_flight`) with these table options."""
    plan = copy.deepcopy(FLIGHTS)
    for node in plan["nodes"]:
        for role, options in (("scanTableSource", source), ("dynamicTableSink", sink)):
            if role in node and options is not None:
                node[role]["table"]["resolvedTable"]["options"] = options
    if ttl is not None:
        plan["nodes"][-1]["state"][0]["ttl"] = ttl
    return plan


def flight(flight_id: str, tailnum: str | None = "N1", **more: Any) -> dict[str, Any]:
    """A row of `flights` as outside JSON."""
    return {
        "flight_id": flight_id,
        "tailnum": tailnum,
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "status": "SCHEDULED",
        "scheduled": "2013-01-01 05:15:00",
        "changed_at": "2013-01-01 05:15:00",
        "dep_delay": None,
        "arr_delay": None,
        **more,
    }


def change(op: str, row: dict[str, Any]) -> bytes:
    """A line of changelog-json."""
    return orjson.dumps({"op": op, "data": row})
