"""Generated rows are a function of their position."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from service.runtime.sources import datagen
from service.runtime.sources.datagen import field_rules, rows_total
from tests.service.runtime.sources.readers import make_reader, read_epoch

if TYPE_CHECKING:
    import redis

COLUMNS = {
    "id": "BIGINT",
    "n": "SMALLINT",
    "s": "STRING",
    "d": "DECIMAL(6, 2)",
    "f": "FLOAT",
    "b": "BOOLEAN",
    "t": "TIMESTAMP(3)",
}
OPTIONS = {
    "fields.id.kind": "sequence",
    "fields.id.start": "5",
    "fields.n.min": "-3",
    "fields.n.max": "3",
    "fields.s.length": "7",
    "fields.d.max": "99",
    "fields.f.null-rate": "0.5",
    "fields.t.max-past": "1 h",
}


def test_rows_are_the_same_however_they_are_cut(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = {"rows": 10, "base": 1_000_000}, {"rows": 60, "base": 1_000_000}
    reader = make_reader(redis_client, "", COLUMNS, "datagen", options=OPTIONS)
    whole = read_epoch(reader, start, end)

    monkeypatch.setattr(datagen, "_ROWS_PER_CUT", 7)
    cut = read_epoch(reader, start, end)

    assert (whole.tasks, cut.tasks) == (1, 2)
    assert whole.rows == cut.rows
    assert whole.orders == cut.orders == list(range(50))


def test_values_keep_to_their_rules(redis_client: redis.Redis) -> None:
    reader = make_reader(redis_client, "", COLUMNS, "datagen", options=OPTIONS)

    epoch = read_epoch(reader, {"rows": 0, "base": 10**12}, {"rows": 300, "base": 10**12})

    columns = list(zip(*epoch.rows, strict=True))
    assert list(columns[1]) == list(range(5, 305))
    assert set(columns[2]) == set(range(-3, 4))
    assert {len(each) for each in columns[3]} == {7}
    assert all(0 <= each <= 99 for each in columns[4])
    assert 50 < sum(each is None for each in columns[5]) < 250
    assert set(columns[6]) == {True, False}
    assert len(set(columns[7])) > 200


def test_rows_come_by_the_clock_up_to_the_limit_and_the_end(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"rows-per-second": "10", "number-of-rows": "25"}
    reader = make_reader(redis_client, "", {"id": "INT"}, "datagen", options=options)
    now = time.time()
    start = {"rows": 0, "base": int(now * 1000)}

    monkeypatch.setattr("time.time", lambda: now + 1.05)
    after_a_second = reader.advance(start, None)
    monkeypatch.setattr("time.time", lambda: now + 60)
    limited, last = reader.advance(after_a_second, 7), reader.advance(after_a_second, None)

    assert [each["rows"] for each in (after_a_second, limited, last)] == [10, 17, 25]
    assert rows_total({"fields.a.start": "3", "fields.a.end": "7"}) == 5


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("INT", {"fields.x.kind": "fibonacci"}, InvalidTableOption),
        ("INT", {"fields.x.min": "9", "fields.x.max": "1"}, InvalidTableOption),
        ("INT", {"fields.x.min": "low"}, InvalidTableOption),
        ("ARRAY<INT>", {}, UnsupportedConnector),
    ],
)
def test_rules_that_cannot_be_are_refused(
    redis_client: redis.Redis, kind: str, options: dict[str, str], error: type[Exception]
) -> None:
    reader = make_reader(redis_client, "", {"x": kind}, "datagen", options=options)

    with pytest.raises(error):
        field_rules(reader.spec)
