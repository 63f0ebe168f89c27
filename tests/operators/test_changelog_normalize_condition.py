"""Rows that do not satisfy the condition are as good as none."""

from __future__ import annotations

from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.expressions import rex_to_json
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, OperatorHarness, delete, insert, update_after
from service.plan.rex import parse_rex
from state.types import parse_type
from tests.operators.plan_cases import PlanCase, by_key


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
