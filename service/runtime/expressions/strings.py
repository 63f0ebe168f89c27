"""String functions.

Flink counts some positions in UTF-16 units (OVERLAY, LPAD, RPAD, REGEXP_INSTR) and may cut a
character outside the basic plane in two; here every character counts as one and stays whole.
Patterns are Java's regular expressions in both engines; they must be literals.

Source: Flink `BinaryStringDataUtil`, `SqlFunctionUtils`, `SqlLikeUtils` (2.3), checked by running
it.
"""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions import operand_rules
from operators.expressions.families import STRING
from operators.expressions.integers import INTEGER
from operators.expressions.strings import INT_LEAST
from service.runtime.expressions.casts import convert
from service.runtime.expressions.integers import LONG
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all
from state.types import BINARY_ROOTS, INTEGER_BITS, LENGTH_MAX, STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable

_INT = spark.IntegerType()
_TRIMMERS = {"BOTH": sf.btrim, "LEADING": sf.ltrim, "TRAILING": sf.rtrim}


def _text(site: Site, index: int) -> Column:
    """An operand that must be a string."""
    return site.of_type(index, STRING_ROOTS).column


def _bound_text(site: Site, index: int, body: Callable[[Column], Column]) -> Column:
    return bind(replace(site[index], column=_text(site, index)), body)


def _int(site: Site, index: int) -> Value:
    value = site[index]
    return replace(value, column=convert(site, value, INTEGER), type=INTEGER)


def of_text(function: Callable[[Column], Column]) -> Callable[[Site], Column]:
    """The builder of a function of one string."""
    return lambda site: function(_text(site, 0))


def concat(site: Site) -> Column:
    """|| and CONCAT: NULL if any operand is."""
    return sf.concat(*(convert(site, value, STRING) for value in site.operands))


def concat_ws(site: Site) -> Column:
    """CONCAT_WS: leaves out NULLs, but is NULL if the separator is."""
    separator, *parts = (_text(site, index) for index in range(len(site)))
    # Spark takes only a literal separator's text; array_join takes a column.
    return sf.array_join(sf.array(*parts), separator)


def in_case(function: Callable[[Column], Column]) -> Callable[[Site], Column]:
    """The builder of UPPER and LOWER.

    Spark leaves out the inner one of two, though LOWER(UPPER('ß')) is 'ss': what is not just a
    column gets something between.
    """

    def build(site: Site) -> Column:
        text = _text(site, 0)
        return function(text if site[0].weight == 1 else sf.concat(text, sf.lit("")))

    return build


def trim(site: Site) -> Column:
    """TRIM(BOTH | LEADING | TRAILING characters FROM x): removes any of the characters."""
    return _TRIMMERS[operand_rules.trim_side(site)](_text(site, 2), _text(site, 1))


def trimmed(function: Callable[..., Column]) -> Callable[[Site], Column]:
    """The builder of LTRIM, RTRIM and BTRIM: blanks, or any of the characters given."""

    def build(site: Site) -> Column:
        characters = _text(site, 1) if len(site) > 1 else sf.lit(" ")
        return function(_text(site, 0), characters)

    return build


def substring(site: Site) -> Column:
    """SUBSTRING(x, start[, length]): from the end if start is negative, 0 counts as 1."""
    operands = [replace(site[0], column=_text(site, 0)), _int(site, 1)]
    if len(site) > 2:
        operands.append(_int(site, 2))
    return bind_all(operands, _substring)


def _substring(text: Column, start: Column, length: Column | None = None) -> Column:
    count = sf.lit(LENGTH_MAX) if length is None else length
    # Further back than the first character there is nothing; Spark would give the part in reach.
    found = sf.when(-start.cast(LONG) > sf.length(text), sf.lit("")).otherwise(
        sf.substr(text, start, count)
    )
    missing = start.isNull() if length is None else start.isNull() | length.isNull() | (length < 0)
    return sf.when(~missing, found)


def left(site: Site) -> Column:
    """LEFT(x, n): "" for n below 1."""
    return bind(_int(site, 1), lambda n: sf.left(_text(site, 0), n))


def right(site: Site) -> Column:
    """RIGHT(x, n): "" for n below 1."""
    return bind(_int(site, 1), lambda n: sf.right(_text(site, 0), n))


def position(site: Site) -> Column:
    """POSITION(part IN x) and LOCATE(part, x[, from]): from 1, or 0; "" is found at 1."""
    if len(site) > 2:
        texts = [replace(site[at], column=_text(site, at)) for at in range(2)]
        return bind_all((*texts, _int(site, 2)), _located)
    return sf.position(_text(site, 0), _text(site, 1))


def _located(part: Column, text: Column, start: Column) -> Column:
    found = sf.position(part, text, sf.greatest(start, sf.lit(1)))
    known = part.isNotNull() & text.isNotNull() & start.isNotNull()
    # One before the least INT is the greatest, behind all text.
    least = sf.when(part == "", sf.lit(1)).when(start == INT_LEAST, sf.lit(0))
    return sf.when(known, least.otherwise(found))


def instr(site: Site) -> Column:
    """INSTR(x, part): from 1, or 0; with more operands it is evaluated in Python."""
    return sf.position(_text(site, 1), _text(site, 0))


def replace_all(site: Site) -> Column:
    """REPLACE(x, part, by); an empty part stands between all characters and at both ends."""
    text, part, by = (_text(site, index) for index in range(3))
    if isinstance(site[1].literal, str) and site[1].literal:
        return sf.replace(text, part, by)
    found = [
        replace(value, column=c) for value, c in zip(site.operands, (text, part, by), strict=True)
    ]
    return bind_all(found, _replace)


def _replace(text: Column, part: Column, by: Column) -> Column:
    between = sf.when(text == "", by).otherwise(
        sf.concat(by, sf.array_join(sf.split(text, "", -1), by), by)
    )
    return sf.when(part == "", between).otherwise(sf.replace(text, part, by))


def overlay(site: Site) -> Column:
    """OVERLAY(x PLACING by FROM start [FOR length])."""
    operands = [replace(site[n], column=_text(site, n)) for n in (0, 1)]
    operands += [_int(site, n) for n in range(2, len(site))]
    return bind_all(operands, _overlay)


def _overlay(text: Column, by: Column, start: Column, length: Column | None = None) -> Column:
    count = sf.length(by) if length is None else length
    size = sf.length(text)
    rest = sf.when((count > 0) & (start + count <= size), sf.substr(text, start + count, size))
    changed = sf.concat(sf.substr(text, sf.lit(1), start - 1), by, sf.coalesce(rest, sf.lit("")))
    outside = (start <= 0) | (start > size)
    complete = text.isNotNull() & by.isNotNull() & start.isNotNull() & count.isNotNull()
    return sf.when(complete, sf.when(outside, text).otherwise(changed))


def padded(function: Callable[..., Column]) -> Callable[[Site], Column]:
    """The builder of LPAD and RPAD: NULL for a negative length or nothing to pad with."""

    def build(site: Site) -> Column:
        operands = [replace(site[0], column=_text(site, 0)), _int(site, 1)]
        operands.append(replace(site[2], column=_text(site, 2)))
        return bind_all(
            operands,
            lambda text, length, pad: sf.when(
                (length >= 0) & (pad != ""), function(text, length, pad)
            ),
        )

    return build


def repeat(site: Site) -> Column:
    """REPEAT(x, n): "" for n below 1."""
    return sf.repeat(_text(site, 0), _int(site, 1).column)


def initcap(site: Site) -> Column:
    """INITCAP: words are runs of ASCII letters and digits; other characters stay as they are."""
    text = _text(site, 0)
    words = sf.regexp_extract_all(text, sf.lit("[0-9A-Za-z]+|[^0-9A-Za-z]+"), sf.lit(0))
    return sf.array_join(sf.transform(words, _capitalised), "")


def _capitalised(word: Column) -> Column:
    head, tail = sf.substring(word, 1, 1), sf.substring(word, 2, LENGTH_MAX)
    return sf.concat(
        sf.translate(head, ascii_lowercase, ascii_uppercase),
        sf.translate(tail, ascii_uppercase, ascii_lowercase),
    )


def ascii_code(site: Site) -> Column:
    """ASCII: the first byte of the text in UTF-8, signed; 0 for ""."""
    return _bound_text(site, 0, lambda x: _first_byte(sf.ascii(x)))


def _first_byte(code: Column) -> Column:
    def high(lead: int, shift: int) -> Column:
        return sf.shiftright(code, shift) + sf.lit(lead - 256)

    return (
        sf.when(code < 0x80, code)
        .when(code < 0x800, high(0xC0, 6))
        .when(code < 0x10000, high(0xE0, 12))
        .otherwise(high(0xF0, 18))
    )


def character(site: Site) -> Column:
    """CHR: the character of the low 8 bits; "" for a negative number."""
    return sf.chr(site.of_type(0, INTEGER_BITS).column.cast(LONG))


def digest(function: Callable[[Column], Column]) -> Callable[[Site], Column]:
    """The builder of a digest of bytes, or of a text's UTF-8."""
    return lambda site: function(site.of_type(0, STRING_ROOTS | BINARY_ROOTS).column)


def sha2(site: Site) -> Column:
    """SHA2(x, bits)."""
    bits = operand_rules.digest_bits(site)
    return digest(lambda data: sf.sha2(data, bits))(site)


def to_base64(site: Site) -> Column:
    """TO_BASE64 of a string's UTF-8 or of bytes, on one line."""
    value = site[0]
    if value.type.root in BINARY_ROOTS:
        return sf.base64(value.column)
    return sf.base64(sf.encode(_text(site, 0), "UTF-8"))


def hexadecimal(site: Site) -> Column:
    """HEX of a whole number's 64 bits or of a string's UTF-8."""
    if site[0].type.root in INTEGER_BITS:
        return sf.hex(site[0].column.cast(LONG))
    return sf.hex(_text(site, 0))


def split_index(site: Site) -> Column:
    """SPLIT_INDEX(x, separator, n): part n from 0; NULL where there is none, and for ""."""
    between = operand_rules.separator(site)
    if between is None:
        return sf.lit(None).cast("string")
    pattern = java_quote(between)
    index = _int(site, 2).column
    return _bound_text(
        site,
        0,
        lambda x: sf.when(x != "", sf.when(index >= 0, sf.get(sf.split(x, pattern, -1), index))),
    )


def java_quote(text: str) -> str:
    r"""A Java pattern that matches the text itself.

    >>> java_quote("a.b")
    '\\Qa.b\\E'
    """
    return r"\Q" + text.replace(r"\E", r"\E\\E\Q") + r"\E"


def _texts_or_bytes(site: Site) -> list[Column]:
    roots = STRING_ROOTS if site[0].type.root in STRING_ROOTS else BINARY_ROOTS
    return [site.of_type(at, roots).column for at in range(2)]


def starts_with(site: Site) -> Column:
    """STARTSWITH of texts or bytes."""
    return sf.startswith(*_texts_or_bytes(site))


def ends_with(site: Site) -> Column:
    """ENDSWITH of texts or bytes."""
    return sf.endswith(*_texts_or_bytes(site))


def translate(site: Site) -> Column:
    """TRANSLATE(x, from, to): character by character; those without a partner go."""
    return sf.translate(_text(site, 0), *operand_rules.translation(site))
