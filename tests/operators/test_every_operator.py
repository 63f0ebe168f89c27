"""The laws of operators, over every operator: `tests.operators.table` has them.

restart         a run that ends between any two epochs, and the next one, emit what one run emits
key groups      however key groups are spread over tasks, each emits its part of what one task does
columns         a whole epoch on columns emits and keeps what its changes do one by one
epochs          how changes are cut into epochs shows in no table, and without bundles nowhere
backends        Redis emits and keeps what the heap does
savepoints      saved, and restored with another number of key groups, it goes on as if it had not
well formed     what is emitted is a changelog of the promised form
leaves nothing  when all is taken back, or its time is over, state is empty
expiry          what has outlived its TTL is as if it had never been; an endless TTL shows nowhere

What operators mean is held by their own tests, with definitions of `operators.testing`.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize, materialize_upserts
from operators.keyed import WATERMARK_MAX
from operators.kinds import SPECS
from operators.testing.batch import comparable
from operators.testing.joins import never_below_zero
from operators.testing.operator_harness import Of
from operators.upsert_materializer import MaterializerSpec
from state.backends.transport import RedisTransport
from state.codec import RowCodec
from state.key_groups import key_group
from state.savepoint import SaveOptions, StateSaver, restore_state
from tests.operators.functions import announce
from tests.operators.inputs import BEGAN_MS, cut, epochs, live, matched
from tests.operators.stage import GROUPS, NODE, Epoch, Stage, changes_of
from tests.operators.table import TABLE
from tests.state.savepoint.world import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from tests.operators.entries import AnySpec, Entry
    from tests.operators.stage import Said

EXAMPLES = max(4, min(200, settings().max_examples // 20))
"""Of a law and an operator; there are hundreds of these pairs."""
AGE_MS = 50
"""A TTL that no epoch of a phase outlives."""
PASSED_MS = 100
"""A watermark that is behind all that a phase can have: what waits for one has no TTL."""
FOR_EVER_MS = 1 << 40
TASKS = ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[3], [0, 2], [1]], [[2], [3], [0], [1]])
"""Key groups of the tasks of an epoch."""


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory, custom_window: Path) -> Any:
    """The functions of users that the table names, as an installer would have left them."""
    folder = tmp_path_factory.mktemp("installed")
    announce(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.syspath_prepend(str(custom_window))
        yield


def law(of: Callable[[Entry], bool] = lambda _: True) -> Callable[[Any], Any]:
    """A test of every operator that a law is about, with a few examples each."""

    def wrap(test: Any) -> Any:
        run = settings(
            max_examples=EXAMPLES,
            suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        )(given(data=st.data())(test))
        chosen = [each for each in TABLE if of(each)]
        return pytest.mark.parametrize("entry", chosen, ids=lambda each: each.name)(run)

    return wrap


def drawn(
    entry: Entry, data: st.DataObject, *, after: Epoch | None = None, passed_ms: int = 0
) -> list[Epoch]:
    """Epochs of an entry; so many ms after one, if one is told."""
    began_ms = BEGAN_MS if after is None else after.time_ms + passed_ms
    watermark_ms = 0 if after is None else PASSED_MS
    given_epochs = epochs(
        entry.changes, watermarks=entry.watermarks, began_ms=began_ms, watermark_ms=watermark_ms
    )
    return data.draw(given_epochs, label="epochs")


def drawn_spec(entry: Entry, data: st.DataObject) -> AnySpec:
    """Its spec, sometimes with a TTL that a few epochs outlive."""
    return entry.spec(data.draw(st.sampled_from([0, 4]), label="ttl") if entry.has_ttl else 0)


def table(entry: Entry, emitted: Sequence[Change]) -> Any:
    """What a changelog adds up to."""
    if isinstance(entry.output, tuple):
        return materialize_upserts(emitted, entry.output)
    return materialize(hashable(emitted))


def hashable(changes: Sequence[Change]) -> list[Change]:
    """The same changes, each with one column that tells rows apart: rows may hold lists."""
    return [Change(each.kind, (comparable(each.row),)) for each in changes]


def the_end(given_epochs: Sequence[Epoch]) -> Epoch:
    """An epoch behind all times."""
    last_ms = given_epochs[-1].time_ms if given_epochs else 0
    return Epoch((), last_ms + 1_000, WATERMARK_MAX)


def test_every_kind_of_operator_is_in_the_table() -> None:
    assert {each.kind for each in TABLE} == {*SPECS, MaterializerSpec.KIND}
    assert len({each.name for each in TABLE}) == len(TABLE)
    for each in TABLE:
        spec = each.spec()
        assert each.kind == (spec.KIND if isinstance(spec, MaterializerSpec) else spec.kind)


@law()
def test_how_it_is_run_shows_nowhere(entry: Entry, data: st.DataObject) -> None:
    """Restarts between epochs, tasks for any key groups in each of them, on columns or not."""
    given_epochs = drawn(entry, data)
    spec = drawn_spec(entry, data)
    plain, stopped, spread = (Stage.on_heap(spec) for _ in range(3))
    by_rows = Stage.on_heap(spec, columns_from=1 << 30)
    for epoch in given_epochs:
        (said,) = plain.run(epoch)
        assert by_rows.run(epoch) == [said]
        if data.draw(st.booleans(), label="restart"):
            stopped.restart()
        assert stopped.run(epoch) == [said]
        tasks = data.draw(st.sampled_from(TASKS), label="tasks")
        parts = spread.run(epoch, tasks)
        assert sorted(each for part in parts for each in part) == sorted(said)
        assert all(is_part(part, said) for part in parts)
    for other in (stopped, spread, by_rows):
        assert other.stored() == plain.stored()


def is_part(part: Sequence[Said], whole: Sequence[Said]) -> bool:
    """Whether the emissions of a task come in the same order among those of all."""
    rest = iter(whole)
    return all(each in rest for each in part)


@law(lambda each: each.sums_up or not each.bundles)
def test_how_changes_are_cut_into_epochs_shows_in_no_table(
    entry: Entry, data: st.DataObject
) -> None:
    given_epochs = drawn(entry, data)
    pieces = [
        piece
        for epoch in given_epochs
        for piece in cut(epoch, data.draw(st.integers(0, len(epoch.changes)), label="cut"))
    ]
    whole, pieced = Stage.on_heap(entry.spec()), Stage.on_heap(entry.spec())
    emitted = changes_of(whole, whole.run_all(given_epochs))
    again = changes_of(pieced, pieced.run_all(pieces))
    if entry.bundles:
        assert table(entry, again) == table(entry, emitted)
    else:
        assert again == emitted


@law()
def test_redis_does_what_the_heap_does_and_can_be_moved_to_other_key_groups(
    redis_client: redis.Redis, entry: Entry, data: st.DataObject
) -> None:
    redis_client.flushall()
    given_epochs = drawn(entry, data)
    spec = drawn_spec(entry, data)
    at = data.draw(st.integers(0, len(given_epochs)), label="saved after")
    heap, remote = Stage.on_heap(spec), Stage.on_redis(spec, redis_client)
    with closing(remote):
        assert remote.run_all(given_epochs[:at]) == heap.run_all(given_epochs[:at])
        remote.ledger.promote_all([NODE], GROUPS)
        assert kept(redis_client) == heap.stored()
        groups = data.draw(st.sampled_from([1, 3, GROUPS, 7]), label="key groups")
        if at:
            restored = moved(remote, redis_client, groups)
            with closing(restored):
                assert restored.run_all(given_epochs[at:]) == heap.run_all(given_epochs[at:])


def kept(client: redis.Redis) -> dict[tuple[int, bytes], dict[Any, Any]]:
    """What Redis keeps of the pipeline, as `Stage.stored`."""
    found = {}
    for name, held in dump(client, "stage").items():
        before, _, structure = name.partition(b"}:")
        number = int(before.rpartition(b":")[2])
        if structure != b"orphans":
            found[number, structure] = dict(held)
    return found


def moved(
    stage: Stage, client: redis.Redis, groups: int, options: SaveOptions | None = None
) -> Stage:
    """The stage's state in another pipeline of so many key groups, by a savepoint."""
    types = stage.key_types()
    codec = RowCodec(types, tuple(f"k{at}" for at in range(len(types))))
    transport = RedisTransport(client)
    with tempfile.TemporaryDirectory() as folder, closing(transport):
        saver = StateSaver(transport, "stage", {NODE: stage.states}, stage.groups)
        manifest = saver.save("s", Path(folder), options or SaveOptions())
        restore_state(
            transport,
            "moved",
            Path(folder),
            manifest,
            wanted={NODE: stage.states},
            max_parallelism=groups,
            place=lambda _, key: key_group(types, codec.decode(key), groups),
        )
    return Stage.on_redis(
        stage.spec,
        client,
        pipeline="moved",
        groups=groups,
        epoch=stage.epoch,
        watermark_ms=stage.watermark_ms,
        now_ms=stage.now_ms,
    )


@law()
def test_what_is_emitted_is_well_formed_and_nothing_is_left_of_what_is_gone(
    entry: Entry, data: st.DataObject
) -> None:
    given_epochs = drawn(entry, data)
    came = [each for epoch in given_epochs for each in epoch.changes]
    back = live(came) if entry.gone == "rows" else []
    if entry.gone == "keys":
        back = [Of(0, each.change.with_kind(RowKind.DELETE)) for each in came]
    if back:
        back = data.draw(st.permutations(back), label="back")
        given_epochs = [*given_epochs, Epoch(tuple(back), given_epochs[-1].time_ms)]
    stage = Stage.on_heap(entry.spec())
    emitted = changes_of(stage, stage.run_all([*given_epochs, the_end(given_epochs)]))
    check_form(entry, emitted)
    if entry.gone is not None:
        assert {name for _, name in stage.stored()} - {b"counters"} <= entry.left
    if entry.sums_up and entry.gone in ("rows", "keys"):
        assert not table(entry, emitted)


def check_form(entry: Entry, emitted: Sequence[Change]) -> None:
    """That a changelog is as the entry promises."""
    match entry.output:
        case "changelog":
            check_well_formed(hashable(emitted))
        case "bag":
            never_below_zero(hashable(emitted))
        case "insertions":
            assert all(each.kind is RowKind.INSERT for each in emitted)
        case tuple() as key:
            check_well_formed(emitted, upsert_key=key)


@law(lambda each: each.has_ttl)
def test_what_has_outlived_its_ttl_is_as_if_it_had_never_been(
    entry: Entry, data: st.DataObject
) -> None:
    """Other keys are younger, and may expire while the last epochs run."""
    old = drawn(entry, data)
    aged, fresh = Stage.on_heap(entry.spec(AGE_MS)), Stage.on_heap(entry.spec(AGE_MS))
    aged.run_all(old)
    ended = Epoch((), old[-1].time_ms if old else BEGAN_MS, PASSED_MS if entry.watermarks else None)
    keys = {aged.key_of(each) for epoch in old for each in epoch.changes}
    young = [
        Epoch(
            tuple(each for each in epoch.changes if aged.key_of(each) not in keys),
            epoch.time_ms,
            epoch.watermark_ms,
        )
        for epoch in drawn(entry, data, after=ended, passed_ms=AGE_MS // 2)
    ]
    expired = Epoch((), ended.time_ms + AGE_MS)
    last = drawn(entry, data, after=young[-1] if young else ended, passed_ms=AGE_MS)
    assert aged.run_all([ended, *young])[1:] == fresh.run_all([ended, *young])[1:]
    if not young or young[-1].time_ms < expired.time_ms:
        aged.run(expired)
        fresh.run(expired)
    assert aged.run_all(last) == fresh.run_all(last)


@law(lambda each: each.has_ttl)
def test_a_ttl_that_never_ends_shows_in_no_table(entry: Entry, data: st.DataObject) -> None:
    given_epochs = drawn(entry, data)
    if entry.gone == "rows":
        given_epochs = matched(given_epochs)
    plain, timed = Stage.on_heap(entry.spec()), Stage.on_heap(entry.spec(FOR_EVER_MS))
    emitted = changes_of(plain, plain.run_all(given_epochs))
    with_ttl = changes_of(timed, timed.run_all(given_epochs))
    assert table(entry, with_ttl) == table(entry, emitted)
