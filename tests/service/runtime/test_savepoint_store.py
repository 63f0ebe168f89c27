"""The folder of savepoints and the copies of checkpoints, by themselves."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from service.runtime.checkpoints import restore_checkpoint, save_checkpoint
from service.runtime.errors import SavepointFailed, SavepointNotFound, TooManySavepoints
from service.runtime.savepoint_store import SavepointStore, new_id, ordered_ms
from service.settings import SavepointSettings
from state.backends.transport import RedisTransport
from state.errors import Fenced, SavepointCorrupt, StateLost
from state.savepoint import MANIFEST
from state.savepoint.restore_fence import RestoreFence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import redis

    Begun = Callable[[], RestoreFence]


@pytest.fixture
def begun(redis_client: redis.Redis) -> Iterator[Begun]:
    """Begins a restore of a pipeline, which fences off those before."""
    with closing(RedisTransport(redis_client)) as transport:
        yield lambda: RestoreFence(transport, "copy", b"{}")


@pytest.fixture
def store(tmp_path: Path) -> SavepointStore:
    return SavepointStore(SavepointSettings(folder=tmp_path / "root", per_pipeline_max=3))


def _complete(store: SavepointStore, savepoint: str) -> None:
    hidden = store.begin("p", savepoint)
    (hidden / MANIFEST).write_bytes(b"{}")
    store.end("p", savepoint, hidden)


def test_ids_sort_by_time_and_tell_it() -> None:
    ids = [new_id(ms) for ms in (0, 999, 1_000, 1_700_000_000_123)]

    assert ids == sorted(ids)
    assert [ordered_ms(each) for each in ids] == [0, 999, 1_000, 1_700_000_000_123]
    assert new_id(5) != new_id(5)


def test_one_appears_as_a_whole_and_what_dead_processes_left_goes(store: SavepointStore) -> None:
    first, second, third = (new_id(ms) for ms in (1, 2, 3))
    (store.begin("p", first) / "part").write_bytes(b"half")
    assert store.ids("p") == []
    with pytest.raises(SavepointNotFound):
        store.resolve("p", first)

    _complete(store, second)
    hidden = store.begin("p", third)

    assert [each for each in hidden.parent.iterdir() if each.name.startswith(".")] == [hidden]
    assert store.ids("p") == [second]
    assert store.resolve("p", "latest") == second
    assert store.ids("other") == store.ids("..") == []


def test_one_that_comes_too_late_leaves_alone_what_was_ordered_after_it(
    store: SavepointStore,
) -> None:
    older, newer = new_id(1), new_id(2)
    hidden = store.begin("p", newer)
    (hidden / MANIFEST).write_bytes(b"{}")

    left = [hidden.with_name(f".gone-{older}"), hidden.with_name(".of nobody")]
    for each in left:
        each.mkdir()

    ours = store.begin("p", older)

    assert not any(each.exists() for each in left)
    assert {each.name for each in hidden.parent.iterdir()} == {hidden.name, ours.name}
    store.end("p", newer, hidden)
    assert store.resolve("p", "latest") == newer


def test_what_is_removed_is_gone_before_it_could_be_ended(
    store: SavepointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service ends a savepoint while another one, which takes it for dead, removes its files."""
    savepoint = new_id(1)
    theirs = store.begin("p", savepoint)
    (theirs / MANIFEST).write_bytes(b"{}")

    def while_removing(folder: Path, *, ignore_errors: bool) -> None:
        monkeypatch.undo()
        with pytest.raises(FileNotFoundError):
            store.end("p", savepoint, theirs)
        shutil.rmtree(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", while_removing)
    ours = store.begin("p", savepoint)

    assert not theirs.exists()
    assert [each.name for each in ours.parent.iterdir()] == [ours.name]


def test_a_failed_one_tells_why_and_is_not_the_latest(store: SavepointStore) -> None:
    older, newer = new_id(1), new_id(2)
    _complete(store, older)
    failure = SavepointFailed("no room", code="savepoint.files", hint="make some")
    store.fail("p", newer, failure)

    told = {"code": "savepoint.files", "message": "no room; make some"}
    assert store.get("p", newer).failure == told
    assert store.resolve("p", "latest") == older
    assert not store.is_there("p", newer)
    with pytest.raises(SavepointNotFound):
        store.resolve("p", newer)
    # The same one may be tried again: a pipeline that is to be kept does.
    _complete(store, newer)
    assert store.resolve("p", "latest") == newer


def test_one_that_was_taken_stays_whatever_another_service_fails_at(store: SavepointStore) -> None:
    savepoint = new_id(1)
    ours = store.begin("p", savepoint)
    _complete(store, savepoint)

    assert not ours.exists()
    store.fail("p", savepoint, SavepointFailed("its folder is gone"))

    assert store.is_there("p", savepoint)
    assert store.resolve("p", "latest") == savepoint


def test_room_is_limited_and_deleting_makes_some(store: SavepointStore) -> None:
    ids = [new_id(ms) for ms in range(3)]
    for each in ids:
        store.check_room("p")
        _complete(store, each)
    with pytest.raises(TooManySavepoints):
        store.check_room("p")

    store.delete("p", ids[0])
    store.check_room("p")
    with pytest.raises(SavepointNotFound):
        store.delete("p", ids[0])


@pytest.mark.parametrize("strange", ["", ".", "..", "../p", "latest/..", "19700101T000000000-0"])
def test_what_is_no_id_is_not_found(store: SavepointStore, strange: str) -> None:
    for call in (store.get, store.resolve, store.delete, store.folder):
        with pytest.raises(SavepointNotFound):
            call("p", strange)
        with pytest.raises(SavepointNotFound):
            call(strange, new_id(1))


def _checkpoint(folder: Path, offsets: int, commits: int) -> Path:
    for log, count in (("offsets", offsets), ("commits", commits)):
        (folder / log).mkdir(parents=True)
        for batch in range(count):
            (folder / log / str(batch)).write_text(f"{log} {batch}")
            (folder / log / f".{batch}.crc").write_text("of the file system")
    return folder


@pytest.mark.parametrize(
    ("epoch", "offsets", "commits"), [(3, 2, 2), (3, 3, 1), (3, 4, 4), (1, 0, 0)]
)
def test_a_checkpoint_of_another_epoch_is_refused(
    tmp_path: Path, epoch: int, offsets: int, commits: int
) -> None:
    checkpoint = _checkpoint(tmp_path / "checkpoint", offsets, commits)

    with pytest.raises(StateLost, match=f"closed at epoch {epoch}"):
        save_checkpoint(checkpoint, tmp_path, epoch)


PLANNED = ['{"file":2,"at":0,"tick":5,"time":9}', '{"changes":{"0":7}}', '{"tick":5,"time":9}']


@pytest.mark.parametrize(
    ("commits", "lines", "place", "is_taken"),
    [
        (2, PLANNED, {"file": 2, "at": 0}, True),
        # As a version that kept ticks in the marker has closed it.
        (2, PLANNED, {"file": 2, "at": 0, "tick": 4}, True),
        (2, PLANNED, {"topics": {"changes": {"0": 6}}}, True),
        (2, PLANNED, {}, True),
        (2, ["-"], {"file": 1, "at": 0}, True),
        (2, PLANNED, {"file": 1, "at": 0}, False),
        # Spark has recorded that it is through, so it was closed as it was planned.
        (3, PLANNED, {"file": 1, "at": 0}, True),
    ],
)
def test_an_epoch_that_was_planned_anew_since_it_was_closed_is_refused(
    tmp_path: Path, commits: int, lines: list[str], place: dict[str, Any], *, is_taken: bool
) -> None:
    """The record was lost with the machine: what came since would be taken for read."""
    checkpoint = _checkpoint(tmp_path / "first", 3, commits)
    (checkpoint / "offsets" / "2").write_text("\n".join(["v1", "{}", *lines]))
    (tmp_path / "saved").mkdir()

    if is_taken:
        assert len(save_checkpoint(checkpoint, tmp_path / "saved", 3, [place])) == 4
        return
    with pytest.raises(StateLost, match="epoch 3, which the checkpoint has with other offsets"):
        save_checkpoint(checkpoint, tmp_path / "saved", 3, [place])


@pytest.mark.parametrize(("offsets", "commits"), [(3, 3), (4, 3), (3, 2), (4, 2)])
def test_nothing_behind_the_epoch_goes_along(
    begun: Begun, tmp_path: Path, offsets: int, commits: int
) -> None:
    checkpoint = _checkpoint(tmp_path / "first", offsets, commits)
    (tmp_path / "saved").mkdir()

    files = save_checkpoint(checkpoint, tmp_path / "saved", 3)

    logs = ["commits/1", "commits/2", "offsets/1", "offsets/2"]
    assert files == [f"checkpoint/{each}" for each in logs]
    target = tmp_path / "second"
    (tmp_path / ".second-half" / "of one that died").mkdir(parents=True)
    restore_checkpoint(tmp_path / "saved", files, target, begun())
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    found = sorted(str(each.relative_to(target)) for each in target.rglob("*") if each.is_file())
    assert found == [*logs[:2], "metadata", *logs[2:]]
    assert (target / "offsets" / "2").read_text() == "offsets 2"


def test_a_checkpoint_that_is_there_stays(begun: Begun, tmp_path: Path) -> None:
    """A restore that was overtaken must not put another one below a query that runs by now."""
    checkpoint = _checkpoint(tmp_path / "first", 3, 3)
    (tmp_path / "saved").mkdir()
    files = save_checkpoint(checkpoint, tmp_path / "saved", 3)
    restore_checkpoint(tmp_path / "saved", files, tmp_path / "second", begun())
    (tmp_path / "second" / "offsets" / "3").write_text("of a run since")

    restore_checkpoint(tmp_path / "saved", files, tmp_path / "second", begun())

    assert (tmp_path / "second" / "offsets" / "3").read_text() == "of a run since"


@pytest.mark.parametrize("stands_in", ["listing", "copying", "its last look at the fence"])
def test_a_restore_that_stood_still_touches_nothing_of_the_one_that_overtook_it(
    begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands_in: str
) -> None:
    """The first one goes on while the second has half of its files; it is fenced off."""
    checkpoint = _checkpoint(tmp_path / "first", 3, 3)
    (tmp_path / "saved").mkdir()
    files = save_checkpoint(checkpoint, tmp_path / "saved", 3)
    target = tmp_path / "second"
    (tmp_path / ".second-0-dead").mkdir()
    first, stood, goes_on = begun(), Event(), Event()
    second_copied, first_ended = Event(), Event()
    copy, glob, look = shutil.copyfile, Path.glob, first.write

    def stand(place: str) -> None:
        if place == stands_in and not stood.is_set():
            stood.set()
            assert goes_on.wait(30)

    def lists(folder: Path, pattern: str, **options: object) -> Iterable[Path]:
        stand("listing")
        return glob(folder, pattern, **options)

    def copies(source: Path, to: Path) -> None:
        stand("copying")
        copy(source, to)
        if stood.is_set() and not second_copied.is_set() and "-2-" in str(to):
            second_copied.set()
            goes_on.set()
            assert first_ended.wait(30)

    def looks() -> None:
        look()
        stand("its last look at the fence")

    monkeypatch.setattr(shutil, "copyfile", copies)
    monkeypatch.setattr(Path, "glob", lists)
    monkeypatch.setattr(first, "write", looks)
    with ThreadPoolExecutor(1) as pool:
        overtaken = pool.submit(restore_checkpoint, tmp_path / "saved", files, target, first)
        overtaken.add_done_callback(lambda _: first_ended.set())
        assert stood.wait(30)
        second = begun()
        assert (first.run, second.run) == (1, 2)
        restore_checkpoint(tmp_path / "saved", files, target, second)
        assert isinstance(overtaken.exception(), Fenced)

    found = sorted(str(each.relative_to(target)) for each in target.rglob("*") if each.is_file())
    assert found == sorted([*(each.removeprefix("checkpoint/") for each in files), "metadata"])
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_before_the_first_epoch_there_is_nothing_to_take(begun: Begun, tmp_path: Path) -> None:
    assert save_checkpoint(tmp_path / "absent", tmp_path, 0) == []

    restore_checkpoint(tmp_path, [], tmp_path / "second", begun())
    assert not (tmp_path / "second").exists()


def test_a_file_outside_of_the_checkpoint_is_refused(begun: Begun, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    with pytest.raises(SavepointCorrupt):
        restore_checkpoint(tmp_path, ["checkpoint/../../outside"], tmp_path / "second", begun())
