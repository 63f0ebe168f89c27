"""A savepoint of a pipeline that runs on real Spark: what comes after it is undone by a restore,
and what it holds goes on to the exact table, under its old name and under another one."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.integration.plans import materializer_plan
from tests.integration.system import System

if TYPE_CHECKING:
    from pathlib import Path

    from service.runtime.launcher import EmbeddedSpark

pytestmark = pytest.mark.timeout(900)

CHANGES = 300
"""Of a request, which is one entry of the ingress stream."""
PLAN = materializer_plan("", source={"connector": "ingress", "changelog-mode": "I,UB,UA,D"})


class Input:
    """Changes, and the table that they mean: from a plain list for each key."""

    def __init__(self) -> None:
        self._chance = random.Random("savepoints")
        self._alive: dict[int, dict[str, Any]] = {}
        self._histories: dict[int, list[tuple[int, str]]] = {}
        self.count = 0

    def lines(self) -> bytes:
        """The next changes."""
        lines = []
        for _ in range(CHANGES):
            identity = self._chance.randrange(120)
            known = self._alive.pop(identity, None)
            if known is not None:
                self._histories[known["k"]].remove((identity, known["v"]))
                lines.append(orjson.dumps({"op": "-D", "data": known}))
                continue
            row = {"id": identity, "k": identity % 7, "v": f"v{self._chance.randrange(1000)}"}
            self._alive[identity] = row
            self._histories.setdefault(row["k"], []).append((identity, row["v"]))
            lines.append(orjson.dumps({"op": "+I", "data": row}))
        self.count += CHANGES
        return b"\n".join(lines)

    def fork(self) -> Input:
        """The same past with another future."""
        other = copy.deepcopy(self)
        other._chance = random.Random("another future")
        return other

    def table(self) -> dict[int, tuple[int, str]]:
        return {key: history[-1] for key, history in self._histories.items() if history}


def test_a_restored_pipeline_goes_on_to_the_exact_table(
    tmp_path: Path, spark_server: EmbeddedSpark
) -> None:
    with System(tmp_path / "system", spark_server) as system:
        given = Input()
        system.post("/v1/pipelines", {"name": "orders", "plan": PLAN, "start": True})
        _send(system, "orders", given)
        _wait(system, "orders", given)

        # It is not waited for: read by an epoch or not, it belongs to the savepoint.
        _send(system, "orders", given)
        savepoint = _taken(system, system.http.post("/v1/pipelines/orders/savepoints", json={}))
        saved = given.fork()
        _send(system, "orders", given)
        _wait(system, "orders", given)
        assert system.get("/v1/pipelines/orders/progress")["epoch"] > savepoint["epoch"] > 0

        system.http.delete("/v1/pipelines/orders").raise_for_status()
        _create(system, "orders", f"orders/{savepoint['id']}")
        _wait(system, "orders", saved)
        _send(system, "orders", saved)
        _wait(system, "orders", saved)
        assert _table(system, "orders") != given.table(), "what came after was not undone"

        kept = system.http.delete("/v1/pipelines/orders", params={"state": "keep"})
        _taken(system, kept)
        _create(system, "moved", "orders/latest")
        _send(system, "moved", saved)
        _wait(system, "moved", saved)

        _taken(system, system.http.delete("/v1/pipelines/moved", params={"state": "keep"}))
        _create(system, "changed", "moved/latest", plan=_changed())
        before = saved.count
        _send(system, "changed", saved)
        _send(system, "changed", saved)
        line = b'{"op": "+I", "data": {"id": 7, "k": 1, "v": "x"}}'
        headers = {"content-type": "application/x-ndjson"}
        path = "/v1/pipelines/changed/ingress/r"
        system.http.post(path, content=line, headers=headers).raise_for_status()
        saved.count += 1
        _wait(system, "changed", saved, table="newest")
        assert system.table("changed", "of_r") == [{"id": 7, "k": 1, "v": "x"}]
        # What was read before, the new outputs have nothing of.
        progress = system.get("/v1/pipelines/changed/tables/log", limit=1_000)
        assert 0 < len(progress["items"]) <= saved.count - before


def _changed() -> dict[str, Any]:
    """The plan with a table and two outputs more, another name of its sink, and other numbers."""
    text = orjson.dumps(PLAN).decode().replace("`latest`", "`newest`")
    plan: dict[str, Any] = orjson.loads(text)
    of_r = orjson.loads(text.replace("`s`", "`r`").replace("`newest`", "`of_r`"))
    log = orjson.loads(text.replace("`newest`", "`log`"))
    for by, other in ((10, of_r), (20, log)):
        for node in other["nodes"]:
            node["id"] += by
        sink = other["nodes"][1]
        sink |= {"requireUpsertMaterialize": False, "state": []}
        described = sink["dynamicTableSink"]["table"]["resolvedTable"]
        if other is log:
            described["options"] = {"connector": "print"}
            del described["schema"]["primaryKey"]
        for edge in other["edges"]:
            edge["source"] = 5 if other is log else edge["source"] + by
            edge["target"] += by
    scan, sink = plan["nodes"]
    scan["id"], sink["id"] = 5, 1
    for edge in plan["edges"]:
        edge["source"], edge["target"] = 5, 1
    nodes = [*of_r["nodes"], scan, log["nodes"][1], sink]
    edges = [*of_r["edges"], *log["edges"], *plan["edges"]]
    return {**plan, "nodes": nodes, "edges": edges}


def _create(system: System, name: str, savepoint: str, plan: dict[str, Any] = PLAN) -> None:
    body = {"name": name, "plan": plan, "start": True, "restore": {"savepoint": savepoint}}

    def created() -> bool:
        reply = system.http.post("/v1/pipelines", json=body)
        # The name is free once all of the deleted pipeline is gone.
        assert reply.status_code in (201, 409), reply.text
        return bool(reply.status_code == 201)

    system.wait_for("the name to be free", created)
    system.wait_for("the restore", lambda: system.get(f"/v1/pipelines/{name}")["restore"]["done"])


def _send(system: System, name: str, given: Input) -> None:
    headers = {"content-type": "application/x-ndjson"}
    path = f"/v1/pipelines/{name}/ingress/s"
    system.http.post(path, content=given.lines(), headers=headers).raise_for_status()


def _wait(system: System, name: str, given: Input, table: str = "latest") -> None:
    """Until all of it was read, once; then the table is exact."""

    def rows_in() -> int:
        progress = system.get(f"/v1/pipelines/{name}/progress", limit=1)
        return int(progress["totals"]["rows_in"])

    system.wait_for(f"{given.count} changes", lambda: rows_in() >= given.count)
    assert rows_in() == given.count
    assert _table(system, name, table) == given.table()


def _table(system: System, name: str, table: str = "latest") -> dict[int, tuple[int, str]]:
    return {row["k"]: (row["id"], row["v"]) for row in system.table(name, table)}


def _taken(system: System, reply: Any) -> dict[str, Any]:
    assert reply.status_code == 202, reply.text
    place = reply.headers["location"]
    system.wait_for("the savepoint", lambda: system.get(place)["state"] != "IN_PROGRESS")
    found: dict[str, Any] = system.get(place)
    assert found["state"] == "COMPLETED", found
    return found
