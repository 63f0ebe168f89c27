"""Taking savepoints where another service begins to take the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.errors import SavepointFailed, SavepointNotFound
from service.runtime.records import SavepointOrder
from service.runtime.savepoint_store import new_id
from state.errors import StateCorrupt, StateUnavailable
from state.savepoint import StateSaver
from tests.service.api.test_savepoints import fake_checkpoint
from tests.service.api.test_state import Flights, flight

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from service.runtime.savepoints import Savepoints
    from tests.service.app_client import AppClient

ORDER = SavepointOrder(new_id(1), filter_expired=False, ordered_ms=1)


@pytest.fixture
def savepoints(app: AppClient, redis_client: redis.Redis) -> Savepoints:
    Flights(app, redis_client).run_epoch(("+I", flight("f1")))
    fake_checkpoint(app, "p", 1)
    found: Savepoints = app.app.state.services.savepoints
    return found


def test_who_is_overtaken_leaves_the_savepoint_to_the_other(
    app: AppClient, savepoints: Savepoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[Path] = []

    def overtaken(
        saver: StateSaver, savepoint: str, folder: Path, *_: object, **__: object
    ) -> None:
        theirs.append(savepoints.store.begin("p", savepoint))
        (folder / "part-00001").write_bytes(b"")

    monkeypatch.setattr(StateSaver, "save", overtaken)
    record = app.app.state.services.registry.get("p")
    with pytest.raises(StateUnavailable, match="another service"):
        savepoints.save(record, ORDER)

    assert theirs[0].is_dir()
    with pytest.raises(SavepointNotFound):
        savepoints.store.get("p", ORDER.id)


def test_a_failure_leaves_what_another_service_writes_and_nothing_of_its_own(
    app: AppClient, savepoints: Savepoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[Path] = []

    def fails(saver: StateSaver, savepoint: str, folder: Path, *_: object, **__: object) -> None:
        (folder / "part-00001").write_bytes(b"half")
        theirs.append(folder.with_name(f".{savepoint}-ffffffff"))
        theirs[0].mkdir()
        raise StateCorrupt("a stored row is none of ours")

    monkeypatch.setattr(StateSaver, "save", fails)
    record = app.app.state.services.registry.get("p")
    with pytest.raises(SavepointFailed):
        savepoints.save(record, ORDER)

    told = savepoints.store.get("p", ORDER.id).failure
    assert told is not None
    assert told["code"] == "state-corrupt"
    left = [each for each in theirs[0].parent.iterdir() if each.name.startswith(".")]
    assert left == theirs
