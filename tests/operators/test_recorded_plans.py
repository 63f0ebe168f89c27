"""Recorded plans of real Flink 2.3, for the operators that rank, sort, limit and deduplicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operators.testing.operator_harness import OperatorHarness
from tests.operators.plan_cases import PlanCase, by_key

if TYPE_CHECKING:
    import redis

CASES = [
    ("010_changelog_normalize_upsert", "changelog-normalize", ("id",), None),
    ("011_changelog_normalize_keyonly_delete", "changelog-normalize", ("id",), None),
    ("014_changelog_normalize_minibatch", "changelog-normalize", ("id",), None),
    ("020_dedup_proctime_first", "deduplicate", ("k",), None),
    ("022_dedup_rowtime_first", "deduplicate", ("k",), 10_000),
    ("024_dedup_proctime_last_minibatch", "deduplicate", ("k",), None),
    ("025_dedup_proctime_last_upsert_sink", "deduplicate", ("k",), None),
    ("026_dedup_first_ttl", "deduplicate", ("k",), None),
    ("050_limit_append", "limit", (), None),
    ("052_sort_limit_append", "sort-limit", (), None),
    ("060_rank_append", "rank", ("cat",), None),
    ("062_rank_retract", "rank", ("cat",), None),
    ("064_rank_update_fast", "rank", ("cat",), None),
    ("066_rank_variable", "rank", ("cat",), None),
    ("067_rank_append_ttl", "rank", ("cat",), None),
    ("133_temporal_sort", "temporal-sort", (), 0),
]
"""Name, node, columns of the node's key, and how far the watermark is behind."""


def counted(case: PlanCase) -> list[dict]:
    """What the aggregation of 064 emits before its rank."""
    counts: dict[tuple, int] = {}
    lines = []
    for line in case.lines():
        key = line["data"]["cat"], line["data"]["id"]
        counts[key] = counts.get(key, 0) + 1
        data = {"cat": key[0], "id": key[1], "c": counts[key]}
        lines.append({"op": "+I" if counts[key] == 1 else "+U", "data": data})
    return lines


@pytest.mark.parametrize(("name", "kind", "key", "lag_ms"), CASES, ids=[each[0] for each in CASES])
def test_an_operator_emits_what_flink_did(
    name: str,
    kind: str,
    key: tuple[str, ...],
    lag_ms: int | None,
    redis_client: redis.Redis,
) -> None:
    case = PlanCase(name, kind)
    lines = counted(case) if name.startswith("064") else None
    expected = by_key(case.expected(), *key)

    def on_redis(spec) -> OperatorHarness:
        return OperatorHarness.on_redis(spec, redis_client)

    assert by_key(case.emitted(lag_ms=lag_ms, lines=lines), *key) == expected
    assert by_key(case.emitted(lag_ms=lag_ms, lines=lines, make=on_redis), *key) == expected
    if not case.spec.bundles:
        one = case.emitted(lag_ms=lag_ms, lines=lines, epoch_changes=1)
        assert by_key(one, *key) == expected
