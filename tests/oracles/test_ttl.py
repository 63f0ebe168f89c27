"""The recorded TTL traces of Flink's heap state, and how the runner replays such files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from state.testing.sessions import LAYOUTS
from state.testing.stand import heap_stand, redis_stand
from tests.oracles import RECORDED
from tests.oracles.__main__ import main
from tests.oracles.cases import read_lines
from tests.oracles.ttl import ttl_difference

if TYPE_CHECKING:
    from pathlib import Path

    import redis

TRACES = RECORDED / "ttl" / "traces.jsonl"
ENTRY: dict[str, Any] = {
    "state": "map",
    "updateType": "OnReadAndWrite",
    "visibility": "ReturnExpiredIfNotCleanedUp",
    "ttl": 10,
}
PUT = {"t": 0, "key": "k", "op": "put", "arg": [1, 5]}


def test_the_traces_are_there() -> None:
    assert sum(len(entry["ops"]) for entry in read_lines(TRACES)) >= 10_000


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("state", ["value", "list", "map", "reducing", "aggregating"])
def test_every_recorded_operation_has_its_result_on_heap(state: str, layout: str) -> None:
    for number, entry in recorded(state):
        assert ttl_difference(entry, heap_stand(), layout) is None, f"line {number}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("state", ["value", "list", "map", "reducing", "aggregating"])
def test_every_recorded_operation_has_its_result_on_redis(
    state: str, layout: str, redis_client: redis.Redis
) -> None:
    """All of them: half a minute, on the one server of the test run."""
    for number, entry in recorded(state):
        with redis_stand(redis_client, f"ttl-{number}") as stand:
            assert ttl_difference(entry, stand, layout) is None, f"line {number}"


def recorded(state: str) -> list[tuple[int, Any]]:
    return [each for each in enumerate(read_lines(TRACES), 1) if each[1]["state"] == state]


def trace_file(folder: Path, *entries: Any) -> Path:
    path = folder / "any name.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in entries))
    return path


def test_each_line_is_a_case_in_each_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = {"t": 5, "key": "k", "op": "get", "arg": 1, "result": 5}
    path = trace_file(tmp_path, ENTRY | {"ops": [PUT]}, ENTRY | {"ops": [PUT, read]})

    assert main([str(path), "--backend", "heap"]) == 0
    assert capsys.readouterr().out == "4 passed, 0 failed\n"


def test_the_first_difference_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"t": 10, "key": "k", "op": "get", "arg": 1, "result": None}
    path = trace_file(tmp_path, ENTRY | {"ops": [PUT]}, ENTRY | {"ops": [PUT, wrong, wrong]})

    assert main([str(tmp_path), "--backend", "heap"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:2 [heap, packed]: an epoch for each operation: operation 1 (get of k at 10): "
        "5, expected None",
        f"{path}:2 [heap, spread]: an epoch for each operation: operation 1 (get of k at 10): "
        "5, expected None",
        "2 passed, 2 failed",
    ]


def test_an_operation_that_no_state_has_fails_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_file(tmp_path, ENTRY | {"ops": [PUT | {"op": "multiply"}]})

    assert main([str(path), "--backend", "heap"]) == 1
    assert "KeyError: ('map', 'multiply')" in capsys.readouterr().out
