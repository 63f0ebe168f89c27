"""The lease: one service has it, Redis ends it, and who lost it writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.errors import LeaseLost
from service.runtime.lease import LEASE, ORDERS, STATUSES, Lease
from service.runtime.query_starter import RedisLedgers
from service.runtime.records import Failure
from service.runtime.registry import Registry
from service.settings import RedisSettings
from state.epochs import EpochLedger
from state.errors import Fenced
from tests.service.app_client import until

if TYPE_CHECKING:
    import redis

    from tests.conftest import RedisServer

LIFE_MS = 60_000
FAILURE = Failure("state-lost", "gone", 5)


@pytest.fixture
def first(redis_client: redis.Redis) -> Lease:
    return Lease(redis_client, LIFE_MS)


@pytest.fixture
def second(redis_client: redis.Redis) -> Lease:
    return Lease(redis_client, LIFE_MS)


def ended(client: redis.Redis) -> None:
    """The lease's life is over, by Redis."""
    client.pexpire(LEASE, 1)
    until(lambda: client.get(LEASE) is None)


def test_the_first_one_has_it_and_the_second_is_told_who(first: Lease, second: Lease) -> None:
    taken = first.beat({})
    told = second.beat({})

    assert (taken.holder, taken.begins) == (first.token, True)
    assert (told.holder, told.begins) == (first.token, False)
    assert 0 < taken.remaining_ms <= LIFE_MS
    assert first.beat({}).begins is False


def test_a_beat_renews_it_once_a_third_of_its_life_is_over(
    first: Lease, redis_client: redis.Redis
) -> None:
    first.beat({})
    redis_client.pexpire(LEASE, LIFE_MS * 2 // 3 + 5_000)
    assert first.beat({}).remaining_ms <= LIFE_MS * 2 // 3 + 5_000

    redis_client.pexpire(LEASE, LIFE_MS * 2 // 3 - 5_000)

    assert first.beat({}).remaining_ms > LIFE_MS - 5_000


def test_the_next_one_has_it_when_its_life_is_over(
    first: Lease, second: Lease, redis_client: redis.Redis
) -> None:
    first.beat({})
    ended(redis_client)

    assert second.beat({}).begins is True
    told = first.beat({})
    assert (told.holder, told.begins) == (second.token, False)


def test_it_is_given_back_by_who_has_it_only(first: Lease, second: Lease) -> None:
    first.beat({})
    second.release()
    assert second.beat({}).holder == first.token

    first.release()

    assert second.beat({}).begins is True


def test_orders_are_for_the_holder_and_are_given_once(
    first: Lease, second: Lease, redis_client: redis.Redis
) -> None:
    registry = Registry(redis_client, 10)
    first.beat({})
    registry.create("p", {"nodes": []})
    registry.order_start("p")

    assert second.beat({}).orders == frozenset()
    assert first.beat({}).orders == frozenset(), "it does not supervise yet"
    assert first.beat({}, 1).orders == {"p"}
    assert first.beat({}, 1).orders == frozenset()


def test_others_read_what_the_holder_says(
    first: Lease, second: Lease, redis_client: redis.Redis
) -> None:
    first.beat({})
    first.beat({"p": b"one", "q": b"two"}, 1)
    first.beat({"p": b"three", "q": b""}, 1)
    second.beat({"r": b"not the holder's"}, 1)

    assert second.beat({}).statuses == {"p": b"three"}
    ended(redis_client)
    second.beat({})
    assert first.beat({}).statuses == {}


def test_a_telling_takes_the_place_of_the_one_before_and_is_not_followed_by_it(
    first: Lease, second: Lease
) -> None:
    first.beat({})
    first.beat({"p": b"one", "q": b"two"}, 1)
    first.beat({"p": b"three"}, 2)
    first.beat({"p": b"one", "r": b"late"}, 1)

    assert second.beat({}).statuses == {"p": b"three"}


def test_who_supervises_does_not_take_it_anew(first: Lease, redis_client: redis.Redis) -> None:
    """It may have been another's in between, and what is under way would count under its token."""
    first.beat({})
    ended(redis_client)

    assert (first.beat({}, 1).holder, redis_client.exists(LEASE)) == ("", 0)
    first.begin_tenure()
    assert first.beat({}).begins is True


def test_a_redis_that_is_full_renews_it(first: Lease, redis_client: redis.Redis) -> None:
    first.beat({})
    redis_client.pexpire(LEASE, 1_000)
    redis_client.config_set("maxmemory", 1)
    try:
        beat = first.beat({"p": b"status"}, 1)
    finally:
        redis_client.config_set("maxmemory", 0)

    assert beat.remaining_ms > LIFE_MS - 5_000


def test_it_is_taken_while_redis_is_full(first: Lease, redis_client: redis.Redis) -> None:
    redis_client.config_set("maxmemory", 1)
    try:
        beat = first.beat({})
    finally:
        redis_client.config_set("maxmemory", 0)

    assert (beat.holder, beat.begins) == (first.token, True)


def test_notes_of_one_that_lost_it_are_refused(
    first: Lease, second: Lease, redis_client: redis.Redis
) -> None:
    registry = Registry(redis_client, 10, token=first.token)
    registry.create("p", {"nodes": []})
    first.beat({})
    registry.note_failure("p", FAILURE)
    ended(redis_client)
    second.beat({})

    with pytest.raises(LeaseLost):
        registry.note_failure("p", None)
    with pytest.raises(LeaseLost):
        registry.bury("p")

    assert registry.get("p").failure == FAILURE


def test_a_note_under_way_when_it_is_lost_is_not_written(
    first: Lease, redis_client: redis.Redis
) -> None:
    registry = Registry(redis_client, 10, token=first.token)
    first.beat({})
    registry.create("p", {"nodes": []})
    record = registry.get("p")

    def overtaken(*_: object) -> bytes:
        # Between what the transaction reads and what it writes.
        redis_client.set(LEASE, "another's")
        return b"{}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.runtime.registry_notes.orjson.dumps", overtaken)
        with pytest.raises(LeaseLost):
            registry.note_failure("p", FAILURE)

    assert registry.get("p") == record


def test_a_run_that_another_service_has_followed_is_not_started(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    redis_client.set("tailrace:{p}:run", 7)

    ledgers.require_run("p", 7)
    with pytest.raises(Fenced, match="run 7 owns the pipeline; this is run 6"):
        ledgers.require_run("p", 6)


def test_one_that_lost_it_fences_no_run_of_its_successor(
    first: Lease, redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    registry = Registry(redis_client, 10, token=first.token)
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url), registry.check_lease)
    redis_client.set(LEASE, "another's")

    with pytest.raises(LeaseLost):
        ledgers.drop("p")

    assert redis_client.keys("*{p}*") == []
    assert redis_client.exists(ORDERS, STATUSES) == 0


def test_one_that_stood_still_before_a_drop_takes_nothing_of_the_next_pipeline(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    successor = EpochLedger(redis_client, "p")
    successor.open_run([], 1)

    def overtaken() -> None:
        # Behind the look at the lease: the name is free again, and taken.
        successor.drop()
        successor.open_run([], 1)
        redis_client.set("tailrace:{p}:totals", "new")

    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url), overtaken)

    with pytest.raises(Fenced):
        ledgers.drop("p")

    assert redis_client.get("tailrace:{p}:totals") == b"new"
