"""Rows that do not satisfy the condition are as good as none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import materialize
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.expressions import rex_to_json
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, OperatorHarness, delete, insert, update_after
from service.plan.rex import parse_rex
from state.types import parse_type
from tests.operators.plan_cases import PlanCase, by_key
from tests.service.plan.builders import call, literal, ref

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_condition_emits_what_flink_did() -> None:
    case = PlanCase("013_changelog_normalize_filter", "changelog-normalize")
    assert by_key(case.emitted(), "id") == by_key(case.expected(), "id")
    assert by_key(case.emitted(epoch_changes=1), "id") == by_key(case.expected(), "id")


def test_a_row_that_does_not_count_is_not_kept() -> None:
    case = PlanCase("013_changelog_normalize_filter", "changelog-normalize")
    kept: list[OperatorHarness] = []

    def make(spec) -> OperatorHarness:
        kept.append(OperatorHarness.on_heap(spec))
        return kept[-1]

    line = {"op": "+I", "data": {"id": 1, "name": "a", "score": 1}}
    assert case.emitted(lines=[line], make=make) == []
    assert kept[0].stored_names() == set()


def test_a_condition_may_ask_for_the_time_of_the_epoch() -> None:
    """Which is the same for all changes of it; a row that is kept stays until its key changes."""
    types, names = (parse_type("STRING"), parse_type("BIGINT")), ("k", "until")
    now = {"kind": "CALL", "syntax": "FUNCTION", "internalName": "$UNIX_TIMESTAMP$1"}
    until = {"kind": "INPUT_REF", "inputIndex": 1, "type": "BIGINT"}
    compared = [until, {**now, "operands": [], "type": "BIGINT NOT NULL"}]
    raw = {"kind": "CALL", "syntax": "BINARY", "internalName": "$>$1", "type": "BOOLEAN"}
    spec = ChangelogNormalizeSpec.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(types=types, names=names),
        condition=rex_to_json(parse_rex({**raw, "operands": compared}, "")),
    )
    harness = OperatorHarness.on_heap(spec)
    assert harness.run([At(5_000), insert("a", 7), insert("b", 5)]) == [insert("a", 7)]
    assert harness.run([At(9_000), update_after("a", 8)]) == [delete("a", 7)]
    assert harness.stored_names() == set()


def asking(condition: dict[str, Any]) -> OperatorHarness:
    """A normalizer of `k` and `v` that keeps the rows of which a condition holds."""
    types, names = (parse_type("STRING"), parse_type("BIGINT")), ("k", "v")
    spec = ChangelogNormalizeSpec.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(types=types, names=names),
        condition=rex_to_json(parse_rex(condition, "")),
    )
    return OperatorHarness.on_heap(spec)


V = ref(1, "BIGINT")
CONDITIONS: dict[str, tuple[dict[str, Any], Callable[[int | None], bool]]] = {
    "v > 1": (call(">", V, literal(1, "BIGINT NOT NULL")), lambda v: v is not None and v > 1),
    "v IS NULL": (call("IS NULL", V, syntax="POSTFIX"), lambda v: v is None),
    "v IS NOT NULL": (call("IS NOT NULL", V, syntax="POSTFIX"), lambda v: v is not None),
}
VALUES = st.sampled_from([None, 0, 1, 2, 3])


@pytest.mark.parametrize("condition", CONDITIONS)
@given(
    puts=st.lists(st.tuples(st.sampled_from("abc"), VALUES, st.booleans()), max_size=12),
    by_key=st.booleans(),
)
def test_a_delete_of_a_row_that_did_not_pass_is_no_orphan(
    condition: str, puts: list[tuple[str, int | None, bool]], by_key: bool
) -> None:
    """Of a sound changelog nothing is an orphan, whether deletes tell their rows or keys."""
    text, holds = CONDITIONS[condition]
    table: dict[str, int | None] = {}
    changes = []
    for key, value, is_delete in puts:
        if is_delete and key in table:
            changes.append(delete(key, None if by_key else table.pop(key)))
            table.pop(key, None)
        elif not is_delete:
            changes.append((update_after if key in table else insert)(key, value))
            table[key] = value
    harness = asking(text)

    found = materialize(harness.run(changes))

    assert found == {(k, v): 1 for k, v in table.items() if holds(v)}
    assert harness.statistics[-1]["orphans"] == 0 if changes else True


def test_a_delete_of_a_row_that_would_have_passed_is_one() -> None:
    harness = asking(CONDITIONS["v > 1"][0])

    assert harness.run([delete("a", 2), delete("b", 1), delete("c", None)]) == []
    assert harness.statistics[-1]["orphans"] == 1
