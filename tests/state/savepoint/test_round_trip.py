"""What is saved and restored is there byte for byte, and goes on as if it had never stopped.

What is left out is told by the clean-up of the primitives, which shares no code with it: a
filtered savepoint, restored, must be what an exact clean-up at the same time leaves.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.errors import StateLost
from state.savepoint import SaveOptions, read_manifest
from state.testing.sessions import LAYOUTS, PACKED, SPREAD
from state.testing.stand import NODE, PARALLELISM
from state.ttl import DISABLED, Cleanup, TtlClock, TtlConfig, UpdateType
from tests.state.savepoint.world import KEYS, World, dump, orphans, place

if TYPE_CHECKING:
    import redis

    from tests.state.savepoint.world import Op

TTL_MS = 10
LAZY = TtlConfig(TTL_MS, cleanup=Cleanup(background=False))
EXACT = TtlConfig(TTL_MS, cleanup=Cleanup(by_timer=True))
_values = st.integers(0, 9)
_texts = st.text("uvw", max_size=3)
_keys = st.sampled_from(KEYS)


def _op(name: str, *arguments: Any) -> st.SearchStrategy[Op]:
    return st.tuples(st.just(name), _keys, st.tuples(*arguments))


OPS = st.one_of(
    _op("value", _values),
    _op("reducing", _values),
    _op("aggregating", _values),
    _op("list", _values),
    _op("map", _texts, _values | st.none()),
    _op("sorted_map", _texts, _values),
    _op("multiset", _texts, _values),
    _op("timers", st.integers(0, 30)),
)
EPOCHS = st.lists(
    st.tuples(st.integers(0, TTL_MS), st.lists(OPS, max_size=25)), min_size=1, max_size=4
)
MODEST = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LAST: list[Op] = [
    (name, key, given)
    for key in KEYS[:3]
    for name, given in (
        ("value", (1,)),
        ("reducing", (2,)),
        ("aggregating", (3,)),
        ("list", (4,)),
        ("map", ("u", 5)),
        ("sorted_map", ("u", 6)),
        ("multiset", ("u", 7)),
        ("timers", (8,)),
    )
]


@pytest.mark.parametrize("layout", LAYOUTS)
@MODEST
@given(epochs=EPOCHS, has_ttl=st.booleans())
def test_a_restored_pipeline_is_what_was_saved_and_goes_on(
    redis_client: redis.Redis, layout: str, epochs: list[tuple[int, list[Op]]], has_ttl: bool
) -> None:
    redis_client.flushall()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        ttl = LAZY if has_ttl else DISABLED
        world = World.new(stack, redis_client, "orders", LAYOUTS[layout], ttl)
        now_ms = 100
        for number, (passed_ms, ops) in enumerate(epochs, 1):
            now_ms += passed_ms
            world.run_epoch(now_ms, ops, beside=orphans(number, KEYS[:2]))
        before = world.dump()

        manifest = world.save(Path(folder))
        assert world.dump() == before
        world.restore(Path(folder), read_manifest(Path(folder)), "copy", PARALLELISM)

        assert dump(redis_client, "copy") == before
        assert manifest.epoch == len(epochs)
        stamped = LAYOUTS[layout]
        copy = World.new(stack, redis_client, "copy", stamped, ttl, after_epoch=len(epochs))
        world.stand.reopen()
        for each in (world, copy):
            each.run_epoch(now_ms + 1, LAST, beside=orphans(len(epochs) + 1, KEYS))
        assert copy.dump() == world.dump()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("update", [UpdateType.ON_CREATE_AND_WRITE, UpdateType.ON_CREATE])
@MODEST
@given(epochs=EPOCHS, passed_ms=st.integers(0, TTL_MS + 1))
def test_what_is_expired_is_left_out_as_an_exact_clean_up_would_leave_it(
    redis_client: redis.Redis,
    layout: str,
    update: UpdateType,
    epochs: list[tuple[int, list[Op]]],
    passed_ms: int,
) -> None:
    redis_client.flushall()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        lazy = TtlConfig(TTL_MS, update, cleanup=LAZY.cleanup)
        world = World.new(stack, redis_client, "orders", LAYOUTS[layout], lazy)
        now_ms = 100
        for after_ms, ops in epochs:
            now_ms += after_ms
            world.run_epoch(now_ms, ops)
        now_ms += passed_ms

        manifest = world.save(Path(folder), SaveOptions(clock=TtlClock(now_ms)))
        world.restore(Path(folder), manifest, "copy", PARALLELISM)

        exact = TtlConfig(TTL_MS, update, cleanup=EXACT.cleanup)
        cleaned = World.new(
            stack, redis_client, "orders", LAYOUTS[layout], exact, after_epoch=len(epochs)
        )
        cleaned.run_epoch(now_ms)
        assert dump(redis_client, "copy") == cleaned.dump()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_ttl_that_was_switched_on_ends_elements_without_stamps(
    redis_client: redis.Redis, stack: ExitStack, tmp_path: Path, layout: str
) -> None:
    World.new(stack, redis_client, "orders", LAYOUTS[layout]).run_epoch(0, LAST)
    world = World.new(stack, redis_client, "orders", LAYOUTS[layout], LAZY, after_epoch=1)
    world.run_epoch(TTL_MS - 1, LAST[:8])

    manifest = world.save(tmp_path, SaveOptions(clock=TtlClock(TTL_MS)))
    world.restore(tmp_path, manifest, "copy", PARALLELISM)

    kept = {each.name: each.keys for each in manifest.states}
    assert kept == {**dict.fromkeys(kept, 1), "timers": 3}
    kept_keys = {
        field
        for name, held in dump(redis_client, "copy").items()
        if isinstance(held, dict) and name.partition(b":")[2].partition(b":")[2] == b"value"
        for field in held
    }
    assert kept_keys == {b'["a"]'}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_has_wholly_expired_leaves_nothing(
    redis_client: redis.Redis, stack: ExitStack, tmp_path: Path, layout: str
) -> None:
    world = World.new(stack, redis_client, "orders", LAYOUTS[layout], LAZY)
    world.run_epoch(0, [each for each in LAST if each[0] != "timers"])

    manifest = world.save(tmp_path, SaveOptions(clock=TtlClock(TTL_MS)))
    world.restore(tmp_path, manifest, "copy", PARALLELISM)

    assert dump(redis_client, "copy") == {}
    assert {each.name: each.expired for each in manifest.states if each.name != "timers"} == (
        dict.fromkeys(("value", "reducing", "aggregating", "list", "map"), 3)
        | {"sorted_map": 3, "multiset": 3}
    )


@pytest.mark.parametrize("thresholds", [PACKED, SPREAD])
def test_another_number_of_key_groups_moves_every_key_to_its_own(
    redis_client: redis.Redis, stack: ExitStack, tmp_path: Path, thresholds: Any
) -> None:
    world = World.new(stack, redis_client, "orders", thresholds, LAZY)
    world.run_epoch(0, LAST, beside=orphans(1, KEYS))
    world.run_epoch(1, LAST, beside=orphans(2, KEYS))
    manifest = world.save(tmp_path)

    world.restore(tmp_path, manifest, "wider", 16)

    wider = dump(redis_client, "wider")
    same = World.new(stack, redis_client, "same", thresholds, LAZY, groups=16)
    same.run_epoch(0, LAST)
    same.run_epoch(1, LAST)
    beside = {b"orphans", b"counters"}
    state = {name: held for name, held in wider.items() if name.rpartition(b":")[2] not in beside}
    assert state == same.dump()
    listed = [
        (int(name.split(b":")[1].rstrip(b"}")), identity, fields[b"key"])
        for name, held in wider.items()
        if name.endswith(b":orphans")
        for identity, fields in held
    ]
    assert len(listed) == 2 * len(KEYS)
    assert all(group == place(NODE, key, 16) for group, _, key in listed)
    assert sum(int(held[b"orphans"]) for name, held in wider.items() if b"counters" in name) == 10

    moved = World.new(stack, redis_client, "wider", thresholds, LAZY, after_epoch=2, groups=16)
    same.stand.reopen()
    for each in (moved, same):
        each.run_epoch(2, LAST, beside=orphans(3, KEYS))
    mine = {name: each for name, each in moved.dump().items() if b"orphans" not in name}
    other = {name: each for name, each in same.dump().items() if b"orphans" not in name}
    assert {n: e for n, e in mine.items() if b"counters" not in n} == {
        n: e for n, e in other.items() if b"counters" not in n
    }


def test_the_ledger_goes_on_with_the_epoch_after_and_no_other(
    redis_client: redis.Redis, stack: ExitStack, tmp_path: Path
) -> None:
    world = World.new(stack, redis_client, "orders", PACKED)
    world.run_epoch(0, LAST)
    world.run_epoch(1, LAST)
    manifest = world.save(tmp_path)
    world.restore(tmp_path, manifest, "copy", PARALLELISM)

    copy = World.new(stack, redis_client, "copy", PACKED, after_epoch=2)
    ledger = copy.stand.stand.ledger
    original = world.stand.stand.ledger.marker()
    assert ledger.marker() == original
    ledger.check(3)
    with pytest.raises(StateLost):
        ledger.check(1)
    assert ledger.registered() == world.stand.stand.ledger.registered() | {b"extension_ms": b"0"}


def test_parts_are_cut_at_their_size_and_read_as_one(
    redis_client: redis.Redis, stack: ExitStack, tmp_path: Path
) -> None:
    world = World.new(stack, redis_client, "orders", SPREAD)
    world.run_epoch(0, LAST)

    manifest = world.save(tmp_path, SaveOptions(part_bytes=1_000))
    world.restore(tmp_path, manifest, "copy", PARALLELISM)

    assert len(manifest.parts) > 3
    assert dump(redis_client, "copy") == world.dump()
