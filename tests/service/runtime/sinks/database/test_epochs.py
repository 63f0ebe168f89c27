"""Epochs in a table of a database: applied once, by the run that may, or refused."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from operators.wire import WorkerError
from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sinks.database.commit import adopt_tables
from service.runtime.sinks.database.fence import NAME, RETIRED
from service.runtime.sinks.owner import Owner
from state.epochs import EpochLedger
from state.errors import Fenced, SavepointMismatch, SinkTakenOver, StateLost
from tests.service.runtime.sinks.database.stand import Pipeline

if TYPE_CHECKING:
    import redis

COLUMNS = {"k": "VARCHAR(20) NOT NULL", "v": "INT"}
KEYED = "k VARCHAR(20) {binary} PRIMARY KEY, v INTEGER"


def keyed(pipeline: Pipeline, name: str = "t") -> str:
    """A sink with a key, and its table."""
    binary = "COLLATE utf8mb4_bin" if pipeline.database.dialect == "mysql" else ""
    table = pipeline.database.table(name, KEYED.format(binary=binary))
    pipeline.sink(table, COLUMNS, key=["k"])
    return table


def listed(pipeline: Pipeline, name: str = "l") -> str:
    """A sink of inserts, and its table: what is written twice is there twice."""
    table = pipeline.database.table(name, "k VARCHAR(20), v INTEGER")
    pipeline.sink(table, COLUMNS)
    return table


def test_a_table_with_a_key_has_the_last_row_of_each(pipeline: Pipeline) -> None:
    table = keyed(pipeline)
    pipeline.start()

    pipeline.write(
        1,
        [("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 2), ("+I", "b", 1), ("-D", "b", 1)],
        [("+I", "c", 3), ("+I", "d", 3)],
    )
    pipeline.write(2, [("-D", "c", 3), ("+U", "d", None), ("+I", "e", 5)])
    # Its +U was filtered away.
    pipeline.write(3, [("-U", "e", 5), ("-D", "never there", 1)])

    assert pipeline.database.rows(table) == [("a", 2), ("d", None)]


def test_a_table_without_a_key_has_every_row(pipeline: Pipeline) -> None:
    table = listed(pipeline)
    pipeline.start()

    pipeline.write(1, [("+I", "a", 1), ("+I", "a", 1)], [("+I", "b", 2)])
    pipeline.write(2, [("+I", "a", 1)])

    assert pipeline.database.rows(table) == [("a", 1), ("a", 1), ("a", 1), ("b", 2)]


def test_a_table_that_is_nothing_but_its_key(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT PRIMARY KEY")
    pipeline.sink(table, {"k": "BIGINT NOT NULL"}, key=["k"])
    pipeline.start()

    pipeline.write(1, [("+I", 1), ("+I", 2)])
    pipeline.write(2, [("+U", 1), ("-D", 2)])

    assert pipeline.database.rows(table) == [(1,)]


def test_names_are_names_whatever_stands_in_them(pipeline: Pipeline) -> None:
    quote = "`" if pipeline.database.dialect == "mysql" else '"'
    odd = "a b; :d ' (column_1) select" + ("" if quote == "`" else "%(c)s")
    table = pipeline.database.table(
        "t", f"column_1 BIGINT PRIMARY KEY, {quote}{odd}{quote} BIGINT, {quote}key_0{quote} BIGINT"
    )
    columns = {"column_1": "BIGINT NOT NULL", odd: "BIGINT", "key_0": "BIGINT"}
    pipeline.sink(table, columns, key=["column_1"])
    pipeline.start()

    pipeline.write(1, [("+I", 1, 2, 3), ("+I", 4, 5, 6)])
    pipeline.write(2, [("+U", 1, 7, 8), ("-D", 4, 5, 6)])

    assert pipeline.database.rows(table) == [(1, 7, 8)]


def test_many_rows_of_an_epoch_are_all_written(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT PRIMARY KEY, v BIGINT")
    pipeline.sink(table, {"k": "BIGINT NOT NULL", "v": "BIGINT"}, key=["k"])
    pipeline.start()

    pipeline.write(1, [("+I", each, each) for each in range(10_000)])
    pipeline.write(2, [("-D", each, each) for each in range(5_000)])

    assert pipeline.database.rows(table, "COUNT(*), MIN(k), SUM(v)") == [
        (5_000, 5_000, sum(range(5_000, 10_000)))
    ]


def test_the_fence_has_every_epoch_with_rows_or_without(pipeline: Pipeline) -> None:
    first, second = keyed(pipeline), listed(pipeline)
    names = [pipeline.database.full_name(each) for each in (first, second)]

    run = pipeline.start()
    assert pipeline.database.fence(pipeline.id) == dict.fromkeys(names, (run, 0))
    pipeline.write_all(1, {0: [("+I", "a", 1)]})
    pipeline.write_all(2)

    assert pipeline.database.fence(pipeline.id) == dict.fromkeys(names, (run, 2))


def test_an_epoch_that_is_closed_changes_nothing_again(pipeline: Pipeline) -> None:
    table = listed(pipeline)
    pipeline.start()

    for _ in range(2):
        pipeline.write(1, [("+I", "a", 1)])

    assert pipeline.database.rows(table) == [("a", 1)]


@pytest.mark.parametrize("starts_again", [False, True])
def test_an_epoch_that_was_written_and_not_closed_is_not_written_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, starts_again: bool
) -> None:
    table = listed(pipeline)
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1)])

    with monkeypatch.context() as patch:
        patch.setattr("state.epochs.EpochLedger.close_epoch", _die)
        with pytest.raises(ZeroDivisionError):
            pipeline.write(2, [("+I", "b", 2)])
    if starts_again:
        pipeline.start()
    pipeline.write(2, [("+I", "b", 2)])
    pipeline.write(3, [("+I", "c", 3)])

    assert pipeline.database.rows(table) == [("a", 1), ("b", 2), ("c", 3)]
    assert pipeline.ledger.marker().epoch == 3


def test_an_epoch_that_died_in_its_transaction_is_written_whole(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = keyed(pipeline), listed(pipeline)
    pipeline.start()
    changes = {0: [("+I", "a", 1)], 1: [("+I", "a", 1)]}

    with monkeypatch.context() as patch:
        patch.setattr("service.runtime.sinks.database.target.Target.put", _die)
        with pytest.raises(ZeroDivisionError):
            pipeline.write_all(1, changes)
    assert pipeline.database.rows(first) == pipeline.database.rows(second) == []
    pipeline.start()
    pipeline.write_all(1, changes)

    assert pipeline.database.rows(first) == pipeline.database.rows(second) == [("a", 1)]


def test_an_older_run_writes_nothing(pipeline: Pipeline) -> None:
    table = listed(pipeline)
    pipeline.start()
    orphan = dataclasses.replace(pipeline)
    pipeline.start()

    # It has asked Redis before the new run began, and closes after.
    with pytest.raises(WorkerError, match=r"\[tailrace:state-fenced\] run 2 writes table"):
        orphan.write(1, [("+I", "of run 1", 1)])

    pipeline.write(1, [("+I", "of run 2", 2)])
    assert pipeline.database.rows(table) == [("of run 2", 2)]


def test_what_an_older_run_wrote_last_counts(pipeline: Pipeline) -> None:
    """A server that lives on writes the next epoch between the new run's open and its claim."""
    table = listed(pipeline)
    pipeline.start()
    orphan = dataclasses.replace(pipeline)
    pipeline.ledger.open_run([], 8)

    with pytest.raises(WorkerError, match="state-fenced"):
        orphan.write(1, [("+I", "a", 1)])
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1)])

    assert pipeline.database.rows(table) == [("a", 1)]


def test_a_run_that_is_older_than_the_fence_does_not_begin(pipeline: Pipeline) -> None:
    listed(pipeline)
    pipeline.start()
    pipeline.start()
    pipeline.client.set("tailrace:{p}:run", 0)

    with pytest.raises(Fenced, match="run 2 writes table"):
        pipeline.start()


def test_a_pipeline_made_anew_begins_anew_and_fences_the_one_before(pipeline: Pipeline) -> None:
    table = listed(pipeline)
    pipeline.start()
    pipeline.write(1, [("+I", "old", 1)])
    orphan = dataclasses.replace(pipeline)
    fresh = pipeline.anew()

    fresh.start(drops=True)
    # It has asked Redis before the drop, and writes after.
    pipeline.client.hset("tailrace:{p}:marker", mapping=_marker(1))
    with pytest.raises(WorkerError, match="another pipeline has taken table"):
        orphan.write(2, [("+I", "late", 2)])
    pipeline.client.delete("tailrace:{p}:marker")
    fresh.write(1, [("+I", "new", 3)])

    assert pipeline.database.rows(table) == [("new", 3), ("old", 1)]
    name = pipeline.database.full_name(table)
    assert pipeline.database.fence(orphan.id) == {name: (RETIRED, 1)}


def test_another_pipeline_may_write_the_same_table(
    pipeline: Pipeline, redis_client: redis.Redis
) -> None:
    table = listed(pipeline)
    other = Pipeline(pipeline.database, redis_client, name="q", sinks=pipeline.sinks)

    for each in (pipeline, other):
        each.start()
    for each in (pipeline, other):
        each.write(1, [("+I", each.name, 1)])

    assert pipeline.database.rows(table) == [("p", 1), ("q", 1)]


def test_an_epoch_that_a_table_has_of_another_input_is_lost_state(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine stopped behind the transaction; Spark lost its record, and made it anew."""
    table = listed(pipeline)
    pipeline.start()
    with monkeypatch.context() as patch:
        patch.setattr(EpochLedger, "close_epoch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.write(1, [("+I", "a", 1)])
    pipeline.start()
    pipeline.at = 1

    with pytest.raises(WorkerError, match=r"state-lost\] .* has epoch 1, which was written with"):
        pipeline.write(1, [("+I", "a", 1), ("+I", "b", 2)])
    assert pipeline.ledger.marker().epoch == 0

    pipeline.at = 0
    pipeline.write(1, [("+I", "a", 1)])
    assert pipeline.database.rows(table) == [("a", 1)]


def test_redis_that_went_back_is_lost_state(pipeline: Pipeline) -> None:
    listed(pipeline)
    pipeline.start()
    for epoch in (1, 2, 3):
        pipeline.write(epoch, [("+I", "a", epoch)])
    pipeline.client.hset("tailrace:{p}:marker", mapping=_marker(1))

    with pytest.raises(StateLost, match=r"the state is at epoch 1, table \S+ at epoch 3"):
        pipeline.start()


@pytest.mark.parametrize("went_back", [False, True])
def test_a_database_that_went_back_is_lost_state(pipeline: Pipeline, went_back: bool) -> None:
    table = listed(pipeline)
    run = pipeline.start()
    for epoch in (1, 2):
        pipeline.write(epoch, [("+I", "a", epoch)])
    change = "UPDATE {} SET epoch = 1 WHERE pipeline_id = '{}'"
    drop = "DELETE FROM {} WHERE pipeline_id = '{}'"
    pipeline.database.execute((change if went_back else drop).format(NAME, pipeline.id))

    with pytest.raises(WorkerError, match=r"\[tailrace:state-lost\]"):
        pipeline.write(3, [("+I", "a", 3)])
    with pytest.raises(StateLost):
        pipeline.start()

    assert run == 1
    assert pipeline.database.rows(table) == [("a", 1), ("a", 2)]


def test_two_sinks_of_one_table_are_written_together(pipeline: Pipeline) -> None:
    table = keyed(pipeline)
    pipeline.sink(table, COLUMNS, key=["k"])
    pipeline.start()

    pipeline.write_all(1, {0: [("+I", "a", 1)], 1: [("+I", "b", 2)]})

    assert pipeline.database.rows(table) == [("a", 1), ("b", 2)]


def test_two_sinks_of_one_table_by_different_ways_are_refused(pipeline: Pipeline) -> None:
    """The second of two transactions would find that the table has the epoch."""
    table = keyed(pipeline)
    pipeline.sink(table, COLUMNS, key=["k"], **{"connection.max-retry-timeout": "7 s"})

    with pytest.raises(InvalidTableOption, match="two sinks write table"):
        pipeline.start()


def _adopt(restored: Pipeline, origin: Pipeline, epoch: int) -> None:
    adopt_tables(
        Owner(restored.id, restored.name, 0),
        restored.sinks,
        restored.database.files_root,
        epoch=epoch,
        origin=origin.id,
    )


def test_a_restored_pipeline_goes_on_where_its_savepoint_and_the_table_stand(
    pipeline: Pipeline, redis_client: redis.Redis
) -> None:
    table = listed(pipeline)
    pipeline.start()
    for epoch in (1, 2):
        pipeline.write(epoch, [("+I", "a", epoch)])
    restored = Pipeline(pipeline.database, redis_client, name="q", sinks=pipeline.sinks)
    redis_client.hset("tailrace:{q}:marker", mapping=_marker(2))

    # A restore that died is made again.
    for _ in range(2):
        _adopt(restored, pipeline, 2)
    restored.start()
    restored.write(3, [("+I", "b", 3)])

    assert pipeline.database.rows(table) == [("a", 1), ("a", 2), ("b", 3)]
    with pytest.raises(WorkerError, match="another pipeline has taken table"):
        pipeline.write(3, [("+I", "twice", 3)])
    with pytest.raises(Fenced, match="another pipeline"):
        pipeline.start()
    again = Pipeline(pipeline.database, redis_client, name="r", sinks=pipeline.sinks)
    with pytest.raises(SavepointMismatch, match="written by another pipeline since"):
        _adopt(again, pipeline, 2)


def test_a_restored_pipeline_that_has_written_nothing_is_taken_back(
    pipeline: Pipeline, redis_client: redis.Redis
) -> None:
    table = listed(pipeline)
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1)])
    names = ("q", "r", "s")
    first, second, third = (
        Pipeline(pipeline.database, redis_client, name=each, sinks=pipeline.sinks) for each in names
    )
    for each in names:
        redis_client.hset(f"tailrace:{{{each}}}:marker", mapping=_marker(1))
    _adopt(first, pipeline, 1)
    first.start()

    _adopt(second, pipeline, 1)
    second.start()

    with pytest.raises(WorkerError, match=r"\[tailrace:sink-taken-over\] another pipeline"):
        first.write(2, [("+I", "never", 2)])
    with pytest.raises(SinkTakenOver):
        first.start()
    second.write(2, [("+I", "b", 2)])
    assert pipeline.database.rows(table) == [("a", 1), ("b", 2)]
    with pytest.raises(SavepointMismatch, match="written by another pipeline since"):
        _adopt(third, pipeline, 1)


@pytest.mark.parametrize(("epoch", "found"), [(1, "of epoch 2"), (7, "of epoch 2")])
def test_a_table_of_another_epoch_than_the_savepoint_is_refused(
    pipeline: Pipeline, redis_client: redis.Redis, epoch: int, found: str
) -> None:
    listed(pipeline)
    pipeline.start()
    for each in (1, 2):
        pipeline.write(each, [("+I", "a", each)])
    restored = Pipeline(pipeline.database, redis_client, name="q", sinks=pipeline.sinks)

    with pytest.raises(SavepointMismatch, match=f"epoch {epoch}, table .* is {found}") as refused:
        _adopt(restored, pipeline, epoch)

    assert pipeline.id in refused.value.hint
    assert pipeline.database.fence(restored.id) == {}
    pipeline.write(3, [("+I", "goes on", 3)])


def test_a_table_that_no_savepoint_knows_is_refused_until_its_row_says_otherwise(
    pipeline: Pipeline, redis_client: redis.Redis
) -> None:
    table = listed(pipeline)
    origin = Pipeline(pipeline.database, redis_client, name="gone")
    with pytest.raises(SavepointMismatch, match="not known to be of any"):
        _adopt(pipeline, origin, 4)
    # What the hint asks for.
    pipeline.database.execute(
        f"INSERT INTO {NAME} (pipeline_id, table_name, pipeline, run, epoch) VALUES "
        f"('{origin.id}', '{pipeline.database.full_name(table)}', 'gone', 0, 4)"
    )
    redis_client.hset("tailrace:{p}:marker", mapping=_marker(4))

    _adopt(pipeline, origin, 4)
    pipeline.start()
    pipeline.write(5, [("+I", "a", 5)])

    assert pipeline.database.rows(table) == [("a", 5)]


def test_a_savepoint_from_before_the_first_epoch_asks_nothing(pipeline: Pipeline) -> None:
    listed(pipeline)

    _adopt(pipeline, pipeline.anew(), 0)

    assert pipeline.start() == 1


def _marker(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "run": 1, "closed_ms": 1, "offsets": f'{{"s":{{"at":{epoch}}}}}'}


def _die(*_: object) -> None:
    raise ZeroDivisionError
