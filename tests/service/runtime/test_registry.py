"""The registry keeps records in Redis: names, versions, limits, deletion, order."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.runtime.errors import (
    InvalidPipelineName,
    LifecycleError,
    PipelineDeleting,
    PipelineExists,
    PipelineNotFound,
    RegistryCorrupt,
    RegistryUnavailable,
    TooManyPipelines,
    VersionConflict,
)
from service.runtime.records import Desired, Failure, PipelineOptions, QueryHandle
from service.runtime.registry import Registry
from service.settings import ExecutionSettings
from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN = {"flinkVersion": "2.3", "nodes": [], "edges": []}
HANDLE = QueryHandle("session", "query", "run", 3, "0.1.0")


@pytest.fixture
def registry(redis_client: redis.Redis) -> Registry:
    return Registry(redis_client, pipelines_max=5, clock=lambda: 1_000)


def test_created_pipeline_is_read_back_as_it_was(registry: Registry) -> None:
    options = PipelineOptions(trigger_interval_ms=7, upsert_materialize_strategy="MAP")

    made = registry.create("p", PLAN, options=options, labels={"a": "ü"}, desired="RUNNING")

    assert registry.get("p") == made
    assert (made.version, made.created_ms, made.updated_ms) == (1, 1_000, 1_000)
    assert made.desired is Desired.RUNNING
    assert made.plan == PLAN
    assert made.options == options


def test_record_is_one_readable_hash_in_the_slot_of_the_pipeline(
    registry: Registry, redis_client: redis.Redis
) -> None:
    registry.create("p", PLAN)

    assert redis_client.hget("tailrace:{p}:pipeline", "desired") == b'"STOPPED"'
    assert set(redis_client.keys()) == {
        b"tailrace:{p}:pipeline",
        b"tailrace:pipelines",
        b"tailrace:orders",
    }


@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "a" * 63])
def test_names_of_the_right_form_are_taken(registry: Registry, name: str) -> None:
    assert registry.create(name, PLAN).name == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "A", "a" * 64, "a b", "a}", "é", "a\n", "a:b"])
def test_names_of_another_form_are_refused(registry: Registry, name: str) -> None:
    with pytest.raises(InvalidPipelineName):
        registry.create(name, PLAN)


def test_name_can_be_taken_once(registry: Registry) -> None:
    registry.create("p", PLAN)

    with pytest.raises(PipelineExists, match='pipeline "p" exists'):
        registry.create("p", PLAN)


def test_full_registry_takes_no_more(registry: Registry) -> None:
    for index in range(5):
        registry.create(f"p{index}", PLAN)

    with pytest.raises(TooManyPipelines, match="there are 5 pipelines, and at most 5 are allowed"):
        registry.create("p5", PLAN)


def test_limit_and_uniqueness_hold_among_concurrent_creations(registry: Registry) -> None:
    outcomes: list[str] = []
    barrier = threading.Barrier(12)

    def create(name: str) -> None:
        barrier.wait()
        try:
            registry.create(name, PLAN)
        except LifecycleError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("created")

    threads = [threading.Thread(target=create, args=(f"p{index % 9}",)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes.count("created") == len(registry.names()) == 5
    assert set(outcomes) <= {"created", "pipeline.exists", "pipeline.too-many"}


@pytest.mark.parametrize("call", [Registry.get, Registry.update, Registry.delete])
def test_unknown_name_is_told(registry: Registry, call: Callable[..., Any]) -> None:
    with pytest.raises(PipelineNotFound, match='there is no pipeline "p"'):
        call(registry, "p")


def test_change_raises_the_version(registry: Registry) -> None:
    registry.create("p", PLAN)

    changed = registry.update("p", desired="RUNNING", labels={"x": "y"})

    assert (changed.version, changed.desired, changed.labels) == (2, "RUNNING", {"x": "y"})
    assert registry.get("p") == changed


def test_change_that_changes_nothing_keeps_the_version(registry: Registry) -> None:
    made = registry.create("p", PLAN, desired="RUNNING")

    assert registry.update("p", desired="RUNNING", expected=made.edition).version == 1


@pytest.mark.parametrize("call", [Registry.update, Registry.delete])
def test_stale_version_is_refused(registry: Registry, call: Callable[..., Any]) -> None:
    made = registry.create("p", PLAN)
    registry.update("p", desired="RUNNING")

    with pytest.raises(VersionConflict, match="has version 2, not 1") as refused:
        call(registry, "p", expected=made.edition)

    assert (refused.value.expected, refused.value.found) == (1, 2)
    assert registry.get("p").version == 2


def test_only_one_of_two_changes_of_the_same_version_is_made(registry: Registry) -> None:
    made = registry.create("p", PLAN)
    outcomes: list[str] = []
    barrier = threading.Barrier(2)

    def change(label: str) -> None:
        barrier.wait()
        try:
            registry.update("p", expected=made.edition, labels={"by": label})
        except VersionConflict:
            outcomes.append("refused")
        else:
            outcomes.append(label)

    threads = [threading.Thread(target=change, args=(label,)) for label in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = set(outcomes) - {"refused"}
    assert outcomes.count("refused") == 1
    assert registry.get("p").labels == {"by": winner}


def test_a_changed_plan_counts_from_the_next_run_on(registry: Registry) -> None:
    other = {**PLAN, "nodes": [{"id": 1}]}
    third = {**PLAN, "nodes": [{"id": 2}]}
    options = PipelineOptions().resolved(ExecutionSettings())
    registry.create("p", PLAN)
    never_run = registry.update("p", plan=other)
    assert (never_run.plan_version, never_run.plan_in_force) == (2, other)

    registry.note_query("p", HANDLE, replace(options, plan_version=2))
    assert registry.update("p", labels={"a": "b"}).plan_version == 2
    registry.update("p", plan=third)
    registry.update("p", plan=PLAN)

    changed = registry.get("p")
    assert (changed.plan, changed.plan_version, changed.plan_in_force) == (PLAN, 5, other)
    registry.note_query("p", HANDLE, replace(options, plan_version=5))
    assert registry.get("p").plan_in_force == PLAN


def test_list_goes_by_name_page_after_page(registry: Registry) -> None:
    for name in ("c", "a", "b-1", "b", "b_2"):
        registry.create(name, PLAN)

    first = registry.list(limit=2)
    second = registry.list(first.next_cursor, limit=2)
    third = registry.list(second.next_cursor, limit=2)

    pages = [[each.name for each in page.items] for page in (first, second, third)]
    assert pages == [["a", "b"], ["b-1", "b_2"], ["c"]]
    assert third.next_cursor is None


def test_list_that_fits_exactly_has_no_next_page(registry: Registry) -> None:
    registry.create("a", PLAN)
    registry.create("b", PLAN)

    assert registry.list(limit=2).next_cursor is None


def test_deleted_pipeline_is_out_of_sight_but_keeps_its_name_until_buried(
    registry: Registry,
) -> None:
    registry.create("p", PLAN)
    registry.note_query("p", HANDLE)

    registry.delete("p")

    with pytest.raises(PipelineDeleting):
        registry.get("p")
    with pytest.raises(PipelineDeleting, match="is being deleted"):
        registry.create("p", PLAN)
    left = registry.deleted("p")
    assert left is not None
    assert left.query == HANDLE
    assert registry.list().items == ()
    assert registry.names() == {"p"}


def test_burying_leaves_nothing_and_frees_the_name(
    registry: Registry, redis_client: redis.Redis
) -> None:
    old = registry.create("p", PLAN)
    registry.delete("p")

    registry.bury("p")

    assert redis_client.keys() == [b"tailrace:orders"]
    assert registry.create("p", PLAN).id != old.id


def test_pipeline_that_is_being_deleted_counts_for_the_limit(registry: Registry) -> None:
    for index in range(5):
        registry.create(f"p{index}", PLAN)
    registry.delete("p0")

    with pytest.raises(TooManyPipelines):
        registry.create("q", PLAN)


def test_notes_of_the_supervisor_are_kept_without_a_new_version(registry: Registry) -> None:
    registry.create("p", PLAN)

    registry.note_query("p", HANDLE)
    registry.note_failure("p", Failure("state-lost", "gone", 5))

    found = registry.get("p")
    assert (found.version, found.query) == (1, HANDLE)
    assert found.failure == Failure("state-lost", "gone", 5)
    registry.note_query("p", None)
    registry.note_failure("p", None)
    cleared = registry.get("p")
    assert (cleared.query, cleared.failure) == (None, None)


def test_note_about_a_pipeline_that_is_gone_makes_no_record(
    registry: Registry, redis_client: redis.Redis
) -> None:
    registry.note_query("p", HANDLE)

    assert redis_client.keys() == []


def test_session_is_remembered(registry: Registry) -> None:
    assert registry.session_id() is None

    assert registry.note_session_id("abc", instead_of=None) == "abc"

    assert registry.session_id() == "abc"


def test_of_two_services_that_begin_a_session_both_use_the_first_ones(registry: Registry) -> None:
    registry.note_session_id("lost", instead_of=None)

    assert registry.note_session_id("first", instead_of="lost") == "first"
    assert registry.note_session_id("second", instead_of="lost") == "first"
    assert registry.session_id() == "first"


def test_record_that_is_not_ours_is_told_by_name_only(
    registry: Registry, redis_client: redis.Redis
) -> None:
    redis_client.hset("tailrace:{p}:pipeline", "plan", "not json")

    with pytest.raises(RegistryCorrupt, match='the record of pipeline "p"'):
        registry.get("p")


def test_key_of_another_type_is_corrupt(registry: Registry, redis_client: redis.Redis) -> None:
    redis_client.set("tailrace:{p}:pipeline", "x")

    with pytest.raises(RegistryCorrupt):
        registry.get("p")


def test_option_that_a_newer_version_wrote_does_not_hide_the_pipeline(
    registry: Registry, redis_client: redis.Redis
) -> None:
    registry.create("p", PLAN, options=PipelineOptions(tick_interval_ms=5))
    redis_client.hset("tailrace:{p}:pipeline", "options", '{"tick_interval_ms":5,"new":1}')

    assert registry.get("p").options == PipelineOptions(tick_interval_ms=5)


def test_silent_redis_is_unavailable() -> None:
    with (
        redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(RegistryUnavailable),
    ):
        Registry(client, 5).create("p", PLAN)


def test_options_are_filled_from_the_settings_and_keep_what_they_name() -> None:
    execution = ExecutionSettings(tick_interval_ms=111, max_parallelism=16)

    found = PipelineOptions(trigger_interval_ms=0, on_malformed="fail").resolved(execution)

    assert (found.trigger_interval_ms, found.tick_interval_ms) == (0, 111)
    assert (found.on_malformed, found.max_parallelism) == ("fail", 16)


def test_key_group_count_is_settled_once() -> None:
    settled = PipelineOptions().settled(ExecutionSettings(max_parallelism=16))

    assert settled.resolved(ExecutionSettings(max_parallelism=64)).max_parallelism == 16
