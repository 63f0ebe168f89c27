"""What cannot be used is refused before anything is written, and says why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import redis as redis_module

from state.descriptors import JSON, ListDescriptor
from state.errors import (
    CodecMismatch,
    FormatVersionMismatch,
    SavepointCorrupt,
    SavepointMismatch,
    SavepointTargetInUse,
)
from state.savepoint import MANIFEST, SaveOptions, read_manifest, restored_states
from state.savepoint.files import write_manifest
from state.testing.sessions import PACKED
from state.testing.stand import NODE, PARALLELISM
from tests.state.savepoint.test_round_trip import LAST
from tests.state.savepoint.world import World, dump, restore

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    import redis

    from state.savepoint import Manifest


@pytest.fixture
def world(redis_client: redis.Redis, stack: ExitStack) -> World:
    made = World.new(stack, redis_client, "orders", PACKED)
    made.run_epoch(0, LAST)
    return made


def _cut(folder: Path, manifest: Manifest) -> None:
    path = folder / manifest.parts[0].path
    path.write_bytes(path.read_bytes()[:-1])


def _flipped(folder: Path, manifest: Manifest) -> None:
    path = folder / manifest.parts[0].path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _missing(folder: Path, manifest: Manifest) -> None:
    (folder / manifest.parts[0].path).unlink()


def _edited(folder: Path, manifest: Manifest) -> None:
    text = (folder / MANIFEST).read_bytes()
    (folder / MANIFEST).write_bytes(text.replace(b'"epoch": 1', b'"epoch": 2'))


def _manifest_cut(folder: Path, manifest: Manifest) -> None:
    text = (folder / MANIFEST).read_bytes()
    (folder / MANIFEST).write_bytes(text[: len(text) // 2])


def _no_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST).unlink()


def _outside(folder: Path, manifest: Manifest) -> None:
    parts = (replace(manifest.parts[0], path="../outside"),)
    write_manifest(folder, replace(manifest, parts=parts))


@pytest.mark.parametrize(
    "damage", [_cut, _flipped, _missing, _edited, _manifest_cut, _no_manifest, _outside]
)
def test_a_damaged_savepoint_is_refused_and_writes_nothing(
    world: World, tmp_path: Path, damage: Callable[[Path, Manifest], None]
) -> None:
    damage(tmp_path, world.save(tmp_path))

    with pytest.raises(SavepointCorrupt):
        world.restore(tmp_path, read_manifest(tmp_path), "copy", PARALLELISM)
    assert not [*world.client.scan_iter("tailrace:{copy*")]


def test_a_newer_format_is_refused_by_name(world: World, tmp_path: Path) -> None:
    world.save(tmp_path)
    body = orjson.loads((tmp_path / MANIFEST).read_bytes())
    (tmp_path / MANIFEST).write_bytes(orjson.dumps({**body, "format_version": 2}))

    with pytest.raises(FormatVersionMismatch, match="format version 2, this version reads 1"):
        read_manifest(tmp_path)


def test_records_that_are_missing_leave_a_restore_that_did_not_end(
    world: World, tmp_path: Path
) -> None:
    manifest = world.save(tmp_path)
    fewer = replace(manifest.parts[0], records=manifest.parts[0].records - 1)

    with pytest.raises(SavepointCorrupt, match="records"):
        world.restore(tmp_path, replace(manifest, parts=(fewer,)), "copy", PARALLELISM)
    assert world.client.exists("tailrace:{copy}:restoring")
    assert not world.client.exists("tailrace:{copy}:marker")


def test_state_that_nobody_keeps_is_refused_unless_it_may_be_dropped(
    world: World, tmp_path: Path
) -> None:
    manifest = world.save(tmp_path)
    kept = [each for each in world.described if each.name not in ("map", "timers")]

    with pytest.raises(SavepointMismatch, match=f"{NODE}/map, {NODE}/timers"):
        restore(world.client, tmp_path, manifest, "copy", kept)
    assert not [*world.client.scan_iter("tailrace:{copy*")]

    restore(world.client, tmp_path, manifest, "copy", kept, allow_non_restored_state=True)
    names = {each.split(b":")[2] for each in dump(world.client, "copy")}
    assert names == {each.name.encode() for each in kept}


def test_a_state_in_another_form_is_refused(world: World, tmp_path: Path) -> None:
    manifest = world.save(tmp_path)
    others = [each for each in world.described if each.name != "value"]
    changed = [*others, ListDescriptor(name="value", codec=JSON)]

    with pytest.raises(CodecMismatch, match="saved as value of json, it is asked for as list"):
        restored_states(manifest, {NODE: changed}, allow_non_restored_state=True)


def test_a_state_that_holds_nothing_stands_in_nobodys_way(
    redis_client: redis.Redis, stack: ExitStack, tmp_path: Path
) -> None:
    world = World.new(stack, redis_client, "orders", PACKED)
    world.run_epoch(0, [each for each in LAST if each[0] == "list"])
    manifest = world.save(tmp_path)
    lists = [each for each in world.described if each.name == "list"]

    restore(
        world.client, tmp_path, manifest, "copy", [*lists, ListDescriptor(name="value", codec=JSON)]
    )

    assert dump(world.client, "copy") == world.dump()
    registered = world.client.hkeys("tailrace:{copy}:registry")
    assert sorted(registered) == [f"{NODE}/list".encode(), b"extension_ms"]


def test_a_pipeline_with_state_is_never_restored_into(world: World, tmp_path: Path) -> None:
    manifest = world.save(tmp_path)
    before = world.dump()

    with pytest.raises(SavepointTargetInUse, match="epoch 1"):
        world.restore(tmp_path, manifest, "orders", PARALLELISM)
    assert world.dump() == before


def test_a_pipeline_that_began_and_closed_nothing_is_not_restored_into(
    world: World, stack: ExitStack, tmp_path: Path
) -> None:
    manifest = world.save(tmp_path)
    World.new(stack, world.client, "begun", PACKED)

    with pytest.raises(SavepointTargetInUse, match="started already"):
        world.restore(tmp_path, manifest, "begun", PARALLELISM)


def test_other_key_groups_without_a_way_to_place_keys_are_refused(
    world: World, tmp_path: Path
) -> None:
    from state.backends.transport import RedisTransport
    from state.savepoint import restore_state

    manifest = world.save(tmp_path)
    with pytest.raises(SavepointMismatch, match="4 key groups, the pipeline 8"):
        restore_state(
            RedisTransport(world.client),
            "copy",
            tmp_path,
            manifest,
            wanted={NODE: world.described},
            max_parallelism=8,
        )


def test_the_slot_goes_with_the_state_and_a_stream_keeps_its_place(
    world: World, tmp_path: Path
) -> None:
    client, slot = world.client, "tailrace:{orders}:"
    client.hset(slot + "table:t", mapping={b"[1]": b'{"a":1}', b"\xff": b"\xfe"})
    client.rpush(slot + "files:f", *(str(each) for each in range(600)))
    client.set(slot + "dead:count", 7)
    for number in range(1, 40):
        client.xadd(slot + "ingress:i", {"n": 1, "d": b"\xff\n{}"}, id=f"{number}-0")
    client.xadd(slot + "ingress:empty", {"n": 1}, id="5-1")
    client.xtrim(slot + "ingress:empty", maxlen=0)
    names = {"table:t": "", "files:f": "", "dead:count": "", "ingress:i": "20-0"}
    named = {**names, "ingress:empty": "5-1", "ingress:never": "9-3", "places:none": ""}

    manifest = world.save(tmp_path, SaveOptions(slot=named))
    world.restore(tmp_path, manifest, "copy", PARALLELISM)

    copy = "tailrace:{copy}:"
    assert client.hgetall(copy + "table:t") == client.hgetall(slot + "table:t")
    assert client.lrange(copy + "files:f", 0, -1) == client.lrange(slot + "files:f", 0, -1)
    assert client.get(copy + "dead:count") == b"7"
    rest: Any = client.xrange(slot + "ingress:i", "(20-0")
    assert client.xrange(copy + "ingress:i") == rest
    assert not client.exists(copy + "places:none")
    for name, last in (("i", "39-0"), ("empty", "5-1"), ("never", "9-3")):
        # No id that was given out is given again.
        with pytest.raises(redis_module.ResponseError, match="equal or smaller"):
            client.xadd(copy + f"ingress:{name}", {"n": 1}, id=last)
        client.xadd(copy + f"ingress:{name}", {"n": 1})
