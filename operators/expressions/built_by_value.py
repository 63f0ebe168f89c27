"""Calls that are built from an operand: a pattern, a format, a path, a number of digits.

Where the plan says it, the call is built once. Where rows bring it, the call is built anew for each
value that comes, and the last ones are kept: a column of patterns has few different ones, or else
each row costs what a plan costs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from operators.expressions.errors import (
    EvaluationFailed,
    ExpressionError,
    NoPattern,
    NotALiteral,
)
from operators.expressions.site import Site, Value, literal
from state.types import INTEGER_BITS, STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run

KEPT_MAX = 256
"""Values of an operand for which a call is kept."""
_TEXTS = {
    **dict.fromkeys(("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"), "$"),
    **dict.fromkeys(("ENCODE", "DECODE"), "UTF-8"),
    **dict.fromkeys(("DATE_FORMAT", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ", "FROM_UNIXTIME"), "yyyy"),
    **dict.fromkeys(("UNIX_TIMESTAMP", "TO_DATE"), "yyyy-MM-dd"),
    "CONVERT_TZ": "UTC",
}
_NUMBERS = {"SHA2": 256, "TO_TIMESTAMP_LTZ": 3}
"""For which value of the operand a call can be built, where not for any."""


def built(site: Site, build: Callable[[Site], Run | Value]) -> Run | Value:
    """The call, by what its builder makes of it.

    Raises:
        UnsupportedExpression: It is not computed, whatever the operand's value.
    """
    try:
        return build(site)
    except NotALiteral as missing:
        return _by_value(site, build, missing)


def _by_value(
    site: Site, build: Callable[[Site], Run | Value], missing: NotALiteral
) -> Run | Value:
    operand = site[missing.index]
    if operand.is_constant and operand.constant is None:
        return lambda _: None
    if operand.type.root not in STRING_ROOTS | INTEGER_BITS.keys():
        raise missing

    def with_value(value: object) -> Run | Value:
        operands = list(site.operands)
        operands[missing.index] = literal(value, operand.type)
        return built(replace(site, operands=tuple(operands)), build)

    if operand.is_constant:
        return with_value(operand.constant)
    # What is refused for any value is refused before a row is seen.
    if operand.type.root in STRING_ROOTS:
        with_value(_TEXTS.get(site.name, "abcdefgh"[missing.index]))
    else:
        with_value(_NUMBERS.get(site.name, 0))

    @lru_cache(maxsize=KEPT_MAX)
    def at_value(value: object) -> Run:
        try:
            found = with_value(value)
        except NoPattern:
            nothing = False if site.name == "REGEXP" else None
            return lambda _: nothing
        except ExpressionError as problem:
            # The message may quote the value, which is a row's.
            raise EvaluationFailed(f"{site.name} of a {missing.what} that is not read") from problem
        return found.run if isinstance(found, Value) else found

    def run(row: Row) -> object:
        value = operand.run(row)
        return None if value is None else at_value(value)(row)

    return run
