"""Rows that do not satisfy the condition are as good as none."""

from __future__ import annotations

from operators.testing.operator_harness import OperatorHarness
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
