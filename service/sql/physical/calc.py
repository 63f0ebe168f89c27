"""Calc nodes: projections and filters become one, and go below the normalization of upserts.

Below a ChangelogNormalize goes what makes its rows narrower, and conditions on the key; other
conditions become its own, so that a row that no longer meets them is deleted. Where a source is
read more than once, all stays above, and one ChangelogNormalize serves all readers.

Source: Flink `PushCalcPastChangelogNormalizeRule`, `FlinkMarkChangelogNormalizeProgram` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import InputRef, Rex
from service.sql.physical.nodes import CalcSpec, ExchangeSpec, Node, NormalizeSpec
from service.sql.rex import (
    conjunction,
    conjuncts,
    inputs_of,
    inputs_of_all,
    ref,
    remap,
    substitute,
    type_of,
)
from service.sql.terms import Row

if TYPE_CHECKING:
    from collections.abc import Sequence


def calc(
    base: Node, projection: Sequence[Rex], names: Sequence[str], condition: Rex | None = None
) -> Node:
    """A projection, after a filter if there is one, of a node's rows."""
    if isinstance(base.spec, CalcSpec):
        return _merged(base, base.spec, projection, names, condition)
    is_open = isinstance(base.spec, NormalizeSpec) and not base.spec.is_shared
    if isinstance(base.spec, NormalizeSpec) and is_open and base.spec.condition is None:
        return _past_normalize(base, base.spec, projection, names, condition)
    return _plain(base, projection, names, condition)


def columns(base: Node, kept: Sequence[int]) -> Node:
    """Some columns of a node."""
    row = base.row
    expressions = [ref(index, row.types[index]) for index in kept]
    return calc(base, expressions, [row.names[index] for index in kept])


def _plain(
    base: Node, projection: Sequence[Rex], names: Sequence[str], condition: Rex | None
) -> Node:
    if condition is None and _is_identity(projection, base.row):
        return base
    row = Row(tuple(names), tuple(type_of(rex) for rex in projection))
    return Node(CalcSpec(tuple(projection), condition), (base,), row)


def _is_identity(projection: Sequence[Rex], row: Row) -> bool:
    return len(projection) == len(row) and all(
        isinstance(rex, InputRef) and rex.index == index and rex.type == row.types[index]
        for index, rex in enumerate(projection)
    )


def _merged(
    base: Node,
    inner: CalcSpec,
    projection: Sequence[Rex],
    names: Sequence[str],
    condition: Rex | None,
) -> Node:
    outputs = [substitute(rex, inner.projection) for rex in projection]
    parts = conjuncts(inner.condition)
    if condition is not None:
        moved = substitute(condition, inner.projection)
        parts += [part for part in conjuncts(moved) if part not in parts]
    return calc(base.input, outputs, names, conjunction(parts))


def _past_normalize(
    base: Node,
    normalize: NormalizeSpec,
    projection: Sequence[Rex],
    names: Sequence[str],
    condition: Rex | None,
) -> Node:
    exchange = base.input
    keys = frozenset(normalize.keys)
    parts = conjuncts(condition)
    on_key = [part for part in parts if inputs_of(part) <= keys]
    others = [part for part in parts if part not in on_key]
    used = sorted(inputs_of_all([*projection, *others]) | keys)
    row = exchange.input.row
    below = calc(
        exchange.input,
        [ref(index, row.types[index]) for index in used],
        [row.names[index] for index in used],
        conjunction(on_key),
    )
    places = {index: place for place, index in enumerate(used)}
    moved_keys = tuple(places[index] for index in normalize.keys)
    filtered = conjunction(others)
    spec = NormalizeSpec(
        moved_keys,
        None if filtered is None else remap(filtered, places),
    )
    sent = Node(ExchangeSpec(moved_keys), (below,), below.row)
    normal = Node(spec, (sent,), below.row)
    return _plain(normal, [remap(rex, places) for rex in projection], names, None)
