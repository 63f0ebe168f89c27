"""What join nodes have in common in a plan: their `joinSpec`, and unique keys of their inputs.

Source: Flink's `JoinSpec` and `JoinUtil.analyzeJoinInput` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from service.plan.properties import JsonObject
from service.plan.rex import parse_rex
from state.types import BINARY_ROOTS, LENGTH_MAX, STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.spec import InputSpec
    from service.runtime.specs import StatefulNode
    from state.types import LogicalType


@dataclass(frozen=True, slots=True)
class JoinKeys:
    """The columns that two inputs are joined by."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    equalities: tuple[tuple[int, int], ...] = ()
    """Pairs in which a column stands that is in the key already: they are compared row by row."""
    null_equalities: tuple[tuple[int, int], ...] = ()
    """The same, of pairs of which NULL equals NULL."""

    @classmethod
    def of(cls, spec: JsonObject) -> JoinKeys:
        """The columns of a `joinSpec` as it lists them: a column may stand twice.

        Raises:
            PlanError: It lists none.
        """
        left, right = spec.integers("leftKeys"), spec.integers("rightKeys")
        filtered = tuple(
            JsonObject({"filterNulls": each}, spec.path, spec.node_id).flag("filterNulls")
            for each in spec.list("filterNulls")
        )
        if not len(left) == len(right) == len(filtered):
            raise spec.fail("filterNulls", "leftKeys, rightKeys and filterNulls differ in length")
        return cls(left, right, filtered)

    def each_once(self) -> JoinKeys:
        """The same, but pairs with a column that is in the key already are compared row by row."""
        left: list[int] = []
        right: list[int] = []
        filter_nulls: list[bool] = []
        equalities: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for one, other, filters in zip(self.left, self.right, self.filter_nulls, strict=True):
            if one in left or other in right:
                equalities[filters].append((one, other))
                continue
            left.append(one)
            right.append(other)
            filter_nulls.append(filters)
        repeated = tuple(equalities[True]), tuple(equalities[False])
        return JoinKeys(tuple(left), tuple(right), tuple(filter_nulls), *repeated)


def joined_inputs(at: StatefulNode, keys: JoinKeys, *place: str) -> tuple[InputSpec, InputSpec]:
    """Both inputs by their keys, which stand in the `joinSpec` at this place of the node.

    Raises:
        PlanError: They are compared by a column that is not there.
        UnsupportedNode: Columns are compared whose types differ.
    """
    left, right = at.input(0, keys.left), at.input(1, keys.right)
    pairs = [*zip(keys.left, keys.right, strict=True), *keys.equalities, *keys.null_equalities]
    for one, other in pairs:
        if compared_type(left.types[one]) != compared_type(right.types[other]):
            raise at.refuse("the types of compared columns differ", *place, "leftKeys")
    return left, right


def compared_type(logical: LogicalType) -> LogicalType:
    """A type without what does not matter to canonical text and key groups."""
    has_length = logical.root in STRING_ROOTS | BINARY_ROOTS
    return replace(logical, nullable=True, length=LENGTH_MAX if has_length else logical.length)


def keys_of(owner: JsonObject, names: Sequence[str], width: int) -> list[tuple[int, ...]]:
    """The keys of a row with so many columns, under the first of these names that has any.

    Raises:
        PlanError: They are none.
    """
    for name in names:
        listed = owner.items(name, is_optional=True)
        found = [
            JsonObject({name: entry}, owner.path, owner.node_id).columns(name, width)
            for entry, _ in listed
        ]
        if found:
            return found
    return []


def unique_key(keys: Sequence[Sequence[int]], join_key: Sequence[int]) -> tuple[int, ...] | None:
    """The unique key that rows of an input are kept by; None: none is known.

    One of no columns says that there is one row at most, as of a total.

    One that the join key contains, else the shortest, of several the first.

    >>> unique_key([[1, 2], [0]], [1, 2]), unique_key([[1, 2], [0]], [3])
    ((1, 2), (0,))
    >>> unique_key([[]], [0]), unique_key([], [0])
    ((), None)
    """
    given = [tuple(each) for each in keys]
    contained = [each for each in given if set(each) <= set(join_key)]
    if contained:
        return contained[0]
    return min(given, key=len, default=None)


def condition_of(at: StatefulNode, rex: object, *properties: str | int) -> list[Any] | None:
    """A condition of the node for a spec.

    Raises:
        PlanError: It is no expression.
        UnsupportedNode: Something in it is not evaluated by operators.
    """
    if rex is None:
        return None
    # Most joins have none, and need not load what evaluates expressions.
    from operators.expressions import ExpressionError, compile_predicate, rex_to_json

    path = "/".join([at.node.path, *map(str, properties)])
    parsed = parse_rex(rex, path)
    try:
        compile_predicate(parsed)
        return rex_to_json(parsed)
    except ExpressionError as error:
        raise at.refuse(str(error), *properties) from error
