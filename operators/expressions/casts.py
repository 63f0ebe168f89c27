"""CAST and TRY_CAST as `cast_rules` says, and the conversions of other functions' operands."""

from __future__ import annotations

import math
import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from operators.expressions import cast_rules, instants, parsing
from operators.expressions.decimals import as_double, fitted, whole_part
from operators.expressions.errors import EvaluationFailed
from operators.expressions.floats import (
    double,
    double_decimal,
    double_text,
    float32,
    float_text,
    single,
)
from operators.expressions.integers import INTEGER, WRAPPERS
from operators.expressions.representation import pairs_of, to_inside, to_row
from operators.expressions.site import Site, Value, constant, lifted
from operators.expressions.units import from_units, to_units
from state.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    LENGTH_MAX,
    MAP_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Convert

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def cast(site: Site) -> Value:
    """CAST(x AS type), where the type is the call's own."""
    return _cast(site, site[0], site.type, trying=False)


def try_cast(site: Site) -> Value:
    """TRY_CAST(x AS type)."""
    return _cast(site, site[0], site.type, trying=True)


def convert(site: Site, value: Value, target: LogicalType) -> Value:
    """An operand in the type that the function computes in; strings keep their length."""
    is_typed = value.type.root is not TypeRoot.NULL
    if is_typed and (cast_rules.keeps_form(value.type, target) or _same_values(value.type, target)):
        return value
    found = _cast(site, value, target, trying=False)
    if not value.is_constant or value.constant is None:
        return found
    try:
        return constant(found.run(()), target)
    except EvaluationFailed:
        return found


def _same_values(source: LogicalType, target: LogicalType) -> bool:
    """Whether no value needs a change."""
    if source.root is not target.root:
        is_varying = target.root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY)
        fits = (source.length or 0) <= (target.length or 0)
        return cast_rules.keeps_form(source, target) and is_varying and fits
    if source.root in TIMESTAMP_ROOTS or source.root is TypeRoot.TIME:
        return (source.precision or 0) <= (target.precision or 0)
    if source.root in (TypeRoot.CHAR, TypeRoot.BINARY):
        return source.length == target.length
    if source.root in STRING_ROOTS | BINARY_ROOTS:
        return (source.length or 0) <= (target.length or 0)
    if source.root is TypeRoot.DECIMAL:
        return (source.precision, source.scale) == (target.precision, target.scale)
    if len(source.children) != len(target.children):
        return False
    return all(map(_same_values, source.children, target.children))


def _cast(site: Site, value: Value, target: LogicalType, *, trying: bool) -> Value:
    source = value.type
    if source.root is TypeRoot.NULL:
        return constant(None, target)
    if _same_values(source, target):
        return Value(value.run, target, column=value.column)
    cast_rules.check_conversion(site, source, target)
    found = _strict_converter(source, target, trying=trying)
    if target.children and trying:
        found = _attempt(found)
    return Value(lifted(found, value), target)


def _strict_converter(source: LogicalType, target: LogicalType, *, trying: bool = False) -> Convert:
    found = _converter(source, target)
    message = cast_rules.failure_of(source, target, trying=trying)
    return found if message is None else _strict(found, message)


def _attempt(convert: Convert) -> Convert:
    def attempted(value: object) -> Any:
        try:
            return convert(value)
        except EvaluationFailed:
            return None

    return attempted


def _strict(parse: Convert, message: str) -> Convert:
    def parsed(text: str) -> Any:
        found = parse(text)
        if found is None:
            raise EvaluationFailed(message)
        return found

    return parsed


def _converter(source: LogicalType, target: LogicalType) -> Convert:
    """From a value of one type to one of the other, or to None."""
    root = target.root
    if target.children:
        return _of_parts(source, target)
    if root in STRING_ROOTS:
        return _with_length(_to_text(source), source, target)
    if source.root in STRING_ROOTS:
        return _from_text(target)
    if root in INTEGER_BITS:
        return _to_integer(source, target)
    if root in FLOAT_ROOTS:
        return _to_floating(source, target)
    if root is TypeRoot.DECIMAL:
        return _to_decimal(source, target)
    if root is TypeRoot.BOOLEAN:
        return _is_not_zero
    if root is TypeRoot.DATE:
        return _to_date(source)
    if root is TypeRoot.TIME:
        return instants.with_clock_precision(target)
    if root in TIMESTAMP_ROOTS:
        return _to_timestamp(source, target)
    return _binary(target)


def _of_parts(source: LogicalType, target: LogicalType) -> Convert:
    """From an array, map or row to another one."""
    parts = list(map(_part, source.children, target.children))
    if target.root is TypeRoot.ROW:
        return lambda fields: tuple([part(each) for part, each in zip(parts, fields, strict=True)])
    if target.root is TypeRoot.MAP:
        key, value = parts
        return lambda pairs: pairs_of([key(k) for k, _ in pairs], [value(v) for _, v in pairs])
    (element,) = parts
    if target.root is TypeRoot.MULTISET:
        return lambda pairs: pairs_of([element(k) for k, _ in pairs], [n for _, n in pairs])
    return lambda elements: [element(each) for each in elements]


def _part(source: LogicalType, target: LogicalType) -> Convert:
    """From an element, key or field, in the form that it has in rows, to another one."""
    if _same_values(source, target):
        return _same
    steps = (to_inside(source), _strict_converter(source, target), to_row(target))
    known = [step for step in steps if step is not None]

    def part(value: Any) -> Any:  # of every type that a part may have
        for step in known:
            value = None if value is None else step(value)
        return value

    return part


def _shown(source: LogicalType) -> Convert:
    """The text of an element, key or field, in the form that it has in rows."""
    inside, text = to_inside(source) or _same, _to_text(source)
    return lambda value: "NULL" if value is None else text(inside(value))


def _is_not_zero(number: object) -> bool:
    return bool(number != 0)


def _to_integer(source: LogicalType, target: LogicalType) -> Convert:
    wrap = WRAPPERS[target.root]
    if source.root is TypeRoot.BOOLEAN:
        return int
    if source.root in INTEGER_BITS:
        return wrap
    if source.root in FLOAT_ROOTS:
        wide = 64 if target.root is TypeRoot.BIGINT else 32
        saturate = saturated(wide)
        return saturate if INTEGER_BITS[target.root] == wide else lambda x: wrap(saturate(x))
    return lambda x: wrap(whole_part(x))


def saturated(bits: int) -> Callable[[float], int]:
    """Java's (int) or (long) of a number: the nearest bound where it is over, 0 for NaN."""
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def saturate(number: float) -> int:
        if math.isfinite(number):
            return max(least, min(most, int(number)))
        if number != number:
            return 0
        return most if number > 0 else least

    return saturate


def _to_floating(source: LogicalType, target: LogicalType) -> Convert:
    if source.root is TypeRoot.DECIMAL:
        wide = as_double(source)
        return wide if target.root is TypeRoot.DOUBLE else lambda number: float32(wide(number))
    if target.root is TypeRoot.DOUBLE:
        return double
    return single if source.root in INTEGER_BITS else _single_by_double


def _single_by_double(number: float | bool) -> float:
    return float32(float(number))


def _to_decimal(source: LogicalType, target: LogicalType) -> Convert:
    fit = fitted(target)
    if source.root in FLOAT_ROOTS:
        return lambda x: fit(double_decimal(x)) if math.isfinite(x) else None
    return fit


def _to_date(source: LogicalType) -> Convert:
    if source.root is TypeRoot.TIMESTAMP:
        return instants.truncated_day
    # The other kind of timestamp is taken apart by the calendar, before 1970 too.
    return lambda micros: micros // instants.MICROS_PER_DAY


def _to_timestamp(source: LogicalType, target: LogicalType) -> Convert:
    if source.root is TypeRoot.DATE:
        return lambda days: days * instants.MICROS_PER_DAY
    if (source.precision or 0) <= (target.precision or 0):
        return _same
    return instants.with_precision(target) or _same


def _same(value: object) -> Any:
    return value


def _from_text(target: LogicalType) -> Convert:
    root = target.root
    if root in INTEGER_BITS:
        return parsing.to_integer(target)
    if root in FLOAT_ROOTS:
        return parsing.to_floating(target)
    if root is TypeRoot.DECIMAL:
        return parsing.to_decimal(target)
    if root is TypeRoot.BOOLEAN:
        return parsing.to_boolean
    if root is TypeRoot.DATE:
        return parsing.to_date
    if root is TypeRoot.TIME:
        return parsing.to_time(target)
    if root in TIMESTAMP_ROOTS:
        return parsing.to_timestamp(target)
    cut = _binary(target)
    return lambda text: cut(text.encode())


def _to_text(source: LogicalType) -> Convert:
    root = source.root
    if root in STRING_ROOTS:
        return _same
    if root is TypeRoot.ARRAY:
        element = _shown(source.children[0])
        return lambda x: f"[{', '.join(map(element, x))}]"
    if root in MAP_ROOTS:
        key, value = (
            _shown(source.children[0]),
            _shown(source.children[1] if root is TypeRoot.MAP else INTEGER),
        )
        return lambda x: (
            f"{{{', '.join([f'{key(k)}={value(v)}' for k, v in sorted(x, key=itemgetter(0))])}}}"
        )
    if root is TypeRoot.ROW:
        fields = [_shown(child) for child in source.children]
        return lambda x: (
            f"({', '.join([show(each) for show, each in zip(fields, x, strict=True)])})"
        )
    if root is TypeRoot.BOOLEAN:
        return lambda x: "TRUE" if x else "FALSE"
    if root in BINARY_ROOTS:
        return _decoded
    if root in TIMESTAMP_ROOTS:
        return instants.timestamp_text(source.precision or 0)
    if root is TypeRoot.DATE:
        return instants.date_text
    if root is TypeRoot.TIME:
        return instants.time_text(source.precision or 0)
    if root is TypeRoot.DECIMAL:
        return lambda x: format(x, "f")
    if root in INTEGER_BITS:
        return str
    return float_text if root is TypeRoot.FLOAT else double_text


def _decoded(data: bytes) -> str:
    # Java puts one mark in place of half a surrogate pair, Python one for each of its bytes.
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}".encode(), data).decode(errors="replace")


def _with_length(text: Convert, source: LogicalType, target: LogicalType) -> Convert:
    length = target.length or 0
    if source.root in BINARY_ROOTS and length < LENGTH_MAX:
        # Flink has made a Java string of it, which it then cuts.
        return _with_units(target)
    if target.root is TypeRoot.CHAR:
        return lambda x: text(x)[:length].ljust(length)
    return text if cast_rules.fits_length(source, target) else lambda x: text(x)[:length]


def _with_units(target: LogicalType) -> Callable[[bytes], str]:
    length, width = target.length or 0, (target.length or 0) * (target.root is TypeRoot.CHAR)
    return lambda data: from_units(to_units(_decoded(data))[:length].ljust(width))


def _binary(target: LogicalType) -> Callable[[bytes], bytes]:
    length = target.length or 0
    if target.root is TypeRoot.BINARY:
        return lambda data: data[:length].ljust(length, b"\x00")
    return lambda data: data[:length]
