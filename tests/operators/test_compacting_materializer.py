"""ON CONFLICT DO ERROR and DO NOTHING: recorded cases, the rules one by one, and the laws."""

from __future__ import annotations

import datetime as dt
import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize_upserts
from operators.compacting_materializer import CompactingSpec
from operators.errors import InvalidSpec, PrimaryKeyConflict
from operators.event_time import to_ms
from operators.keyed import WATERMARK_MAX
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_compacting import CompactedView
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    Watermark,
    delete,
    insert,
    update_after,
    update_before,
)
from operators.testing.strategies import INTEGERS, ODD, Domain, changes
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.compacting import compacting_spec
from state.errors import OperatorFailed
from tests.operators.laws import answered_any_way
from tests.oracles import RECORDED
from tests.oracles.__main__ import main
from tests.oracles.cases import read_lines
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    import redis

    from tests.conftest import RedisServer

Steps = list[Change | Of | At | Watermark]


def spec(domain: Domain = INTEGERS, **fields: Any) -> CompactingSpec:
    """Columns id, k, v; primary key k."""
    given: dict[str, Any] = {"upsert_key": (0,), "behavior": "NOTHING"} | fields
    return CompactingSpec.build(
        inputs=(InputSpec(types=domain.types, names=domain.names, key=(1,)),),
        output=RowSpec(types=domain.types, names=domain.names),
        **given,
    )


def run(steps: Steps, **fields: Any) -> list[Change]:
    return OperatorHarness.on_heap(spec(**fields)).run(steps)


def test_every_recorded_case_passes_on_both_backends(redis_server: RedisServer) -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        status = main([str(RECORDED / "compacting"), "--redis-url", redis_server.url])
    assert (status, out.getvalue()) == (0, "32 passed, 0 failed\n")


A, B, C = (1, 1, "a"), (2, 1, "b"), (1, 1, "c")


@pytest.mark.parametrize(
    ("changed", "upsert_key", "emitted"),
    [
        ([insert(*A)], (0,), [insert(*A)]),
        ([insert(*A), insert(*B)], (0,), [insert(*A)]),
        ([insert(*A), insert(*C)], (0,), [insert(*C)]),
        ([insert(*A), insert(*C)], (), [insert(*A)]),
        ([update_before(*A), update_after(*A)], (0,), []),
        ([insert(*A), insert(*B), insert(*A), delete(*A)], (), [insert(*B)]),
        ([insert(*A), delete(*C)], (0,), []),
        ([insert(*A), delete(*C)], (), [insert(*A)]),
    ],
)
def test_what_is_left_between_two_watermarks(
    changed: list[Change], upsert_key: tuple[int, ...], emitted: list[Change]
) -> None:
    steps: Steps = [Watermark(0), *changed, Watermark(1)]
    assert run(steps, upsert_key=upsert_key) == emitted


def test_the_shown_row_counts_among_the_rows() -> None:
    steps: Steps = [insert(*A), Watermark(1), insert(*B), Watermark(2), delete(*A), Watermark(3)]
    assert run(steps) == [insert(*A), delete(*A)], "the loser is forgotten"
    steps = [insert(*A), Watermark(1), delete(*A), insert(*B), Watermark(2), update_after(*B)]
    assert run([*steps, Watermark(3)]) == [insert(*A), update_after(*B)]
    steps = [insert(*A), Watermark(1), delete(*A), insert(*B), insert(3, 1, "a"), Watermark(2)]
    assert run(steps) == [insert(*A)], "several are left, so the shown row stays"


def test_nothing_is_compacted_while_the_watermark_stands() -> None:
    harness = OperatorHarness.on_heap(spec())
    harness.run([insert(*A), Watermark(5)])
    assert harness.run([delete(*A), At(1), insert(*B), Watermark(5)]) == []
    assert harness.run([delete(*B), insert(*A), Watermark(6)]) == []
    assert harness.run([delete(*A), Watermark(WATERMARK_MAX), delete(*B)]) == [delete(*A)]


def test_of_what_waits_from_an_earlier_epoch_all_that_is_cancelled_goes() -> None:
    """Whatever comes and goes behind it in the epoch that cancels it."""
    harness = OperatorHarness.on_heap(spec())
    harness.run([Watermark(0), insert(*A), insert(*B)])
    passing = (3, 1, "c")

    harness.run([delete(*A), insert(*passing), delete(*passing)])

    assert harness.run([Watermark(1)]) == [insert(*B)]


def test_distinct_records_are_an_error_that_names_no_value() -> None:
    with pytest.raises(OperatorFailed) as failed:
        run([insert(*A), insert(*B), Watermark(1)], behavior="ERROR")
    cause = failed.value.__cause__
    assert isinstance(cause, PrimaryKeyConflict)
    assert str(cause).startswith("distinct records with one primary key (k)")


def test_a_retraction_without_a_match_is_an_orphan_once_it_is_compacted() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([delete(*A), Watermark(1)]) == []
    assert [each["orphans"] for each in harness.statistics] == [1]
    assert harness.stored_names() == {b"orphans", b"counters"}


def test_what_waits_outlives_the_row_by_five_seconds() -> None:
    spec_with_ttl = {"ttl_ms": (1_000,)}
    steps: Steps = [insert(*A), Watermark(1), At(999), update_after(*A), Watermark(2)]
    assert run([*steps, At(1_000), update_after(*C), Watermark(3)], **spec_with_ttl) == [
        insert(*A),
        insert(*C),
    ], "an equal row is no write, so it does not lengthen the life"
    assert run([insert(*A), At(5_999), Watermark(1)], **spec_with_ttl) == [insert(*A)]
    harness = OperatorHarness.on_heap(spec(**spec_with_ttl))
    assert harness.run([insert(*A), At(6_000), Watermark(1)]) == []
    assert harness.stored_names() == set()


def test_net_changes_pass_over_what_was_shown_in_between() -> None:
    domain = Domain.of(id=("BIGINT", (1,)), k=("INT", (1,)), stamp=("BIGINT NOT NULL", (1,)))
    one = InputSpec(types=domain.types, names=domain.names, key=(1,))
    output = RowSpec(types=domain.types[:2], names=domain.names[:2])
    steps: Steps = [Watermark(0), insert(7, 1, 1), delete(7, 1, 3), insert(8, 1, 5), Watermark(9)]
    for net, emitted in [
        (False, [insert(7, 1), delete(7, 1), insert(8, 1)]),
        (True, [insert(8, 1)]),
    ]:
        built = CompactingSpec.build(
            inputs=(one,), output=output, behavior="ERROR", stamp=2, net_changes=net
        )
        harness = OperatorHarness.on_heap(built)
        assert harness.run(steps) == emitted
        assert harness.run([delete(8, 1, 9), Watermark(20)]) == [delete(8, 1)]
        assert harness.stored_names() == set()


def test_net_changes_take_back_what_expired_unseen() -> None:
    """The sink was not told of the expiry, so it may still have a row of the key."""
    domain = Domain.of(id=("BIGINT", (1,)), k=("INT", (1,)), stamp=("BIGINT NOT NULL", (1,)))

    def built(*, net: bool, **ttl: Any) -> CompactingSpec:
        return CompactingSpec.build(
            inputs=(InputSpec(types=domain.types, names=domain.names, key=(1,)),),
            output=RowSpec(types=domain.types[:2], names=domain.names[:2]),
            **{"behavior": "ERROR", "stamp": 2, "net_changes": net} | ttl,
        )

    passing: Steps = [insert(7, 1, 3), delete(7, 1, 5), Watermark(9)]
    for ttl_after in ({"ttl_ms": (10,)}, {}):
        for net in (False, True):
            harness = OperatorHarness.on_heap(built(net=net, ttl_ms=(10,)))
            harness.run([Watermark(0), insert(6, 1, 1), Watermark(2), At(10)])
            harness.restart(built(net=net, **ttl_after))
            assert harness.run(passing)[-1:] == [delete(7, 1)]


def test_a_spec_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="name columns"):
        spec(upsert_key=(3,))
    with pytest.raises(InvalidSpec, match="stamp is the last"):
        spec(stamp=0)


@pytest.mark.parametrize(("case", "behavior"), [("105_", "NOTHING"), ("107_", "ERROR")])
def test_the_plan_says_what_happens_on_a_conflict(case: str, behavior: str) -> None:
    plan = load_plan(recorded_plan(case))
    built = compacting_spec(StatefulNode(plan.sinks[0], plan))
    assert (built.behavior, built.inputs[0].key, built.upsert_key) == (behavior, (0,), (1,))
    harness = OperatorHarness.on_heap(built)
    watched = [Watermark(1_000), insert("a", 1, 10), Watermark(2_000), insert("a", 2, 20)]
    assert harness.run([*watched, delete("a", 2, 20), Watermark(3_000)]) == [insert("a", 1, 10)]


def test_the_recorded_plan_row_by_row() -> None:
    """The watermark follows each row whose time is later, as in Flink: each is an epoch."""
    case = next((RECORDED / "plans").glob("105_*"))
    plan = load_plan(recorded_plan("105_"))
    built = compacting_spec(StatefulNode(plan.sinks[0], plan))
    harness, codec = OperatorHarness.on_heap(built), built.output.codec()
    found = []
    for line in read_lines(case / "inputs" / "s.jsonl"):
        change = Change(RowKind.from_short(line["op"]), codec.decode_json(line["data"]))
        watermark_ms = to_ms(dt.datetime.fromisoformat(line["data"]["ts"]))
        found += harness.run_epoch([Of(0, change)], watermark_ms=watermark_ms)
    expected = [
        Change(RowKind.from_short(line["op"]), codec.decode_json(line["data"]))
        for line in read_lines(case / "expected_changelog.jsonl")
    ]
    for key in "ab":
        assert [x for x in found if x.row[0] == key] == [x for x in expected if x.row[0] == key]


def test_another_clause_is_refused() -> None:
    plan = load_plan(recorded_plan("100_"))
    with pytest.raises(UnsupportedNode, match="DO ERROR"):
        compacting_spec(StatefulNode(plan.sinks[0], plan))


def windows(domain: Domain) -> st.SearchStrategy[list[list[Change]]]:
    """What comes between one watermark and the next."""
    return st.lists(changes(domain, 6), max_size=5)


def steps_of(given: list[list[Change]]) -> Steps:
    return [step for at, each in enumerate(given) for step in (*each, Watermark(at))]


@pytest.mark.parametrize("domain", [INTEGERS, ODD], ids=["integers", "odd"])
@pytest.mark.parametrize("behavior", ["NOTHING", "ERROR"])
@given(data=st.data())
def test_what_is_emitted_is_what_the_definition_says(
    domain: Domain, behavior: str, data: st.DataObject
) -> None:
    """At every watermark, for any size of epochs, in whatever order requests are answered."""
    given_changes = data.draw(windows(domain))
    upsert_key = data.draw(st.sampled_from([(), (0,), (0, 2)]))
    view = CompactedView((1,), upsert_key, keeps_first=behavior == "NOTHING")
    built = spec(domain, upsert_key=upsert_key, behavior=behavior, ttl_ms=(10_000,))

    harness = answered_any_way(built, data)
    size = data.draw(st.integers(1, 4))
    emitted: list[Change] = []
    for at, came in enumerate(given_changes):
        for change in came:
            view.put(change, at - 1)
        try:
            expected = view.advance(at)
        except PrimaryKeyConflict:
            with pytest.raises(OperatorFailed):
                harness.run([*came, Watermark(at)], epoch_changes=size)
            return
        found = harness.run([*came, Watermark(at)], epoch_changes=size)
        assert _texts(built, found) == _texts(built, expected)
        emitted += found
    if domain is INTEGERS:
        check_well_formed(emitted, (1,))


def _texts(built: CompactingSpec, emitted: list[Change]) -> list[tuple[str, bytes]]:
    codec = built.output.codec()
    return sorted((each.kind.short, codec.encode(each.row)) for each in emitted)


@given(given_changes=windows(INTEGERS), size=st.integers(1, 4))
def test_a_table_of_which_every_row_was_retracted_leaves_nothing(
    given_changes: list[list[Change]], size: int
) -> None:
    harness = OperatorHarness.on_heap(spec())
    emitted = harness.run(steps_of(given_changes), epoch_changes=size)
    for row in materialize_upserts(emitted, (1,)).values():
        harness.run([delete(*row)])
    harness.run([Watermark(100)])
    assert harness.stored_names() <= {b"orphans", b"counters"}


stamped = st.lists(
    st.tuples(
        st.sampled_from(list(RowKind)), st.integers(1, 2), st.integers(1, 2), st.integers(0, 5)
    ),
    max_size=12,
)


@given(came=stamped, middle=st.integers(0, 6))
def test_net_changes_leave_the_same_table(
    came: list[tuple[RowKind, int, int, int]], middle: int
) -> None:
    domain = Domain.of(id=("BIGINT", (1,)), k=("INT", (1,)), stamp=("BIGINT NOT NULL", (1,)))
    output = RowSpec(types=domain.types[:2], names=domain.names[:2])
    one = InputSpec(types=domain.types, names=domain.names, key=(1,))
    steps: Steps = [Watermark(-1)]
    steps += [Change(kind, (identity, key, stamp)) for kind, identity, key, stamp in came]
    steps += [Watermark(middle), Watermark(9)]
    tables = []
    for net in (False, True):
        built = CompactingSpec.build(
            inputs=(one,), output=output, behavior="NOTHING", stamp=2, net_changes=net
        )
        emitted = OperatorHarness.on_heap(built).run(steps)
        check_well_formed(emitted, (1,))
        tables.append(materialize_upserts(emitted, (1,)))
        if net:
            keys = [each.row[1] for each in emitted]
            assert max((keys.count(each) for each in keys), default=0) <= 2, "once an epoch"
    assert tables[0] == tables[1]


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    steps: Steps = [insert(*A), insert(1, 2, "x"), Watermark(1), delete(*A), At(5), insert(*B)]
    steps += [delete(1, 2, "x"), Watermark(2), delete(*B), Watermark(3)]
    heap = OperatorHarness.on_heap(spec(ttl_ms=(1_000,)))
    remote = OperatorHarness.on_redis(spec(ttl_ms=(1_000,)), redis_client)
    assert remote.run(steps, epoch_changes=1) == heap.run(steps)
    assert max(each["round_trips"] for each in remote.statistics) <= 5
    remote.close()
