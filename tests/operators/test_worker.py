"""One partition of a materializer in one epoch, on a real Redis, without Spark."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import orjson
import pyarrow as pa
import pytest

from operators.aggregate.call import AggregateCall
from operators.aggregate.group_aggregate import GroupAggregateSpec
from operators.changelog import RowKind
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.errors import NoRoom
from operators.process_function import ProcessFunction, ProcessFunctionSpec, process_operator
from operators.spec import InputSpec, RowSpec
from operators.upsert_materializer import MaterializerSpec
from operators.wire import (
    DEAD_LETTER,
    EPOCH_TIME,
    KEY_GROUP,
    KIND,
    ORDER,
    SEQUENCE,
    TICK,
    WorkerError,
    wire_schema,
)
from operators.worker import OperatorTask, Places, TaskSettings, installed_version
from state.backends.interface import EpochStamp
from state.descriptors import JSON
from state.epochs import EpochLedger
from state.errors import StateCorrupt, StateUnavailable
from state.execution.key_accounting import hashed
from state.key_groups import key_group
from state.testing.proxy import Proxy
from state.types import arrow_type, parse_type

if TYPE_CHECKING:
    import redis

    from operators.keyed import InputChange
    from operators.process_function import FunctionChange, FunctionEpoch, FunctionSetting
    from operators.spec import OperatorSpec
    from tests.conftest import RedisServer

NODE = "3_sink-materializer"
TYPES = (parse_type("STRING"), parse_type("INT"))
KEY_GROUPS = 8


def spec(**changes: object) -> MaterializerSpec:
    return MaterializerSpec(
        types=TYPES,
        names=("k", "v"),
        key=(0,),
        upsert_key=None,
        **changes,
    )


def settings(client: redis.Redis, run: int, **changes: object) -> TaskSettings:
    port = client.connection_pool.connection_kwargs["port"]
    values: dict[str, object] = {
        "pipeline": "p",
        "operator": NODE,
        "run": run,
        "redis_url": f"redis://127.0.0.1:{port}/0",
        "incarnation": None,
        "partitions": 1,
        "max_parallelism": KEY_GROUPS,
        "version": installed_version(),
    }
    return TaskSettings(**{**values, **changes})


def batch(changes: list[tuple[str, str, int]], *, first: int = 0, time_ms: int = 1) -> pa.Table:
    """Changes and the tick of partition 0, as they come out of the exchange."""
    schema = wire_schema([arrow_type(each) for each in TYPES]).append(
        pa.field(KEY_GROUP, pa.int32())
    )
    rows = [
        {
            "f0": key,
            "f1": value,
            KIND: int(RowKind.from_short(kind)),
            ORDER: first + number,
            "_time": time_ms,
            KEY_GROUP: key_group([TYPES[0]], [key], KEY_GROUPS),
        }
        for number, (kind, key, value) in enumerate(changes)
    ]
    rows.append({KIND: TICK, ORDER: 0, "_time": time_ms, KEY_GROUP: 3})
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def run(
    task: TaskSettings, what: MaterializerSpec | OperatorSpec, epoch: int, *batches: pa.Table
) -> list[object]:
    """The emitted changes as text, and the notes."""
    out: list[object] = []
    for each in OperatorTask(task, what.to_json()).run(epoch, iter(batches)):
        assert each.schema == wire_schema([arrow_type(kind) for kind in TYPES])
        for row in each.to_pylist():
            if row[KIND] < TICK:
                out.append((RowKind(row[KIND]).short, row["f0"], row["f1"]))
            elif row["_note"]:
                out.append(orjson.loads(row["_note"])["statistics"])
    return out


@pytest.fixture
def ledger(redis_client: redis.Redis) -> EpochLedger:
    return EpochLedger(redis_client, "p")


def close(ledger: EpochLedger, run_number: int, epoch: int) -> None:
    ledger.close_epoch(EpochStamp(epoch, run_number, 1), {"s": epoch}, [])


def test_epochs_build_on_each_other(redis_client: redis.Redis, ledger: EpochLedger) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))

    first = run(task, spec(), 1, batch([("+I", "a", 1), ("+I", "a", 2), ("+I", "b", 5)]))
    close(ledger, task.run, 1)
    second = run(task, spec(), 2, batch([("-D", "a", 2), ("-D", "b", 5)]))

    assert first[:3] == [("+I", "a", 1), ("+U", "a", 2), ("+I", "b", 5)]
    assert second[:2] == [("+U", "a", 1), ("-D", "b", 5)]
    assert second[2]["rows_in"] == 2


def test_batches_are_gathered_and_sorted(redis_client: redis.Redis, ledger: EpochLedger) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    late, early = batch([("-D", "a", 1)], first=9), batch([("+I", "a", 1), ("+I", "a", 2)])

    out = run(task, spec(), 1, late, early)

    assert out[:2] == [("+I", "a", 1), ("+U", "a", 2)]


def test_what_an_operator_sets_aside_is_a_dead_letter_with_its_key(
    redis_client: redis.Redis, ledger: EpochLedger
) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    rows = InputSpec(types=TYPES, names=("k", "v"), key=(1,))
    output = RowSpec(types=TYPES, names=("k", "v"))
    what = ChangelogNormalizeSpec.build(inputs=(rows,), output=output, placeholder="-")
    given = batch([("+I", "a", 1), ("+U", "-", 2), ("+U", "-", 1)], first=5)

    found = [
        row
        for each in OperatorTask(task, what.to_json()).run(1, iter([given]))
        for row in each.to_pylist()
    ]

    assert [(row[KIND], row["f0"]) for row in found if row[KIND] < TICK] == [(0, "a")]
    (letter,) = (orjson.loads(row["_note"]) for row in found if row[KIND] == DEAD_LETTER)
    assert (letter["table"], letter["position"]) == (NODE, "key [2]")
    assert '"k" is not in the change' in letter["reason"]


def test_a_second_attempt_gives_the_same(redis_client: redis.Redis, ledger: EpochLedger) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    rows = batch([("+I", "a", 1), ("+I", "a", 2)])

    first, second = run(task, spec(), 1, rows), run(task, spec(), 1, rows)

    assert first[:2] == second[:2]
    close(ledger, task.run, 1)
    assert run(task, spec(), 2, batch([("-D", "a", 2)]))[0] == ("+U", "a", 1)


def test_a_closed_epoch_passes_control_rows_only(
    redis_client: redis.Redis, ledger: EpochLedger
) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    rows = batch([("+I", "a", 1)])
    run(task, spec(), 1, rows)
    close(ledger, task.run, 1)

    out = list(OperatorTask(task, spec().to_json()).run(1, iter([rows])))

    assert [each.column(KIND).to_pylist() for each in out] == [[TICK]]


def test_a_marker_that_is_elsewhere_is_state_lost(
    redis_client: redis.Redis, ledger: EpochLedger
) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))

    with pytest.raises(WorkerError, match=r"^\[tailrace:state-lost\] "):
        run(task, spec(), 5, batch([("+I", "a", 1)]))


def test_an_older_run_is_fenced(redis_client: redis.Redis, ledger: EpochLedger) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    ledger.open_run([NODE], KEY_GROUPS)

    with pytest.raises(WorkerError, match=r"^\[tailrace:state-fenced\] "):
        run(task, spec(), 1, batch([("+I", "a", 1)]))


def test_another_version_of_the_package_is_refused(redis_client: redis.Redis) -> None:
    task = settings(redis_client, 1, version="0.0.0-other")

    with pytest.raises(WorkerError, match="version-mismatch"):
        run(task, spec(), 1, batch([]))


def test_an_epoch_without_changes_asks_redis_nothing(redis_client: redis.Redis) -> None:
    before = redis_client.info("stats")["total_commands_processed"]

    out = run(settings(redis_client, 1), spec(), 99, batch([]))

    assert out == []
    assert redis_client.info("stats")["total_commands_processed"] == before + 1


def test_with_a_ttl_a_tick_cleans_what_is_due(
    redis_client: redis.Redis, ledger: EpochLedger
) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    ttl = spec(ttl_ms=1_000)
    run(task, ttl, 1, batch([("+I", "a", 1)], time_ms=10_000))
    close(ledger, task.run, 1)

    (statistics,) = run(task, ttl, 2, batch([], time_ms=11_000))
    close(ledger, task.run, 2)

    assert statistics["expired"] == 1
    out = run(task, ttl, 3, batch([("+I", "a", 2)], time_ms=11_001))
    assert out[0] == ("+I", "a", 2)


def test_a_total_is_there_though_nothing_comes_in_the_one_partition_that_is_its_own(
    redis_client: redis.Redis, ledger: EpochLedger
) -> None:
    calls = [
        AggregateCall(
            name=f"f{at}", function="MAX", arguments=(at,), argument_types=(kind,), result_type=kind
        )
        for at, kind in enumerate(TYPES)
    ]
    total = GroupAggregateSpec.build(
        inputs=(InputSpec(types=TYPES, names=("k", "v"), key=()),),
        output=RowSpec(types=TYPES, names=("f0", "f1")),
        calls=tuple(calls),
        needs_retraction=False,
        generate_update_before=False,
    )
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS), partitions=2)
    assert key_group((), (), KEY_GROUPS) % 2 == 0
    (tick,) = batch([]).to_pylist()
    other = pa.RecordBatch.from_pylist([{**tick, ORDER: 1}], schema=batch([]).schema)

    assert run(task, total, 1, batch([]))[0] == ("+I", None, None)
    assert run(task, total, 1, other) == []
    close(ledger, task.run, 1)
    assert run(task, total, 2, batch([]))[0]["rows_out"] == 0  # its note: nothing is said again


def test_the_task_travels_as_json(redis_client: redis.Redis) -> None:
    task = OperatorTask(settings(redis_client, 1), spec().to_json())

    assert OperatorTask.from_json(task.to_json()) == task


class Careless(ProcessFunction):
    """A user's function whose error says what was in the row."""

    @classmethod
    def result(cls, spec: ProcessFunctionSpec) -> RowSpec:
        return RowSpec(types=(TYPES[0],), names=("n",))

    def __init__(self, spec: ProcessFunctionSpec) -> None:
        self.states = ()

    def open(self, epoch: object) -> None:
        pass

    async def process(self, change: InputChange) -> None:
        raise ValueError(f"odd row {change.row}")


def test_values_of_rows_stay_out_of_what_spark_is_told(
    redis_client: redis.Redis, ledger: EpochLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_operator, "find_function", lambda _: Careless)
    function = ProcessFunctionSpec.build(
        function="Careless",
        inputs=(InputSpec(types=TYPES, names=("k", "v"), key=(0,)),),
        output=RowSpec(types=(TYPES[0], TYPES[0]), names=("k", "n")),
    )
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))

    rows = iter([batch([("+I", "N14228", 1)])])

    with pytest.raises(WorkerError, match=r"ValueError in .*, at test_worker") as failed:
        list(OperatorTask(task, function.to_json()).run(1, rows))

    assert "N14228" not in "".join(traceback.format_exception(failed.value))


class Counting(ProcessFunction):
    """Counts the changes of a key; one of 666 finds state that it cannot read."""

    @classmethod
    def result(cls, spec: FunctionSetting) -> RowSpec:
        return RowSpec(types=(TYPES[1],), names=("n",))

    def __init__(self, setting: FunctionSetting) -> None:
        self._descriptor = setting.value("count", JSON)
        self.states = (self._descriptor,)

    def open(self, epoch: FunctionEpoch) -> None:
        self._count = epoch.session.value(self._descriptor)

    async def process(self, change: FunctionChange) -> None:
        if change.row[1] == 666:
            raise StateCorrupt("no number")
        count = (await self._count.value() or 0) + 1
        await self._count.update(count)
        change.emit(RowKind.INSERT, (count,))


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> ProcessFunctionSpec:
    """A keyed operator, which the controller runs."""
    monkeypatch.setattr(process_operator, "find_function", lambda _: Counting)
    return ProcessFunctionSpec.build(
        function="Counting",
        inputs=(InputSpec(types=TYPES, names=("k", "v"), key=(0,)),),
        output=RowSpec(types=(TYPES[0], TYPES[1]), names=("k", "n")),
    )


def test_an_error_of_state_says_where_it_happened(
    redis_client: redis.Redis, ledger: EpochLedger, counting: ProcessFunctionSpec
) -> None:
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    key = re.escape(hashed(b'["N14228"]'))

    with pytest.raises(
        WorkerError, match=rf"state-corrupt\] no number .*{NODE}, epoch 1, key {key}"
    ):
        run(task, counting, 1, batch([("+I", "N14228", 666)]))

    ledger.open_run([NODE], KEY_GROUPS)
    with pytest.raises(WorkerError, match=rf"state-fenced\] .* \(in .*{NODE}, epoch 1\)$"):
        run(task, counting, 1, batch([("+I", "N14228", 1)]))


def test_notes_of_others_are_not_told(
    redis_client: redis.Redis,
    ledger: EpochLedger,
    counting: ProcessFunctionSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(_: EpochLedger) -> NoReturn:
        error = StateUnavailable("redis does not answer")
        error.add_note("what a library knows")
        raise error

    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    monkeypatch.setattr(EpochLedger, "marker", away)
    with pytest.raises(WorkerError, match=rf"not answer \(in node {NODE}, epoch 1\)$"):
        run(task, counting, 1, batch([("+I", "N14228", 1)]))


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_what_is_lost_before_anything_was_written_is_asked_for_again(
    redis_server: RedisServer,
    redis_client: redis.Redis,
    ledger: EpochLedger,
    counting: ProcessFunctionSpec,
    lost: str,
) -> None:
    """The commit is the last round trip of a task: lost, it fails the attempt, and only that."""
    rows = batch([("+I", key, 1) for key in "abca"])
    expected = [("+I", key, count) for key, count in zip("abca", (1, 1, 1, 2), strict=True)]
    with Proxy(redis_server.port) as proxy:
        task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS), redis_url=proxy.url)
        assert run(task, counting, 1, rows)[:4] == expected
        before = proxy.requests
        assert run(task, counting, 1, rows)[:4] == expected
        round_trips = proxy.requests - before

        for passed in range(round_trips):
            cut = proxy.cut_after_requests if lost == "request" else proxy.cut_after_replies
            cut(passed)
            if passed < round_trips - 1:
                assert run(task, counting, 1, rows)[:4] == expected
                continue
            with pytest.raises(WorkerError, match=r"state-unavailable\] .*epoch 1"):
                run(task, counting, 1, rows)
        assert round_trips > 2

        assert run(task, counting, 1, rows)[:4] == expected
        close(ledger, task.run, 1)
        second = run(task, counting, 2, rows)[:4]
    assert second == [("+I", key, count) for key, count in zip("abca", (3, 2, 2, 4), strict=True)]


def test_what_comes_of_one_change_keeps_its_order_wherever_it_went() -> None:
    """Order and sequence of emissions depend on their causes, not on the rows beside them."""

    def numbers(rows: list[tuple[int, int]], causes: list[int], part: int) -> list[tuple[int, int]]:
        columns = {
            ORDER: pa.array([order for order, _ in rows], pa.int64()),
            SEQUENCE: pa.array([sequence for _, sequence in rows], pa.int64()),
        }
        found = Places.of(pa.table(columns)).of_emissions(np.array(causes), part, 2)
        return list(zip(*(each.tolist() for each in found), strict=True))

    alone = numbers([(7, 1)], [0], part=1)
    beside = numbers([(3, 0), (7, 1)], [0, 0, 1], part=1)
    before = numbers([(7, 0), (9, 0)], [0, 0, 1], part=0)

    assert beside[2:] == alone
    assert before[1] < alone[0]
    assert len({*beside, *before}) == 6


def test_many_emissions_of_one_change_still_have_places_of_their_own() -> None:
    columns = {ORDER: pa.array([5], pa.int64()), SEQUENCE: pa.array([0], pa.int64())}

    order, sequence = Places.of(pa.table(columns)).of_emissions(np.zeros(5_000, np.int64), 1, 2)

    assert set(order.tolist()) == {5}
    assert (np.diff(sequence) > 0).all()


@pytest.mark.parametrize("bits", [26, 42, 62])
def test_places_leave_the_bits_that_others_need(bits: int) -> None:
    """However deep a chain of operators is, and however many come of one change."""
    place = np.array([0, 1, 1 << 30, 1 << 60, (1 << 62) + 5])
    for _ in range(8):
        columns = {ORDER: pa.array(np.full(len(place), 5)), SEQUENCE: pa.array(place)}
        causes = np.repeat(np.arange(len(place)), 2)
        _, place = Places.of(pa.table(columns)).of_emissions(causes, 1, 2, bits)
        assert (np.diff(place) > 0).all()
        assert ((place & ((1 << 62) - 1)) < 1 << bits).all()


def test_more_emissions_than_places_are_told_as_that() -> None:
    columns = {ORDER: pa.array([5], pa.int64()), SEQUENCE: pa.array([1], pa.int64())}

    with pytest.raises(NoRoom, match="1025 changes of an epoch in one of 64 partitions"):
        Places.of(pa.table(columns)).of_emissions(np.zeros(1_025, np.int64), 1, 64, 16)


def test_a_clock_that_was_set_back_takes_no_epoch_back(
    redis_client: redis.Redis, ledger: EpochLedger
) -> None:
    """Whatever source told the earlier time: rows that have expired stay so."""
    what = spec(ttl_ms=100)
    task = settings(redis_client, ledger.open_run([NODE], KEY_GROUPS))
    run(task, what, 1, batch([("+I", "a", 1)], time_ms=1_000))
    ledger.close_epoch(EpochStamp(1, task.run, 1_000), {EPOCH_TIME: 1_000}, [])
    run(task, what, 2, batch([], time_ms=2_000))
    ledger.close_epoch(EpochStamp(2, task.run, 2_000), {EPOCH_TIME: 2_000}, [])

    rows = batch([("+I", "a", 2)], time_ms=1_010)
    emitted = next(iter(OperatorTask(task, what.to_json()).run(3, iter([rows]))))

    assert emitted.column("_time").to_pylist() == [2_000]
    assert emitted.column(KIND).to_pylist() == [int(RowKind.INSERT)]
