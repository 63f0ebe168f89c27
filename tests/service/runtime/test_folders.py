"""Folders that sinks write: one pipeline each, as long as there is one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan import load_plan
from service.runtime import folders
from service.runtime.dataflow import PipelineJob
from service.runtime.errors import QueryFailed
from service.runtime.folders import adopt_folders, claim_folders
from service.runtime.records import PipelineOptions
from service.runtime.sinks.owner import FOLDER_OWNER, Restored
from service.settings import ExecutionSettings
from tests.service.plans import INGRESS, flights_plan

if TYPE_CHECKING:
    from pathlib import Path

OUT = {"connector": "filesystem", "format": "changelog-json", "path": "out/flights"}
PLAN = load_plan(flights_plan(source=INGRESS, sink=OUT))


def claim(root: Path, name: str, identity: str, *others: tuple[str, str]) -> None:
    """Claim for a pipeline, beside others that there are."""
    job = PipelineJob(
        pipeline=name,
        plan=PLAN,
        run=1,
        incarnation=None,
        redis_url="",
        checkpoint="",
        options=PipelineOptions().resolved(ExecutionSettings()),
        parallelism=1,
        max_parallelism=8,
        files_root=str(root),
        version="0",
        pipeline_id=identity,
    )
    claim_folders(job, lambda *asked: asked in others)


def owner(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((root / OUT["path"] / FOLDER_OWNER).read_bytes())
    return found


def adopt(root: Path, name: str, identity: str, origin: str) -> None:
    adopt_folders(Restored(PLAN, name, identity, str(root), (), 4, origin, "first", frozenset()))


def test_a_folder_of_another_pipeline_is_refused_while_there_is_that(tmp_path: Path) -> None:
    claim(tmp_path, "a", "id-a")
    claim(tmp_path, "a", "id-a")

    with pytest.raises(QueryFailed, match="pipeline a writes to") as refused:
        claim(tmp_path, "b", "id-b", ("a", "id-a"))
    assert refused.value.code == "sink-folder-taken"
    claim(tmp_path, "b", "id-b", ("a", "another one of the name"))

    assert owner(tmp_path) == {"pipeline": "b", "id": "id-b"}
    assert [each.name for each in (tmp_path / OUT["path"]).iterdir()] == [FOLDER_OWNER]


def test_of_two_that_start_at_once_one_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the start of a service: the second looks while the first has not yet taken it."""
    looked, refused = threading.Event(), list[str]()
    both = ("a", "id-a"), ("b", "id-b")
    real = folders._take

    def second() -> None:
        looked.set()
        try:
            claim(tmp_path, "b", "id-b", *both)
        except QueryFailed as error:
            refused.append(error.code)

    other = threading.Thread(target=second)

    def take(folder: Path, pipeline: str, pipeline_id: str) -> None:
        if pipeline == "a":
            other.start()
            looked.wait()
            # Without an order of theirs the second comes to its end here.
            other.join(0.2)
        real(folder, pipeline, pipeline_id)

    monkeypatch.setattr(folders, "_take", take)
    claim(tmp_path, "a", "id-a", *both)
    other.join()

    assert refused == ["sink-folder-taken"]
    assert owner(tmp_path)["id"] == "id-a"


def test_a_restored_pipeline_takes_the_folders_of_the_first_one(tmp_path: Path) -> None:
    claim(tmp_path, "first", "id-1")
    both = ("first", "id-1"), ("second", "id-2")

    adopt(tmp_path, "second", "id-2", "id-1")

    claim(tmp_path, "second", "id-2", *both)
    with pytest.raises(QueryFailed, match="pipeline second writes"):
        claim(tmp_path, "first", "id-1", *both)


def test_a_restore_takes_no_folder_of_a_stranger(tmp_path: Path) -> None:
    claim(tmp_path, "stranger", "id-3")

    adopt(tmp_path, "second", "id-2", "id-1")

    assert owner(tmp_path)["id"] == "id-3"


def test_what_is_no_claim_of_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / OUT["path"]).mkdir(parents=True)
    (tmp_path / OUT["path"] / FOLDER_OWNER).write_text("half")

    claim(tmp_path, "a", "id-a")

    assert owner(tmp_path)["id"] == "id-a"
