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
from operators.expressions.integers import INTEGER
from operators.expressions.representation import to_inside, to_row
from operators.expressions.rex import InputRef, walk
from operators.expressions.transport import rex_from_json, rex_to_json
from state.types import BINARY_ROOTS, MAP_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.expressions.representation import Convert, Row
    from operators.expressions.rex import Rex


def packed(rex: Rex) -> bytes:
    """An expression as it goes to the workers."""
    return orjson.dumps(rex_to_json(rex))


def evaluated(
    expression: bytes,
    inputs: Sequence[int],
    now_ms: int | None,
    *values: Any,  # a row's values are of every type that a column may have
) -> tuple[Any, str | None]:
    """The value of an expression, or why it has none: the row decides whether that matters.

    Args:
        expression: As `packed` gives it.
        inputs: The columns that it reads.
        now_ms: The time of the row's epoch.
        values: Of these columns, in a row, as a worker has them; timestamps are texts, in UTC, and
            maps lists of entries.
    """
    run, clock, converts, given = _compiled(expression)
    clock.now_ms = now_ms or 0
    row: list[Any] = [None] * (max(inputs, default=0) + 1)
    for index, value in zip(inputs, values, strict=True):
        convert = converts.get(index)
        row[index] = value if convert is None or value is None else convert(value)
    try:
        found = run(row)
    except EvaluationFailed as problem:
        return None, str(problem)
    return (found if given is None or found is None else given(found)), None


def evaluated_each(
    expression: bytes,
    inputs: Sequence[int],
    now_ms: int | None,
    rows: Sequence[Sequence[Any]] | None,
) -> list[tuple[Any, str | None]] | None:
    """The same of several rows, each of the columns that the expression reads."""
    if rows is None:
        return None
    return [evaluated(expression, inputs, now_ms, *row[: len(inputs)]) for row in rows]


class _Clock:
    """The time of the epoch whose row is evaluated."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@lru_cache(maxsize=256)
def _compiled(
    expression: bytes,
) -> tuple[Callable[[Row], Any], _Clock, dict[int, Convert | None], Convert | None]:
    rex, clock = rex_from_json(orjson.loads(expression)), _Clock()
    read = {part.index: part.type for part in walk(rex) if isinstance(part, InputRef)}
    converts = {index: _from_worker(kind) for index, kind in read.items()}
    given = _to_worker(compile_inside(rex, now_ms=clock).type)
    return compile_rex(rex, now_ms=clock), clock, converts, given


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
    return _of_parts(logical, _from_worker)


def _to_worker(logical: LogicalType) -> Convert | None:
    """From a row's value to what a worker gives back; None where it is the same."""
    root = logical.root
    if root in TIMESTAMP_ROOTS:
        # As Spark reads it whatever its zone, which the session has as UTC.
        return lambda value: value.replace(tzinfo=None).isoformat(" ")
    if root is TypeRoot.TIME:
        return to_inside(logical)
    return _of_parts(logical, _to_worker)


def _of_parts(
    logical: LogicalType, convert: Callable[[LogicalType], Convert | None]
) -> Convert | None:
    """The same for each part of an array, map or row."""
    root = logical.root
    if root is TypeRoot.ARRAY:
        element = _nullable(convert(logical.children[0]))
        return lambda value: [element(each) for each in value]
    if root in MAP_ROOTS:
        key = _nullable(convert(logical.children[0]))
        entry = _nullable(convert(logical.children[1] if root is TypeRoot.MAP else INTEGER))
        return lambda value: [(key(name), entry(each)) for name, each in value]
    if root is TypeRoot.ROW:
        fields = [_nullable(convert(each)) for each in logical.children]
        return lambda value: tuple([field(each) for field, each in zip(fields, value, strict=True)])
    return None


def _nullable(convert: Convert | None) -> Convert:
    return lambda value: value if convert is None or value is None else convert(value)
