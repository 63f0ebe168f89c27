"""What a correlate node makes of changes, in Python: the reference for the columns on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import Change
from operators.expressions import compile_predicate, compile_rex
from service.plan.correlate import ORDINALITY, REPLICATE, made_types, type_of
from state.types import MAP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.plan.nodes import Correlate
    from service.plan.rex import Call

    Rows = Callable[[Sequence[Any]], list[tuple[Any, ...]]]


def correlate_step(view: Correlate, now_ms: Callable[[], int]) -> Any:
    """The node as a step of the harness: a change of a row is one of each row that is made."""
    rows = rows_made(view.call, now_ms)
    width = len(made_types(view.call) or ())
    condition = view.condition and compile_predicate(view.condition, now_ms=now_ms)

    def step(given: Sequence[Sequence[Change]], watermark: int) -> tuple[list[Change], int]:
        out = []
        for change in given[0]:
            made = [each for each in rows(change.row) if condition is None or condition(each)]
            if not made and view.kind == "LEFT":
                made = [(None,) * width]
            out += [Change(change.kind, (*change.row, *each)) for each in made]
        return out, watermark

    return step


def rows_made(call: Call, now_ms: Callable[[], int]) -> Rows:
    """The rows that the function makes of an input row."""
    values = [compile_rex(each, now_ms=now_ms) for each in call.operands]
    if call.name == REPLICATE:
        return lambda row: [tuple(each(row) for each in values[1:])] * (values[0](row) or 0)
    logical = type_of(call.operands[0])
    is_of_rows = logical.root is not TypeRoot.MAP and logical.children[0].root is TypeRoot.ROW

    def unnested(row: Sequence[Any]) -> list[tuple[Any, ...]]:
        found = values[0](row) or []
        if logical.root in MAP_ROOTS:
            found = sorted(found, key=lambda entry: entry[0])
        if logical.root is TypeRoot.MULTISET:
            found = [element for element, count in found for _ in range(count)]
        is_row = is_of_rows or logical.root is TypeRoot.MAP
        made = [tuple(each) if is_row and each is not None else (each,) for each in found]
        numbered = [(*each, at) for at, each in enumerate(made, start=1)]
        if call.name != ORDINALITY:
            numbered = [each[:-1] for each in numbered]
        return [
            each
            for each, of in zip(numbered, found, strict=True)
            if of is not None or not is_of_rows
        ]

    return unnested
