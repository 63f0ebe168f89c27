"""`stream-exec-multi-join`: several changelogs joined at once (FLIP-516).

Source: Flink's `StreamExecMultiJoin` and `AttributeBasedJoinKeyExtractor` (2.3).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from operators.join.multi import Attribute, MultiInput, MultiJoinSpec
from service.plan.properties import JsonObject
from service.plan.rex import ZONE_MARK, parse_rex
from service.runtime.specs.join_spec import compared_type, condition_of, keys_of, unique_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.runtime.specs import StatefulNode

    Column = tuple[int, int]
    """An input and a column of it."""

_AND, _EQUAL = "$AND$1", "$=$1"
_PAIR = "a pair of compared columns"


def multi_join_spec(at: StatefulNode) -> MultiJoinSpec:
    """The spec of a join of several inputs.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: It has another join than INNER and LEFT, compares columns of different
            types, or has a condition that is not evaluated.
    """
    given = at.properties
    count = len(at.inputs)
    widths = [len(each.output_type.children) for each in at.inputs]
    starts = [0, *accumulate(widths)]
    pairs = _pairs(at, widths)
    _check_types(at, pairs)
    shared = _shared(pairs, count)
    join_types = _of_inputs(at, "joinTypes")
    conditions = _of_inputs(at, "joinConditions")
    unique_keys = _of_inputs(at, "inputUniqueKeys")
    joins = []
    for number in range(count):
        join_type = join_types[number]
        if join_type not in ("INNER", "LEFT"):
            raise at.refuse(f"a {join_type} join", "joinTypes", number)
        places = [(starts[one] + column, other) for (one, column), other in pairs[number]]
        if conditions[number] is not None:
            # The parts are looked at below: here it is seen that they are what they must be.
            parse_rex(conditions[number], f"{given.at('joinConditions')}/{number}")
        condition = conditions[number] if number else None
        equal, rest = _split(condition, places, starts[number])
        key = [column for of_input, column in shared if of_input == number]
        unique = JsonObject({"inputUniqueKeys": unique_keys[number]}, given.path, given.node_id)
        joins.append(
            MultiInput(
                join_type=join_type,
                attributes=tuple(
                    Attribute(before=one, column=other, filters_null=(one, other) in equal)
                    for one, other in places
                ),
                unique_key=unique_key(
                    keys_of(unique, ("inputUniqueKeys",), widths[number]),
                    [*key, *(other for _, other in places)],
                ),
                condition=condition_of(at, rest, "joinConditions", number),
            )
        )
    inputs = tuple(
        at.input(number, [column for of_input, column in shared if of_input == number])
        for number in range(count)
    )
    return MultiJoinSpec.build(**at.common, inputs=inputs, joins=tuple(joins))


def _of_inputs(at: StatefulNode, name: str) -> list[Any]:
    """A property that has an entry for each input."""
    found = at.properties.list(name)
    if len(found) != len(at.inputs):
        raise at.properties.fail(name, f"{len(found)} {name} for {len(at.inputs)} inputs")
    return found


def _pairs(at: StatefulNode, widths: Sequence[int]) -> dict[int, list[tuple[Column, int]]]:
    """The columns that each input is compared by: of an earlier input, and its own; each once."""
    name = "joinAttributeMap"
    is_missing = not at.properties.has(name)
    declared = JsonObject({}, "") if is_missing else at.properties.object(name)
    pairs: dict[int, list[tuple[Column, int]]] = {}
    for number, width in enumerate(widths):
        found: list[tuple[Column, int]] = []
        # The first input is compared with nothing, whatever stands there.
        for each in declared.objects(str(number), _PAIR, is_optional=True) if number else []:
            before = each.integer("leftInputId", default=0)
            if before < 0:
                continue
            if before >= number:
                raise each.fail("leftInputId", f"input {before} does not come before {number}")
            column = each.column("leftFieldIndex", widths[before])
            found.append(((before, column), each.column("rightFieldIndex", width)))
        pairs[number] = list(dict.fromkeys(found))
    return pairs


def _check_types(at: StatefulNode, pairs: Mapping[int, Sequence[tuple[Column, int]]]) -> None:
    types = [each.output_type.children for each in at.inputs]
    for number, of_input in pairs.items():
        for (one, column), other in of_input:
            if compared_type(types[one][column]) != compared_type(types[number][other]):
                raise at.refuse("the types of compared columns differ", "joinAttributeMap", number)


def _shared(pairs: Mapping[int, Sequence[tuple[Column, int]]], count: int) -> list[Column]:
    """One column of each input for each value that all inputs are compared by; values in order.

    Columns that are equal, at once or by way of others, are one value. Where an input has several
    columns of it, the first one counts; the others are compared row by row.
    """
    group: dict[Column, set[Column]] = {}
    for number, of_input in pairs.items():
        for one, column in of_input:
            other = (number, column)
            merged = group.get(one, {one}) | group.get(other, {other})
            group.update(dict.fromkeys(merged, merged))
    values = {min(each): each for each in group.values()}
    whole = [
        sorted(each) for _, each in sorted(values.items()) if len({at for at, _ in each}) == count
    ]
    return [
        next(column for column in value if column[0] == number)
        for value in whole
        for number in range(count)
    ]


def _split(
    condition: Mapping[str, Any] | None, places: Sequence[tuple[int, int]], start: int
) -> tuple[set[tuple[int, int]], Any]:
    """Which attributes a condition compares by `=`, and the rest of it; None: there is none."""
    if condition is None:
        return set(), None
    wanted = {frozenset((one, start + other)): (one, other) for one, other in places}
    equal: set[tuple[int, int]] = set()
    rest = []
    for part in _parts(condition):
        attribute = wanted.get(_compared(part)) if part.get("internalName") == _EQUAL else None
        if attribute is not None:
            equal.add(attribute)
        elif not (part.get("kind") == "LITERAL" and part.get("value") is True):
            rest.append(part)
    if len(rest) > 1:
        return equal, {**condition, "operands": rest}
    if rest and ZONE_MARK in condition:
        # Only the whole condition says its zone.
        return equal, {**rest[0], ZONE_MARK: condition[ZONE_MARK]}
    return equal, rest[0] if rest else None


def _parts(condition: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if condition.get("internalName") == _AND:
        for each in condition.get("operands") or ():
            yield from _parts(each)
    else:
        yield condition


def _compared(call: Mapping[str, Any]) -> frozenset[int]:
    """The two columns that a call compares, if it does."""
    operands = call.get("operands") or []
    if len(operands) != 2 or any(each.get("kind") != "INPUT_REF" for each in operands):
        return frozenset()
    return frozenset(each["inputIndex"] for each in operands)
