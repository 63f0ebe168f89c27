"""How ticks come about: as the checkpoint began, or else as is the cheapest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan import load_plan
from service.runtime.dataflow import PipelineJob
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.errors import QueryFailed
from service.runtime.event_time import event_times
from service.runtime.planned_offsets import are_ticks_apart, last_ends
from service.runtime.records import RunOptions
from service.runtime.ticks_apart import Ticks, chosen_ticks
from service.sql import compile_script

if TYPE_CHECKING:
    from pathlib import Path

CHANGES = {"file": 1, "at": 0, "tick": 0, "time": 5}
TICKS = {"tick": 7, "time": 9}
OPTIONS: dict[str, Any] = {
    "trigger_interval_ms": 0,
    "rows_per_epoch_max": 1_000,
    "max_parallelism": 8,
    "on_malformed": "dead-letter",
    "default_ttl_ms": 0,
}
SOURCE = """
CREATE TABLE s (id INT, k STRING, ts TIMESTAMP(3){watermark}) WITH ('connector' = 'filesystem',
  'format' = 'changelog-json', 'path' = 'in', 'changelog-mode' = 'I'{more});
CREATE TABLE t (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'redis');
"""
INTO = "SET 'table.exec.sink.upsert-materialize' = 'FORCE'; INSERT INTO t "
PLAIN = "SELECT k, CAST(id AS BIGINT) FROM s ON CONFLICT DO DEDUPLICATE;"
COUNTED = "SELECT k, COUNT(*) FROM s GROUP BY k;"
TWICE = """SELECT k, CAST(id AS BIGINT) FROM s
    UNION ALL SELECT k, CAST(id + 1 AS BIGINT) FROM s ON CONFLICT DO DEDUPLICATE;"""


def begun(folder: Path, *ends: dict[str, Any]) -> Path:
    """A checkpoint whose newest epoch ended there."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets/.4.tmp").write_text("v1")
    for batch, lines in ((2, ({"file": 0},)), (11, ends)):
        text = [b"v1", b"{}", *(orjson.dumps(each) for each in lines)]
        (folder / "offsets" / str(batch)).write_bytes(b"\n".join(text))
    return folder


def chosen(
    checkpoint: Path,
    query: str = PLAIN,
    *,
    watermark: str = "",
    more: str = "",
    may_be_unread: bool = True,
    ttl: str = "",
    **options: Any,
) -> Ticks:
    script = SOURCE.format(watermark=watermark, more=more) + INTO + query
    document = compile_script(script)[-1].document
    if ttl:
        document["nodes"][-1]["state"][0]["ttl"] = ttl
    plan = load_plan(document)
    job = PipelineJob(
        pipeline="p",
        plan=plan,
        run=1,
        incarnation=None,
        redis_url="",
        checkpoint=str(checkpoint),
        options=RunOptions(**{**OPTIONS, "tick_interval_ms": 100, **options}),
        parallelism=2,
        max_parallelism=8,
        files_root="",
        version="0",
    )
    operators = {each.node_id: each for each in job.operators()}
    times = event_times(plan, operators.values())
    return chosen_ticks(job, operators, times, may_be_unread=may_be_unread)


# a new query


def test_nobody_reads_the_ticks_of_a_new_query_that_has_nothing_due(tmp_path: Path) -> None:
    assert chosen(tmp_path) is Ticks.UNREAD


@pytest.mark.parametrize(
    "settings",
    [
        {"may_be_unread": False},
        {"query": COUNTED},
        {"query": TWICE},
        {"ttl": "1000 ms"},
        {"tick_interval_ms": 0},
        {"more": ", 'testing.time-field' = 'ts', 'testing.epochs' = '[[0, 1]]'"},
        {
            "watermark": ", WATERMARK FOR ts AS ts",
            "query": "SELECT k, CAST(id AS BIGINT) FROM s ON CONFLICT DO NOTHING;",
        },
    ],
    ids=["workers", "stage", "two ways", "ttl", "no ticks", "given epochs", "timers"],
)
def test_ticks_come_with_the_changes_where_a_task_may_have_work(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    assert chosen(tmp_path, **settings) is Ticks.WITH_CHANGES


# one that goes on


@pytest.mark.parametrize("ends", [(CHANGES,), (CHANGES, CHANGES), (TICKS,)])
def test_a_checkpoint_of_one_source_goes_on_with_one(tmp_path: Path, ends: Any) -> None:
    assert chosen(begun(tmp_path, *ends)) is Ticks.WITH_CHANGES


@pytest.mark.parametrize(
    ("settings", "ticks"),
    [
        ({}, Ticks.UNREAD),
        ({"may_be_unread": False}, Ticks.READ),
        ({"ttl": "1000 ms"}, Ticks.READ),
        ({"tick_interval_ms": 0}, Ticks.READ),
        ({"query": COUNTED}, Ticks.READ),
    ],
    ids=["same", "workers", "ttl", "no ticks", "a restored plan with a stage"],
)
def test_a_checkpoint_with_a_source_for_ticks_goes_on_with_it(
    tmp_path: Path, settings: dict[str, Any], ticks: Ticks
) -> None:
    assert chosen(begun(tmp_path, CHANGES, TICKS), **settings) is ticks


def test_a_plan_with_more_sources_than_its_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedNode, match="several ways"):
        chosen(begun(tmp_path, CHANGES, TICKS), TWICE)


# the record


@pytest.mark.parametrize(
    ("ends", "apart"),
    [
        ((CHANGES, TICKS), True),
        ((CHANGES,), False),
        ((CHANGES, CHANGES), False),
        ((TICKS, TICKS), False),
        ((TICKS, CHANGES), False),
        ((CHANGES, {"tick": 7}), False),
        ((CHANGES, TICKS, TICKS), False),
    ],
)
def test_ticks_are_apart_where_the_second_of_two_ends_is_theirs(ends: Any, apart: bool) -> None:
    assert are_ticks_apart(ends) is apart


def test_the_newest_record_counts(tmp_path: Path) -> None:
    assert last_ends(tmp_path) is None
    assert last_ends(begun(tmp_path / "begun", CHANGES, TICKS)) == [CHANGES, TICKS]


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}\n-", "v1\n{}\n{", "v1\n{}\n7", ""])
def test_a_record_of_another_form_tells_no_ends(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text(text)

    assert last_ends(tmp_path) == []


def test_a_checkpoint_that_cannot_be_read_is_told_and_not_taken_for_a_new_one(
    tmp_path: Path,
) -> None:
    begun(tmp_path, CHANGES, TICKS)
    (tmp_path / "offsets/12").mkdir()

    with pytest.raises(QueryFailed, match="the checkpoint cannot be read: Is a directory") as told:
        chosen(tmp_path)
    assert told.value.code == "checkpoint-unusable"
