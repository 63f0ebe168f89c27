"""Whole numbers that wrap as Java's do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions.errors import EvaluationFailed
from state.types import INTEGER_BITS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run

INTEGER = LogicalType(TypeRoot.INTEGER)
BIGINT = LogicalType(TypeRoot.BIGINT)
DIVISION_BY_ZERO = "division by zero"


def wrapper(bits: int) -> Callable[[int], int]:
    """The function that keeps the low bits of a number, as Java's narrowing cast."""
    half, mask = 1 << (bits - 1), (1 << bits) - 1

    def wrap(number: int) -> int:
        if -half <= number < half:
            return number
        return ((number + half) & mask) - half

    return wrap


WRAPPERS = {root: wrapper(bits) for root, bits in INTEGER_BITS.items()}


def operation(symbol: str, logical: LogicalType, left: Run, right: Run) -> Run:
    """`+`, `-`, `*`, `/` or `%`, modulo two to the power of the type's bits; NULL if either is."""
    bits = INTEGER_BITS[logical.root]
    return _MAKERS[symbol](left, right, 1 << (bits - 1), WRAPPERS[logical.root])


def _sum(left: Run, right: Run, half: int, wrap: Callable[[int], int]) -> Run:
    def run(row: Row) -> int | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        found: int = a + b
        return found if -half <= found < half else wrap(found)

    return run


def _difference(left: Run, right: Run, half: int, wrap: Callable[[int], int]) -> Run:
    def run(row: Row) -> int | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        found: int = a - b
        return found if -half <= found < half else wrap(found)

    return run


def _product(left: Run, right: Run, half: int, wrap: Callable[[int], int]) -> Run:
    def run(row: Row) -> int | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        found: int = a * b
        return found if -half <= found < half else wrap(found)

    return run


def _quotient(left: Run, right: Run, half: int, wrap: Callable[[int], int]) -> Run:
    def run(row: Row) -> int | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        return wrap(truncated(a, b))

    return run


def _rest(left: Run, right: Run, half: int, wrap: Callable[[int], int]) -> Run:
    def run(row: Row) -> int | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        return wrap(rest(a, b))

    return run


_MAKERS: dict[str, Callable[[Run, Run, int, Callable[[int], int]], Run]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
    "%": _rest,
}


def truncated(a: int, b: int) -> int:
    """The quotient without its fraction, towards zero; ends the query where b is 0."""
    if b == 0:
        raise EvaluationFailed(DIVISION_BY_ZERO)
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def rest(a: int, b: int) -> int:
    """The rest of that division: it has the sign of a."""
    if b == 0:
        raise EvaluationFailed(DIVISION_BY_ZERO)
    found = abs(a) % abs(b)
    return -found if a < 0 else found
