"""Changelogs out of upserts: what was there is taken back, and equal rows are passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import (
    At,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.types import parse_type
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    import redis

TYPES = (parse_type("STRING"), parse_type("DOUBLE"))
NAN = float("nan")


def spec(**fields: Any) -> ChangelogNormalizeSpec:
    row = InputSpec(types=TYPES, names=("k", "v"), key=(0,))
    output = RowSpec(types=TYPES, names=("k", "v"))
    return ChangelogNormalizeSpec.build(inputs=(row,), output=output, **fields)


def test_an_update_takes_back_what_was_there_and_a_delete_may_be_a_key() -> None:
    harness = OperatorHarness.on_heap(spec())
    given = [insert("a", 1.0), update_after("a", 2.0), update_after("a", 2.0), delete("a", None)]
    assert harness.run(given) == [
        insert("a", 1.0),
        update_before("a", 1.0),
        update_after("a", 2.0),
        delete("a", 2.0),
    ]
    assert harness.stored_names() == set()


def test_without_the_row_before_updates_come_alone() -> None:
    harness = OperatorHarness.on_heap(spec(update_before=False))
    given = [update_after("a", 1.0), insert("a", 2.0), update_before("a", 2.0)]
    assert harness.run(given) == [insert("a", 1.0), update_after("a", 2.0), delete("a", 2.0)]


def test_rows_are_equal_by_their_bytes() -> None:
    harness = OperatorHarness.on_heap(spec(update_before=False))
    given = [insert("a", NAN), insert("a", NAN), insert("a", 0.0), insert("a", -0.0)]
    assert [each.kind.short for each in harness.run(given)] == ["+I", "+U", "+U"]


def test_with_a_ttl_an_equal_row_is_emitted_and_lives_on() -> None:
    harness = OperatorHarness.on_heap(spec(ttl_ms=(10,), update_before=False))
    given = [insert("a", 1.0), At(9), insert("a", 1.0), At(18), insert("a", 2.0), At(28)]
    assert harness.run([*given, insert("a", 3.0), At(40), delete("a", 3.0)]) == [
        insert("a", 1.0),
        update_after("a", 1.0),
        update_after("a", 2.0),
        insert("a", 3.0),
    ]


def test_an_absent_row_cannot_be_deleted() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([delete("a", 1.0), update_before("b", 1.0)]) == []
    assert harness.statistics[-1]["orphans"] == 2


def test_of_a_bundle_the_last_change_counts() -> None:
    harness = OperatorHarness.on_heap(spec(bundles=True))
    assert harness.run([insert("a", 1.0), insert("b", 1.0), update_after("a", 2.0)]) == [
        insert("b", 1.0),
        insert("a", 2.0),
    ]
    assert harness.run(
        [delete("a", 2.0), insert("a", 3.0), insert("c", 1.0), delete("c", 1.0)]
    ) == [
        update_before("a", 2.0),
        update_after("a", 3.0),
    ]
    assert harness.statistics[-1]["orphans"] == 0
    assert harness.run([delete("c", 1.0), delete("a", 3.0), delete("a", 3.0)]) == [delete("a", 3.0)]
    assert harness.statistics[-1]["orphans"] == 1


rows = st.tuples(st.sampled_from("ab"), st.sampled_from((None, 0.0, 1.0)))
changes = st.lists(st.builds(Change, st.sampled_from(RowKind), rows), max_size=16)


def last_rows(given: list[Change]) -> dict[object, Change]:
    """The last row of each key, if its last change put one."""
    found: dict[object, Change] = {}
    for each in given:
        if each.kind.is_retraction:
            found.pop(each.row[0], None)
        else:
            found[each.row[0]] = each
    return found


@given(given=changes, size=st.integers(1, 4), data=st.data(), bundles=st.booleans())
def test_what_is_emitted_adds_up_to_the_last_rows(
    given: list[Change], size: int, data: st.DataObject, bundles: bool
) -> None:
    if bundles:
        emitted = OperatorHarness.on_heap(spec(bundles=True)).run(given, epoch_changes=size)
    else:
        emitted = emits_the_same_any_way(spec(), given, data, size)
    check_well_formed(emitted)
    assert materialize(emitted) == materialize(last_rows(given).values())
    without = OperatorHarness.on_heap(spec(update_before=False)).run(given)
    check_well_formed(without, upsert_key=(0,))


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    given = [insert("a", 1.0), insert("b", None), update_after("a", NAN), delete("b", None)]
    heap, remote = OperatorHarness.on_heap(spec()), OperatorHarness.on_redis(spec(), redis_client)
    assert str(remote.run(given, epoch_changes=2)) == str(heap.run(given))
    assert remote.statistics[-1]["round_trips"] <= 2
    remote.close()
