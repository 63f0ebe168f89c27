"""`GET …/history` under load: requests per second, p50 and p99, by size of the history.

A whole system of real processes; the load comes from this one, over keep-alive connections that
ask without a pause. Keys have histories of 1, 10 and 100 entries (the last ones spread). The client
shares the two processors with the service and Redis, so the figures are a lower bound.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

import orjson

from tests.integration.plans import materializer_plan
from tests.integration.system import System

SIZES = (1, 10, 100)
KEYS_PER_SIZE = 200
CONNECTIONS = (1, 8)
SECONDS = 5.0


def main() -> None:
    """Fill a pipeline, ask, and print the table."""
    with tempfile.TemporaryDirectory() as folder, System(Path(folder) / "system") as system:
        operator = _fill(system)
        print("| entries of the key | connections | requests/s | p50 ms | p99 ms |")
        print("|---:|---:|---:|---:|---:|")
        for number, size in enumerate(SIZES):
            keys = range(number * KEYS_PER_SIZE, (number + 1) * KEYS_PER_SIZE)
            paths = [f"/v1/pipelines/bench/operators/{operator}/keys/{key}/history" for key in keys]
            for connections in CONNECTIONS:
                times = asyncio.run(_load(system.port, paths, connections))
                quantiles = statistics.quantiles(times, n=100)
                print(
                    f"| {size} | {connections} | {len(times) / SECONDS:,.0f} "
                    f"| {quantiles[49] * 1000:.1f} | {quantiles[98] * 1000:.1f} |"
                )


def _fill(system: System) -> str:
    """Histories of each size, through the pipeline itself; returns the operator's id."""
    lines = []
    for number, size in enumerate(SIZES):
        for key in range(number * KEYS_PER_SIZE, (number + 1) * KEYS_PER_SIZE):
            for entry in range(size):
                row = {"id": key * 1000 + entry, "k": key, "v": f"value {entry} of a usual length"}
                lines.append(orjson.dumps({"op": "+I", "data": row}))
    folder = system.files / "bench"
    folder.mkdir()
    (folder / "changes.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    body = {"name": "bench", "plan": materializer_plan(path="bench"), "start": True}
    system.post("/v1/pipelines", body)

    def done() -> bool:
        reply = system.http.get("/v1/pipelines/bench/progress", params={"limit": 1})
        return reply.is_success and int(reply.json()["totals"]["rows_in"]) >= len(lines)

    system.wait_for("the input", done)
    return str(system.get("/v1/pipelines/bench/operators")["items"][0]["id"])


async def _load(port: int, paths: list[str], connections: int) -> list[float]:
    """Seconds that each answered request took."""
    deadline = time.perf_counter() + SECONDS
    runs = (_ask(port, paths, deadline, number) for number in range(connections))
    return [taken for run in await asyncio.gather(*runs) for taken in run]


async def _ask(port: int, paths: list[str], deadline: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    try:
        while time.perf_counter() < deadline:
            started = time.perf_counter()
            writer.write(f"GET {chance.choice(paths)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode(errors="replace").splitlines()[0])
            lengths = [
                line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            ]
            await reader.readexactly(int(lengths[0].partition(b":")[2]))
            times.append(time.perf_counter() - started)
    finally:
        writer.close()
    return times


if __name__ == "__main__":
    main()
