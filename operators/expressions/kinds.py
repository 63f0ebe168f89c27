"""What kind of text or value one is: letters, digits, a number, and of which type.

Letters and digits are those of the basic plane, since Java looks at UTF-16 units.

Source: Flink `SqlFunctionUtils`, `TypeOfFunction` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from operators.expressions import text_grammars as grammars
from operators.expressions.operand_rules import described_type
from state.types import FLOAT_ROOTS, INTEGER_BITS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run
    from operators.expressions.site import Site
    from state.types import LogicalType

_BASIC_MAX = "\uffff"
_FLOATING = re.compile(grammars.FLOATING)
_HEXADECIMAL = re.compile(grammars.HEXADECIMAL)
_LONG_LEAST, _LONG_MOST, _LONG_DIGITS = -(1 << 63), (1 << 63) - 1, 19


def is_alpha(text: str) -> bool:
    """Whether it is of letters, at least one."""
    return text.isalpha() and max(text) <= _BASIC_MAX


def is_digit(text: str) -> bool:
    """Whether it is of digits of any script, at least one."""
    return text.isdecimal() and max(text) <= _BASIC_MAX


def is_decimal(text: str) -> bool:
    """Whether Java reads it as a number, whole or not."""
    if _FLOATING.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return True
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not is_digit(digits):
        return False
    # Python makes no number of thousands of digits, zeros or not.
    leading, last = digits[:-_LONG_DIGITS], digits[-_LONG_DIGITS:]
    return not any(map(int, leading)) and _LONG_LEAST <= int(sign + last) <= _LONG_MOST


def kind(
    of_text: Callable[[str], bool], of_number: Callable[[LogicalType], bool | None]
) -> Callable[[Site], Run]:
    """The builder of IS_ALPHA and its like: never NULL, of a number what its type says.

    Args:
        of_text: The answer for a text; that for NULL is no.
        of_number: The answer for all values of another type, NULL too; None: there is none.
    """

    def build(site: Site) -> Run:
        operand, logical = site[0].run, site[0].type
        if logical.root not in STRING_ROOTS:
            answer = of_number(logical)
            if answer is None:
                site.refuse_types()
            return lambda _: answer

        def run(row: Row) -> bool:
            text = operand(row)
            return text is not None and of_text(text)

        return run

    return build


def alpha_number(logical: LogicalType) -> bool | None:
    """Whether numbers of a type are of letters."""
    return False if logical.root in INTEGER_BITS else None


def digit_number(logical: LogicalType) -> bool | None:
    """Whether they are of digits."""
    return True if logical.root in INTEGER_BITS else None


def decimal_number(logical: LogicalType) -> bool | None:
    """Whether they are numbers, which a DECIMAL is not."""
    if logical.root in FLOAT_ROOTS or logical.root in INTEGER_BITS:
        return True
    return False if logical.root is TypeRoot.DECIMAL else None


def type_of(site: Site) -> Run:
    """TYPEOF(x[, serializable])."""
    found = described_type(site)
    return lambda _: found
