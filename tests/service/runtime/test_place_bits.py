"""Shares of a place: whatever follows whatever, all that is put side by side fits."""

from __future__ import annotations

from typing import Any

import pytest

from operators.wire import PLACE_BITS
from service.plan import load_plan
from service.plan.nodes import Correlate
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.operators import stateful_nodes
from service.runtime.place_bits import CORRELATE_BITS_MAX, PlaceBits, place_bits
from service.sql import compile_script

TABLES = """
CREATE TABLE s (k INT, a ARRAY<INT>) WITH ('connector' = 'ingress');
CREATE TABLE t (n INT) WITH ('connector' = 'print');
"""


def unnested(source: str, times: int) -> str:
    """A query whose rows go through so many UNNESTs, one behind the other."""
    calls = (f" CROSS JOIN UNNEST(a) AS u{at} (n{at})" for at in range(times))
    return f"SELECT k FROM {source}{''.join(calls)}"


def of_query(query: str) -> tuple[Any, PlaceBits]:
    plan = load_plan(compile_script(f"{TABLES} INSERT INTO t {query};")[-1].document)
    return plan, place_bits(plan, {each.node_id for each in stateful_nodes(plan)})


def room_behind(plan: Any, bits: PlaceBits, node: int) -> int:
    """The most bits that correlates put behind a node's places, up to the next stage."""
    return max(
        (
            bits.correlates.get(each.id, 0) + room_behind(plan, bits, each.id)
            for each in plan.outputs(node)
            if each.id not in bits.stages
        ),
        default=0,
    )


JOINED = "(SELECT x.k, y.a FROM s AS x JOIN s AS y ON x.k = y.k)"


@pytest.mark.parametrize("times", range(1, 10))
@pytest.mark.parametrize("source", ["s", JOINED])
def test_places_and_the_numbers_behind_them_fit(source: str, times: int) -> None:
    plan, bits = of_query(unnested(source, times))

    assert len(bits.correlates) == times
    assert set(bits.followers.values()) == {times}
    for node in plan.nodes:
        own = bits.stages.get(node.id, 0)
        assert own + room_behind(plan, bits, node.id) <= PLACE_BITS
    for stage, own in bits.stages.items():
        assert own >= 26, f"node {stage} has too few for an epoch"


def test_one_call_alone_makes_a_million_rows() -> None:
    for source in ("s", JOINED):
        assert set(of_query(unnested(source, 1))[1].correlates.values()) == {CORRELATE_BITS_MAX}


def test_ways_that_meet_share_what_the_longest_leaves() -> None:
    both = f"{unnested('s', 3)} UNION ALL {unnested(JOINED, 1)}"

    plan, bits = of_query(f"SELECT k FROM ({both}) CROSS JOIN UNNEST(ARRAY[k, k]) AS u (n)")

    sources = [each.id for each in plan.nodes if not plan.inputs(each.id)]
    assert len([each for each in plan.nodes if isinstance(each.view, Correlate)]) == 5
    assert sorted(bits.followers.values()) == [2, 4, 4, 4, 4]
    for each in (*sources, *bits.stages):
        assert bits.stages.get(each, 0) + room_behind(plan, bits, each) <= PLACE_BITS


def test_more_than_can_be_told_apart_are_refused_where_they_are() -> None:
    with pytest.raises(UnsupportedNode, match="16 calls of UNNEST") as refused:
        of_query(unnested("s", 16))
    assert refused.value.node_id is not None
    with pytest.raises(UnsupportedNode, match="10 calls of UNNEST"):
        of_query(unnested(JOINED, 10))
