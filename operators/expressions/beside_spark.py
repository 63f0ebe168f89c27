"""Expressions of Calc nodes that Spark has no columns for: evaluated in its Python workers.

The whole expression is, not the one function in it: Spark takes a call of Python not wherever one
may stand, and CASE must not evaluate what it does not take.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from operators.expressions.compiler import compile_inside, compile_rex
from operators.expressions.errors import EvaluationFailed
from operators.expressions.representation import to_row
from operators.expressions.rex import InputRef, walk
from operators.expressions.transport import rex_from_json, rex_to_json
from state.types import BINARY_ROOTS, MAP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.expressions.representation import Convert, Row
    from operators.expressions.rex import Rex

_COUNT = LogicalType(TypeRoot.INTEGER)


def packed(rex: Rex) -> bytes:
    """An expression as it goes to the workers."""
    return orjson.dumps(rex_to_json(rex))


def evaluated(
    expression: bytes,
    inputs: Sequence[int],
    *values: Any,  # a row's values are of every type that a column may have
) -> tuple[Any, str | None]:
    """The value of an expression, or why it has none: the row decides whether that matters.

    Args:
        expression: As `packed` gives it.
        inputs: The columns that it reads.
        values: Of these, in a row, as a worker has them; timestamps are texts, in UTC.
    """
    run, converts, given = _compiled(expression)
    row: list[Any] = [None] * (max(inputs, default=0) + 1)
    for index, value in zip(inputs, values, strict=False):
        convert = converts.get(index)
        row[index] = value if convert is None or value is None else convert(value)
    try:
        return given(run(row)), None
    except EvaluationFailed as problem:
        return None, str(problem)


@lru_cache(maxsize=256)
def _compiled(
    expression: bytes,
) -> tuple[Callable[[Row], Any], dict[int, Convert | None], Convert]:
    rex = rex_from_json(orjson.loads(expression))
    read = {part.index: part.type for part in walk(rex) if isinstance(part, InputRef)}
    converts = {index: _from_worker(kind) for index, kind in read.items()}
    return compile_rex(rex), converts, _to_worker(compile_inside(rex).type)


def _to_worker(logical: LogicalType) -> Convert:
    """From a row's value to what a worker gives back: a map is a `dict`."""
    if logical.root is TypeRoot.ARRAY:
        element = _to_worker(logical.children[0])
        return lambda value: None if value is None else [element(each) for each in value]
    if logical.root is TypeRoot.MAP:
        entry = _to_worker(logical.children[1])
        return lambda value: None if value is None else {k: entry(each) for k, each in value}
    return lambda value: value


def _from_worker(logical: LogicalType) -> Convert | None:
    """From a worker's value to a row's; None where it is the same."""
    root = logical.root
    if root is TypeRoot.TIMESTAMP:
        return dt.datetime.fromisoformat
    if root is TypeRoot.TIMESTAMP_LTZ:
        return lambda value: dt.datetime.fromisoformat(value).replace(tzinfo=dt.UTC)
    if root is TypeRoot.TIME:
        return to_row(logical)
    if root in BINARY_ROOTS:
        return bytes
    if root is TypeRoot.ARRAY:
        element = _nullable(logical.children[0])
        return lambda value: [element(each) for each in value]
    if root in MAP_ROOTS:
        key = _nullable(logical.children[0])
        entry = _nullable(logical.children[1] if root is TypeRoot.MAP else _COUNT)
        return lambda value: [(key(name), entry(each)) for name, each in value.items()]
    if root is TypeRoot.ROW:
        fields = [_nullable(each) for each in logical.children]
        return lambda value: tuple([field(each) for field, each in zip(fields, value, strict=True)])
    return None


def _nullable(logical: LogicalType) -> Convert:
    convert = _from_worker(logical)
    return lambda value: value if convert is None or value is None else convert(value)
