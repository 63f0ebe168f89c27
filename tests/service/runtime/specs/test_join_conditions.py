"""Expressions of join nodes on their way into specs."""

from __future__ import annotations

from typing import Any

import pytest

from operators.join.lookup import LookupKey
from operators.join.multi import Attribute
from operators.testing.operator_harness import Of, OperatorHarness, insert
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs.join import join_spec
from service.runtime.specs.lookup_join import lookup_join_spec
from service.runtime.specs.multi_join import multi_join_spec
from tests.service.runtime.specs import test_join, test_lookup_join, test_multi_join
from tests.service.runtime.specs.test_multi_join import equal, pair, ref


def call(name: str, *operands: Any, logical: str = "BOOLEAN") -> dict[str, Any]:
    return {
        "kind": "CALL",
        "syntax": "BINARY",
        "internalName": name,
        "operands": list(operands),
        "type": logical,
    }


def test_a_condition_of_a_join() -> None:
    less = call("$<$1", ref(0, "INT NOT NULL"), ref(3, "INT NOT NULL"))
    at = test_join.changed("070_join_inner", joinSpec={"nonEquiCondition": less})
    harness = OperatorHarness.on_heap(join_spec(at))
    steps = [Of(0, insert(5, "a", "l")), Of(1, insert(4, "a", "r")), Of(1, insert(6, "a", "r"))]
    assert harness.run(steps) == [insert(5, "a", "l", 6, "a", "r")]


def test_a_condition_that_is_not_evaluated_is_refused() -> None:
    unknown = call("$NO_SUCH_FUNCTION$1", ref(0, "INT NOT NULL"))
    at = test_join.changed("070_join_inner", joinSpec={"nonEquiCondition": unknown})
    with pytest.raises(UnsupportedNode, match="NO_SUCH_FUNCTION"):
        join_spec(at)


def test_what_a_chain_compares_beside_its_attributes() -> None:
    more = call("$<>$1", ref(1, "VARCHAR(2147483647)"), ref(5, "VARCHAR(2147483647)"))
    true = {"kind": "LITERAL", "value": True, "type": "BOOLEAN NOT NULL"}
    at = test_multi_join.changed(
        joinConditions=[true, equal(0, 2), call("$AND$1", equal(0, 4), more, more)]
    )
    spec = multi_join_spec(at)
    assert [each.condition is None for each in spec.joins] == [True, True, False]
    harness = OperatorHarness.on_heap(spec)
    steps = [Of(0, insert(1, "x")), Of(1, insert(1, "b")), Of(2, insert(1, "x"))]
    assert harness.run([*steps, Of(2, insert(1, "y"))]) == [insert(1, "x", 1, "b", 1, "y")]


def test_what_is_left_of_a_condition_is_of_the_nodes_zone() -> None:
    seconds = ref(0, "INT NOT NULL")
    text = call("$FROM_UNIXTIME$1", seconds, logical="VARCHAR(2147483647)")
    later = call("$<>$1", text, ref(1, "VARCHAR(2147483647)"))
    zone = {"table.local-time-zone": "Asia/Tokyo"}

    def condition(*parts: dict[str, Any]) -> str:
        given = [None, equal(0, 2), call("$AND$1", equal(0, 4), *parts)]
        return str(multi_join_spec(changed(joinConditions=given, configuration=zone)).joins[2])

    changed = test_multi_join.changed
    assert condition(later).count("CLOCK_OF_SECONDS") == 1
    assert condition(later, later).count("CLOCK_OF_SECONDS") == 2


def test_what_all_inputs_share_is_the_key_and_the_rest_a_part_of_it() -> None:
    both = {
        "kind": "CALL",
        "internalName": "$AND$1",
        "operands": [equal(0, 4), equal(3, 5, "$IS NOT DISTINCT FROM$1")],
        "type": "BOOLEAN",
    }
    true = {"kind": "LITERAL", "value": True, "type": "BOOLEAN NOT NULL"}
    spec = multi_join_spec(
        test_multi_join.changed(
            joinTypes=["INNER", "LEFT", "LEFT"],
            joinAttributeMap={"1": [pair(0, 0, 1, 0)], "2": [pair(0, 0, 2, 0), pair(1, 1, 2, 1)]},
            joinConditions=[true, equal(2, 0), both],
        )
    )
    assert [each.key for each in spec.inputs] == [(0,), (0,), (0,)]
    assert [each.join_type for each in spec.joins] == ["INNER", "LEFT", "LEFT"]
    assert spec.joins[1].attributes == (Attribute(before=0, column=0),)
    assert spec.joins[2].attributes == (
        Attribute(before=0, column=0),
        Attribute(before=3, column=1, filters_null=False),
    )


def test_values_that_only_some_inputs_share_are_no_key() -> None:
    at = test_multi_join.changed(
        joinAttributeMap={"1": [pair(0, 0, 1, 0)], "2": [pair(1, 1, 2, 1)]}
    )
    assert [each.key for each in multi_join_spec(at).inputs] == [(), (), ()]


def test_a_constant_to_look_up_by() -> None:
    literal = {"kind": "LITERAL", "value": 2, "type": "INT NOT NULL"}
    at = test_lookup_join.changed(
        lookupKeys={"0": {"type": "Constant", "sourceType": "INT NOT NULL", "literal": literal}}
    )
    spec = lookup_join_spec(at)
    assert spec.keys == (LookupKey(column=0, constant="[2]"),)
    assert spec.inputs[0].key == ()


def test_a_projection_of_the_looked_up_table() -> None:
    upper = call("$UPPER$1", ref(1, "VARCHAR(2147483647)"), logical="VARCHAR(2147483647)")
    at = test_lookup_join.changed(projectionOnTemporalTable=[ref(0), {**upper}])
    assert len(lookup_join_spec(at).projection or ()) == 2
    unknown = call("$NO_SUCH_FUNCTION$1", ref(0))
    with pytest.raises(UnsupportedNode, match="NO_SUCH_FUNCTION"):
        lookup_join_spec(test_lookup_join.changed(projectionOnTemporalTable=[unknown]))
