"""Numeric operators and functions.

`+ - * /` and MOD compute in the type that the plan declares for the result: integers wrap
(`integers`), decimals round HALF_UP and are NULL on overflow (`decimals`), FLOAT and DOUBLE follow
Java, where x / 0 is infinite or NaN and raises nothing. Whole and decimal division by zero ends the
query, as in Flink.

Functions of the mathematics library (EXP, POWER, SIN, ...) are correct to one or two units in the
last place in Flink and here, but not by the same algorithm: that bit may differ.

Source: Flink `ScalarOperatorGens`, `SqlFunctionUtils` (2.3).
"""

from __future__ import annotations

import math
import operator as op
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

from operators.expressions import decimals, integers
from operators.expressions.casts import convert
from operators.expressions.errors import EvaluationFailed
from operators.expressions.families import DOUBLE
from operators.expressions.floats import double_decimal, float32, quotient
from operators.expressions.integers import BIGINT, WRAPPERS
from operators.expressions.operand_rules import digits, rounded_digits
from operators.expressions.site import Site, Value, constant, lifted
from state.types import FLOAT_ROOTS, INTEGER_BITS, INTERVAL_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Run

_FLOAT_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": op.add,
    "-": op.sub,
    "*": op.mul,
    "/": quotient,
}
_TRUNCATED_DIGITS, _TRUNCATED_SCALE = 38, 18


def operator(symbol: str) -> Callable[[Site], Run | Value]:
    """The builder of an arithmetic operator on numbers."""

    def build(site: Site) -> Run | Value:
        root = site.type.root
        if root in INTEGER_BITS:
            return whole(site, symbol)
        if root is TypeRoot.DECIMAL:
            return _decimal(site, symbol)
        if root in FLOAT_ROOTS and symbol != "%":
            return _floating(site, symbol)
        if root in INTERVAL_ROOTS and symbol == "*":
            return _scaled_interval(site)
        return site.refuse_types()

    return build


def whole(site: Site, symbol: str) -> Run:
    """The operator on integers: of a DECIMAL Flink takes the low 64 bits of the whole part."""
    runs = []
    for value in site.operands:
        if value.type.root in INTEGER_BITS or value.type.root is TypeRoot.NULL:
            runs.append(value.run)
        elif value.type.root is TypeRoot.DECIMAL:
            runs.append(convert(site, value, BIGINT).run)
        else:
            site.refuse_types()
    return integers.operation(symbol, site.type, *runs)


def divide_whole(site: Site) -> Run:
    """`/INT`: the planner's division of whole numbers."""
    if site.type.root not in INTEGER_BITS:
        site.refuse_types()
    return whole(site, "/")


def _decimal(site: Site, symbol: str) -> Value:
    known = {*INTEGER_BITS, TypeRoot.DECIMAL, TypeRoot.NULL}
    if not {value.type.root for value in site.operands} <= known:
        site.refuse_types()
    compute, fit = decimals.OPERATIONS[symbol], decimals.fitted(site.type)
    return Value(lifted(lambda a, b: fit(compute(a, b)), *site.operands), site.type)


def _floating(site: Site, symbol: str) -> Value:
    left, right = (convert(site, value, site.type) for value in site.operands)
    compute = _FLOAT_OPERATORS[symbol]
    if site.type.root is TypeRoot.FLOAT:
        return Value(lifted(lambda a, b: float32(compute(a, b)), left, right), site.type)
    return Value(lifted(compute, left, right), site.type)


def _scaled_interval(site: Site) -> Run:
    for value in site.operands:
        if value.type.root not in INTERVAL_ROOTS and value.type.root not in INTEGER_BITS:
            site.refuse_types()
    return integers.operation("*", BIGINT, *(value.run for value in site.operands))


def minus(site: Site) -> Run:
    """-x."""
    root = site[0].type.root
    if root in INTEGER_BITS:
        wrap = WRAPPERS[site.type.root]
        return lifted(lambda x: wrap(-x), site[0])
    if root is TypeRoot.DECIMAL:
        return lifted(decimals.negated, site[0])
    if root in FLOAT_ROOTS or root in INTERVAL_ROOTS:
        return lifted(op.neg, site[0])
    return site.refuse_types()


def absolute(site: Site) -> Run:
    """ABS; the smallest number of an integer type stays as it is."""
    root = site[0].type.root
    if root in INTEGER_BITS:
        wrap = WRAPPERS[site.type.root]
        return lifted(lambda x: wrap(abs(x)), site[0])
    if root is TypeRoot.DECIMAL:
        return lifted(decimals.abs_exact, site[0])
    return lifted(abs, site[0]) if root in FLOAT_ROOTS else site.refuse_types()


def sign(site: Site) -> Run:
    """SIGN: -1, 0 or 1 in the operand's type; -0.0 stays."""
    root = site[0].type.root
    if root in FLOAT_ROOTS:
        return lifted(lambda x: x if x == 0.0 or x != x else math.copysign(1.0, x), site[0])
    if root is TypeRoot.DECIMAL or root in INTEGER_BITS:
        return lifted(lambda x: (x > 0) - (x < 0), site[0])
    return site.refuse_types()


def rounded_whole(*, up: bool) -> Callable[[Site], Run | Value]:
    """The builder of FLOOR and CEIL of a number."""
    mode = ROUND_CEILING if up else ROUND_FLOOR

    def build(site: Site) -> Run | Value:
        value = site[0]
        if value.type.root in INTEGER_BITS:
            return value
        if value.type.root is TypeRoot.DECIMAL:
            return lifted(lambda x: x.to_integral_value(mode, decimals.EXACT), value)
        if value.type.root in FLOAT_ROOTS:
            return lifted(_ceil if up else _floor, value)
        return site.refuse_types()

    return build


def _floor(number: float) -> float:
    if not math.isfinite(number) or number == 0.0:
        return number
    return float(math.floor(number))


def _ceil(number: float) -> float:
    return -_floor(-number)


def round_half_up(site: Site) -> Run | Value:
    """ROUND(x[, digits]), half away from zero."""
    value, places = site[0], rounded_digits(site)
    quantum = Decimal((0, (1,), -places))
    if value.type.root in INTEGER_BITS:
        return value if places >= 0 else _rounded_integer(value, site.type, quantum)
    if value.type.root is TypeRoot.DECIMAL:
        if places >= (value.type.scale or 0):
            return value
        return lifted(lambda x: _quantized(x, quantum, ROUND_HALF_UP), value)
    if value.type.root in FLOAT_ROOTS:
        # A FLOAT is rounded as the DOUBLE that it is. Adding 0.0 makes 0.0 of -0.0.
        return lifted(lambda x: _rounded_double(x, quantum), value)
    return site.refuse_types()


def _rounded_integer(value: Value, logical: LogicalType, quantum: Decimal) -> Run:
    wrap = WRAPPERS[logical.root]
    return lifted(lambda x: wrap(int(_quantized(Decimal(x), quantum, ROUND_HALF_UP))), value)


def _quantized(number: Decimal, quantum: Decimal, mode: str) -> Decimal:
    """A multiple of the power of ten; 0 where that is far above the number."""
    unit = quantum.adjusted()
    if not number or number.adjusted() < unit - 1:
        return Decimal(0)
    return number.quantize(quantum, mode, decimals.EXACT)


def _rounded_double(number: float, quantum: Decimal) -> float:
    if not math.isfinite(number):
        return number
    exact = double_decimal(number)
    if isinstance(exponent := exact.as_tuple().exponent, int) and exponent >= quantum.adjusted():
        return number + 0.0
    return float(_quantized(exact, quantum, ROUND_HALF_UP)) + 0.0


def truncate(site: Site) -> Run | Value:
    """TRUNCATE(x[, digits]), towards zero; a FLOAT or DOUBLE through DECIMAL(38, 18)."""
    value, places = site[0], digits(site)
    quantum = Decimal((0, (1,), -places))
    root = value.type.root
    if root in FLOAT_ROOTS:
        fit = decimals.fitted(decimals.decimal_type(_TRUNCATED_DIGITS, _TRUNCATED_SCALE))
        return lifted(lambda x: _truncated_double(x, fit, quantum), value)
    if root in INTEGER_BITS:
        if places >= 0:
            return value
        return lifted(lambda x: int(_quantized(Decimal(x), quantum, ROUND_DOWN)), value)
    if root is not TypeRoot.DECIMAL:
        return site.refuse_types()
    if places >= (value.type.scale or 0):
        return value
    return lifted(lambda x: _quantized(x, quantum, ROUND_DOWN), value)


def _truncated_double(number: float, fit: Callable[[Any], Any], quantum: Decimal) -> float:
    wide = fit(double_decimal(number)) if math.isfinite(number) else None
    if wide is None:
        raise EvaluationFailed("a number to truncate is over the range of DECIMAL(38, 18)")
    if -quantum.adjusted() >= _TRUNCATED_SCALE:
        return float(wide)
    # A DECIMAL has no -0.0, and so neither has what comes through one.
    return float(_quantized(wide, quantum, ROUND_DOWN)) + 0.0


def of_double(function: Callable[[float], float]) -> Callable[[Site], Run]:
    """The builder of a function of one DOUBLE."""
    return lambda site: lifted(function, _double(site, 0))


def _double(site: Site, index: int) -> Value:
    return convert(site, site[index], DOUBLE)


def of_library(function: Callable[[float], float]) -> Callable[[float], float]:
    """The function, NaN where Python raises instead: outside of its domain."""

    def computed(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan

    return computed


def logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    """A logarithm: -Infinity of 0 and NaN below."""
    return lambda x: function(x) if x > 0 else (-math.inf if x == 0 else math.nan)


def growing(function: Callable[[float], float], *, is_odd: bool) -> Callable[[float], float]:
    """EXP, SINH or COSH: infinite where Python raises for a number over the range."""

    def computed(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.copysign(math.inf, x) if is_odd else math.inf

    return computed


def log(site: Site) -> Run:
    """LOG(x), natural, and LOG(base, x)."""
    natural = logarithm(math.log)
    operands = [_double(site, index) for index in range(len(site))]
    if len(operands) == 1:
        return lifted(natural, *operands)
    return lifted(lambda base, x: quotient(natural(x), natural(base)), *operands)


def log2(x: float) -> float:
    """LOG2: the quotient of two natural logarithms, as in Flink."""
    return logarithm(math.log)(x) / math.log(2)


def power(site: Site) -> Run:
    """POWER; the planner writes SQRT(x) as POWER(x, 0.5)."""
    return lifted(_java_power, _double(site, 0), _double(site, 1))


def _java_power(base: float, exponent: float) -> float:
    if exponent != exponent or (base != base and exponent != 0):
        return math.nan
    if abs(base) == 1.0 and math.isinf(exponent):
        return math.nan
    is_odd = math.isfinite(exponent) and math.fmod(exponent, 2.0) in (1.0, -1.0)
    negative = math.copysign(1.0, base) < 0 and is_odd
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if negative else math.inf
    except ValueError:
        if base == 0.0:
            return -math.inf if negative else math.inf
        return math.nan


def atan2(site: Site) -> Run:
    """ATAN2(y, x)."""
    return lifted(math.atan2, _double(site, 0), _double(site, 1))


def cotangent(x: float) -> float:
    """COT: 1 / tan(x)."""
    return quotient(1.0, of_library(math.tan)(x))


def fixed(number: float) -> Callable[[Site], Value]:
    """The builder of PI and E."""
    return lambda _: constant(number, DOUBLE)


def binary_digits(site: Site) -> Run:
    """BIN: the digits of the number's 64 bits, without leading zeros."""
    return lifted(lambda x: f"{x & 0xFFFFFFFFFFFFFFFF:b}", site.of_type(0, INTEGER_BITS))
