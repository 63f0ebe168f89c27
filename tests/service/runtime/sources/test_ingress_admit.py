"""Cutting an ingress stream into runs of whole entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.dataflow_errors import SourceUnavailable
from service.runtime.sources.ingress import IngressReader
from service.runtime.sources.spec import SourceSpec
from service.runtime.wire_columns import wire_struct
from state.backends.interface import EpochStamp
from state.epochs import EpochLedger
from state.types import parse_type
from tests.conftest import free_port

if TYPE_CHECKING:
    import redis


def reader(url: str, partitions: int = 2) -> IngressReader:
    spec = SourceSpec(
        connector="ingress",
        table="t",
        pipeline="p",
        redis_url=url,
        names=("k",),
        types=("INT",),
        physical=(("k", "INT"),),
        partitions=partitions,
    )
    return IngressReader(spec, wire_struct([parse_type("INT")], ("_kind", "_order", "_note")))


def fill(client: redis.Redis, counts: list[int]) -> list[str]:
    lines = '{"op":"+I","data":{"k":1}}'
    return [
        client.xadd("tailrace:{p}:ingress:t", {"n": each, "d": "\n".join([lines] * each)}).decode()
        for each in counts
    ]


def url_of(client: redis.Redis) -> str:
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


def test_an_epoch_takes_whole_entries_up_to_the_limit(redis_client: redis.Redis) -> None:
    ids = fill(redis_client, [3, 4, 5, 100, 1])
    source = reader(url_of(redis_client))
    first = source.advance(source.first_offset(), 8)
    second = source.advance(first, 8)
    third = source.advance(second, 8)

    assert first == {"id": ids[1], "rows": 7}
    assert second == {"id": ids[2], "rows": 12}
    assert third == {"id": ids[3], "rows": 112}, "an entry above the limit is an epoch by itself"
    assert source.advance(third, None) == {"id": ids[4], "rows": 113}


def test_nothing_new_leaves_the_offset(redis_client: redis.Redis) -> None:
    source = reader(url_of(redis_client))

    assert source.advance({"id": "0-0", "rows": 0, "tick": 3}, 10) == {"id": "0-0", "rows": 0}
    assert source.cuts({"id": "0-0", "rows": 0}, {"id": "0-0", "rows": 0}) == []


def test_cuts_meet_and_number_rows_over_all_entries(redis_client: redis.Redis) -> None:
    ids = fill(redis_client, [1] * 150 + [3_000, 3_000, 10])
    source = reader(url_of(redis_client))
    start = source.first_offset()

    work = source.cuts(start, source.advance(start, None))

    cuts = [cut for each in work for cut in each]
    assert len(cuts) == 2
    assert (cuts[0].behind, cuts[-1].last) == ("0-0", ids[-1])
    assert cuts[1].behind == cuts[0].last
    assert cuts[1].rows_before == cuts[0].rows
    assert sum(each.rows for each in cuts) == 6_160


def test_commit_deletes_what_was_read_and_nothing_else(redis_client: redis.Redis) -> None:
    ids = fill(redis_client, [1, 1, 1])
    close(redis_client, ids[2])

    reader(url_of(redis_client)).commit({"id": ids[1], "rows": 2})

    assert left(redis_client) == ids[2:]


def test_what_redis_has_not_closed_stays_whatever_spark_has_recorded(
    redis_client: redis.Redis,
) -> None:
    """A replica with less took over: the state is lost, and what could bring it back is not."""
    ids = fill(redis_client, [1, 1, 1])
    source = reader(url_of(redis_client))

    source.commit({"id": ids[2], "rows": 3})
    assert left(redis_client) == ids

    close(redis_client, ids[0])
    source.commit({"id": ids[2], "rows": 3})
    assert left(redis_client) == ids[1:]


def test_a_redis_that_is_away_is_told_as_that() -> None:
    with pytest.raises(SourceUnavailable, match="redis: ConnectionError"):
        reader(f"redis://127.0.0.1:{free_port()}/0").commit({"id": "1-0", "rows": 1})


def close(client: redis.Redis, entry: str) -> None:
    """Close an epoch that read up to this entry."""
    run = EpochLedger(client, "p").open_run([], 1)
    epoch = EpochLedger(client, "p").marker().epoch + 1
    EpochLedger(client, "p").close_epoch(EpochStamp(epoch, run, 1), {"t": {"id": entry}}, [])


def left(client: redis.Redis) -> list[str]:
    return [identity.decode() for identity, _ in client.xrange("tailrace:{p}:ingress:t")]
