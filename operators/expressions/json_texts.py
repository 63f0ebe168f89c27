"""JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON, JSON_QUOTE and JSON_UNQUOTE in Python.

What one of the first three writes as JSON, by the type of the value:

    texts               a text                  numbers       digits; NaN and infinities are texts
    BOOLEAN             true, false             DECIMAL       all digits of its scale
    BINARY, VARBINARY   Base64 with padding     FLOAT         the digits of the DOUBLE that it is
    TIMESTAMP           2020-02-29T13:14:15.6   DOUBLE        1.0E+7 from seven digits on
    TIMESTAMP_LTZ       the same in UTC, and Z  ARRAY         an array
    NULL                null, or left out       MAP, ROW      an object, names sorted

What JSON_OBJECT, JSON_ARRAY or JSON itself gives is taken as it is by one around it, not as a text
in quotes; that of any other function, CASE too, is a text. DATE, TIME and maps by other keys than
texts are written by no function, as in Flink.

Source: Flink `JsonGenerateUtils`, `SqlJsonUtils`, `JsonQuoteFunction`, `JsonUnquoteFunction` (2.3).
"""

from __future__ import annotations

import base64
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from operators.expressions.decimals import fitted
from operators.expressions.errors import EvaluationFailed
from operators.expressions.floats import double_text
from operators.expressions.json_paths import Document, JsonError, Written, parse_json, to_json
from operators.expressions.representation import to_row
from operators.expressions.rex import Call
from operators.expressions.site import Site, Value, lifted
from operators.expressions.tree_walk import refuse
from operators.expressions.units import from_units, to_units
from state.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    MAP_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    import datetime as dt

    from operators.expressions.representation import Convert, Row, Run
    from operators.expressions.rex import Rex

JSON_TEXTS = frozenset({"JSON_OBJECT", "JSON_ARRAY", "JSON"})
"""Functions whose texts are not quoted again as a value of JSON."""
_AS_THEY_ARE = frozenset({TypeRoot.BOOLEAN, *INTEGER_BITS, *STRING_ROOTS})
_BLANKS = "".join(map(chr, range(33)))
"""What Java's `trim` takes away."""
_UNQUOTED = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
"""What stands for a character behind a backslash."""
_QUOTED = {letter: f"\\{written}" for written, letter in _UNQUOTED.items()}
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_HEXADECIMAL = re.compile(r"[+-]?[0-9a-fA-F]+")
_FIRST_OUTSIDE_ASCII = "\x80"


class _NoEscape(Exception):
    """What stands behind a backslash is no escape."""


def check_operands(call: Call) -> None:
    """Find out whether JSON stands only where Flink takes it.

    Raises:
        UnsupportedExpression: It stands elsewhere.
    """
    for index, operand in enumerate(call.operands):
        is_value = call.name == "JSON_ARRAY" or (call.name == "JSON_OBJECT" and index % 2 == 0)
        if not is_value:
            check_outermost(operand)


def check_outermost(rex: Rex) -> None:
    """As `check_operands`, of an expression that is no operand."""
    if isinstance(rex, Call) and rex.name == "JSON":
        refuse("JSON", rex, "it may only be a value in JSON_OBJECT or JSON_ARRAY")


def json_object(site: Site) -> Run:
    """JSON_OBJECT: of a name that is there twice the last value."""
    keeps_null = _keeps_null(site)
    if len(site) % 2 == 0:
        site.malformed("it needs pairs of names and values")
    pairs = []
    for index in range(1, len(site), 2):
        name = site.of_type(index, STRING_ROOTS)
        if name.type.nullable:
            site.refuse("a name may be NULL")
        pairs.append((name.run, _document(site, site[index + 1])))

    def run(row: Row) -> str:
        made = {}
        for name, value in pairs:
            key, found = name(row), value(row)
            if found is not None or keeps_null:
                made[key] = found
        return to_json(made)

    return run


def json_array(site: Site) -> Run:
    """JSON_ARRAY."""
    keeps_null = _keeps_null(site)
    values = [_document(site, operand) for operand in site.operands[1:]]

    def run(row: Row) -> str:
        found = [value(row) for value in values]
        return to_json(found if keeps_null else [each for each in found if each is not None])

    return run


def json_string(site: Site) -> Run:
    """JSON_STRING: the JSON of a value, NULL of NULL."""
    return lifted(to_json, Value(_document(site, site[0]), site[0].type))


def json_of_text(site: Site) -> Run:
    """JSON: the text's first value, written anew; of blanks NULL."""
    return lifted(_rewritten, site.of_type(0, STRING_ROOTS))


def json_quote(site: Site) -> Run:
    """JSON_QUOTE: beyond ASCII all characters are escaped.

    Flink numbers the first half of a surrogate pair by the whole character, with five digits.
    """
    return lifted(_quote, site.of_type(0, STRING_ROOTS))


def json_unquote(site: Site) -> Run:
    """JSON_UNQUOTE: what begins with a text of JSON and ends with a quote, else the operand."""
    return lifted(_unquote, site.of_type(0, STRING_ROOTS))


def _keeps_null(site: Site) -> bool:
    found = site.constant(0, "what becomes of NULL")
    if found not in ("NULL", "ABSENT"):
        site.malformed("it needs to be told what becomes of NULL")
    return bool(found == "NULL")


def _document(site: Site, value: Value) -> Run:
    """The operand as a part of JSON."""
    if value.is_json:
        return lifted(Written, value)
    write = _writer(site, value.type)
    outside = to_row(value.type)
    return lifted(write, value if outside is None else Value(lifted(outside, value), value.type))


def _writer(site: Site, logical: LogicalType) -> Convert:
    """From a row's value to a document."""
    root = logical.root
    if root in _AS_THEY_ARE:
        return _same
    if root in FLOAT_ROOTS:
        return _number
    if root is TypeRoot.DECIMAL:
        return fitted(logical)
    if root in BINARY_ROOTS:
        return lambda value: base64.b64encode(value).decode()
    if root in TIMESTAMP_ROOTS:
        return _instant if root is TypeRoot.TIMESTAMP_LTZ else _timestamp
    if root is TypeRoot.ARRAY:
        element = _nullable(_writer(site, logical.children[0]))
        return lambda value: [element(each) for each in value]
    if root in MAP_ROOTS and logical.children[0].root in STRING_ROOTS:
        count = LogicalType(TypeRoot.INTEGER)
        of_value = logical.children[1] if root is TypeRoot.MAP else count
        entry = _nullable(_writer(site, of_value))
        return lambda value: {_name(key): entry(each) for key, each in value}
    if root is TypeRoot.ROW:
        fields = [_nullable(_writer(site, each)) for each in logical.children]
        names = logical.field_names
        return lambda value: {
            name: field(each) for name, field, each in zip(names, fields, value, strict=True)
        }
    return site.refuse(f"{format_type(logical)} is not written as JSON", hint="CAST it to a text")


def _nullable(write: Convert) -> Convert:
    return lambda value: None if value is None else write(value)


def _same(value: Document) -> Document:
    return value


def _number(value: float) -> Document:
    text = double_text(value)
    if not math.isfinite(value):
        return text
    found = Decimal(text)
    # Java's numbers of any size have no zero below zero.
    return found or found.copy_abs()


def _timestamp(value: dt.datetime) -> str:
    whole, point, fraction = value.replace(tzinfo=None).isoformat().partition(".")
    return whole + point + fraction.rstrip("0")


def _instant(value: dt.datetime) -> str:
    return f"{_timestamp(value)}Z"


def _name(key: str | None) -> str:
    if key is None:
        raise EvaluationFailed("a key of a map is NULL, which no name in JSON can be")
    return key


def _rewritten(text: str) -> str | None:
    if not text.strip(_BLANKS):
        return None
    try:
        return to_json(parse_json(text))
    except JsonError:
        raise EvaluationFailed("JSON is given a text that is none") from None


def _quote(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    found = _QUOTED.get(letter)
    if found is not None:
        return found
    if letter < _FIRST_OUTSIDE_ASCII:
        return letter
    second_half = "".join(f"\\u{ord(unit):04x}" for unit in to_units(letter)[1:])
    return f"\\u{ord(letter):04x}{second_half}"


def _unquote(text: str) -> str:
    if not (text.startswith('"') and text.endswith('"')):
        return text
    try:
        parse_json(text)
        return from_units(_ESCAPE.sub(_unescaped, to_units(text[1:-1])))
    except (JsonError, _NoEscape):
        return text


def _unescaped(escape: re.Match[str]) -> str:
    code, letter = escape.groups()
    if code is None:
        if letter not in _UNQUOTED:
            raise _NoEscape
        return _UNQUOTED[letter]
    # Only behind the first value of the text, which is JSON, may an escape be none.
    if len(code) < 4:
        raise EvaluationFailed("JSON_UNQUOTE is given an escape that the text ends in")
    if not _HEXADECIMAL.fullmatch(code):
        raise _NoEscape
    return chr(int(code, 16) & 0xFFFF)
