"""What the operators of recorded plans keep is shown, rows by the names of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from operators.testing.operator_harness import NODE, OperatorHarness
from service.runtime.inspection import OperatorInspector
from service.runtime.state_inspection import StateInspector
from service.runtime.table_reader import SlotReader
from state.reader import CommittedReader
from tests.operators.plan_cases import PlanCase
from tests.service.prepared import MAX_PARALLELISM
from tests.service.runtime.specs.join_cases import node_of, spec_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from operators.spec import OperatorSpec

ALONE = [
    ("010_changelog_normalize_upsert", "changelog-normalize"),
    ("022_dedup_rowtime_first", "deduplicate"),
    ("052_sort_limit_append", "sort-limit"),
    ("062_rank_retract", "rank"),
    ("066_rank_variable", "rank"),
    ("133_temporal_sort", "temporal-sort"),
]
JOINS = [
    ("071_join_left", "join", "lr"),
    ("076_join_unique_key_both", "join", "lr"),
    ("120_multi_join_inner", "multi-join", "abc"),
    ("090_temporal_join_left", "temporal-join", ("o", "rates")),
]


def shown(client: redis.Redis, spec: OperatorSpec) -> Iterator[tuple[str, Any]]:
    """Everything that is in state: the state's name, and an element with its key."""
    reader, states = CommittedReader(client, "p"), spec.operator().states
    operator = OperatorInspector(reader, NODE, spec, MAX_PARALLELISM, descriptors=states)
    inspector = StateInspector(
        reader,
        SlotReader(client, "p"),
        NODE,
        operator.keys,
        MAX_PARALLELISM,
        descriptors=states,
        clock=lambda: 0,
    )
    for key in inspector.list_keys(None, "", None, 1_000).items:
        values = operator.keys.codec.decode_json(key.key)
        found = inspector.read_all(values, namespace=key.namespace, limit=1_000)
        for state, content in found.states:
            yield from ((state.name, each) for each in content.elements)
    reader.close()


def row_of(element: Any, names: tuple[str, ...]) -> bool:
    """Whether some part of what is shown is a row of these columns."""
    value = element.value
    parts = [element.key, value, value.get("row") if isinstance(value, dict) else None]
    return any(isinstance(each, dict) and tuple(each) == names for each in parts)


@pytest.mark.parametrize(("name", "kind"), ALONE, ids=[each[0] for each in ALONE])
def test_the_rows_of_an_operator_have_their_columns(
    name: str, kind: str, redis_client: redis.Redis
) -> None:
    case = PlanCase(name, kind)
    made: list[OperatorHarness] = []

    def make(spec: OperatorSpec) -> OperatorHarness:
        made.append(
            OperatorHarness.on_redis(
                spec, redis_client, pipeline="p", max_parallelism=MAX_PARALLELISM
            )
        )
        return made[0]

    # Without a watermark what waits for one stays in state.
    case.emitted(make=make)
    made[0].close()

    found = list(shown(redis_client, case.spec))
    assert any(row_of(each, case.spec.inputs[0].names) for _, each in found)


@pytest.mark.parametrize(("name", "kind", "tables"), JOINS, ids=[each[0] for each in JOINS])
def test_the_rows_of_each_side_have_its_columns(
    name: str, kind: str, tables: tuple[str, ...], redis_client: redis.Redis
) -> None:
    spec = spec_of(name, kind)
    harness = OperatorHarness.on_redis(
        spec, redis_client, pipeline="p", max_parallelism=MAX_PARALLELISM
    )
    steps = steps_of(name, node_of(name, kind), tables)
    harness.run(steps[: len(steps) // 2])
    harness.close()

    found = list(shown(redis_client, spec))

    for side in spec.inputs:
        assert any(row_of(each, side.names) for _, each in found), side.names
