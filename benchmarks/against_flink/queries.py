"""What both systems run, and the files that both read.

Every query is one job with one stateful operator, over insert-only JSON lines, into a sink that
takes a changelog and forgets it; so what is measured is reading, the exchange and the operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import orjson

if TYPE_CHECKING:
    from pathlib import Path

FILES = 8
IDS_PER_KEY = 10


@dataclass(frozen=True, slots=True)
class Query:
    """One job of the comparison."""

    name: str
    sink: str
    """Columns of the sink, and its key."""
    select: str
    with_names: bool = False
    """Whether it reads `names` as well as `events`."""
    on_conflict: str = ""
    """What the sink does with rows of one key, where Flink asks for it."""


QUERIES = (
    Query(
        "aggregate",
        "k INT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED",
        "SELECT k, COUNT(*), SUM(amount) FROM events GROUP BY k",
    ),
    Query(
        "join",
        "k INT, id BIGINT, amount BIGINT, name STRING",
        "SELECT e.k, e.id, e.amount, n.name FROM events AS e JOIN names AS n ON e.k = n.k",
        with_names=True,
    ),
    Query(
        "rank",
        "k INT, place BIGINT, id BIGINT, amount BIGINT, PRIMARY KEY (k, place) NOT ENFORCED",
        "SELECT k, place, id, amount FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY k ORDER BY amount DESC) AS place FROM events) WHERE place <= 5",
    ),
    Query(
        "deduplicate and materialize",
        "k INT, id BIGINT, v STRING, amount BIGINT, PRIMARY KEY (k) NOT ENFORCED",
        "SELECT k, id, v, amount FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY id ORDER BY came DESC) AS place FROM events) WHERE place = 1",
        on_conflict="ON CONFLICT DO DEDUPLICATE",
    ),
)
"""In the last one a key of the sink has many ids, so that its materializer keeps histories."""


def statements(query: Query, events: str, names: str) -> list[str]:
    """The job as statements that both systems take.

    Args:
        query: Which.
        events: Path of the folder of events, as the system names it.
        names: Path of the folder of names.
    """
    tables = [
        "CREATE TABLE events (id BIGINT, k INT, v STRING, amount BIGINT, came AS PROCTIME()) WITH "
        f"('connector' = 'filesystem', 'format' = 'json', 'path' = '{events}')"
    ]
    if query.with_names:
        tables.append(
            "CREATE TABLE names (k INT, name STRING) WITH "
            f"('connector' = 'filesystem', 'format' = 'json', 'path' = '{names}')"
        )
    sink = f"CREATE TABLE target ({query.sink}) WITH ('connector' = 'blackhole')"
    return [*tables, sink, f"INSERT INTO target {query.select} {query.on_conflict}".rstrip()]


def write_files(folder: Path, rows: int, keys: int) -> tuple[Path, Path]:
    """Write the events and the names.

    Args:
        folder: Where the two folders are made.
        rows: Events in all.
        keys: Keys of sinks and groups; each has `IDS_PER_KEY` ids.

    Returns:
        The folder of events and that of names.
    """
    events, names = folder / "events", folder / "names"
    for each in (events, names):
        each.mkdir(parents=True)
    chance = np.random.default_rng(keys)
    key = chance.integers(0, keys, rows)
    identity = key * IDS_PER_KEY + chance.integers(0, IDS_PER_KEY, rows)
    amount = chance.integers(0, 1_000_000, rows)
    lines = [
        orjson.dumps({"id": int(i), "k": int(k), "v": f"a value of {i}", "amount": int(a)})
        for i, k, a in zip(identity, key, amount, strict=True)
    ]
    for number in range(FILES):
        (events / f"{number:03}.json").write_bytes(b"\n".join(lines[number::FILES]) + b"\n")
    called = [orjson.dumps({"k": k, "name": f"name of {k}"}) for k in range(keys)]
    (names / "000.json").write_bytes(b"\n".join(called) + b"\n")
    return events, names
