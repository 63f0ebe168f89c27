"""The texts that Flink reads as numbers, dates and timestamps, as regular expressions.

Java and Python read them alike; they are written to match a text as a whole.

Source: Flink `BinaryStringDataUtil` and `DateTimeUtils` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import Final

_BLANK = r"[ \n\t]*"
_TRIM = r"[\x00-\x20]*"
WHOLE: Final = r"([+-]?)([0-9]*)(?:\.[0-9]*)?"
FLOATING: Final = (
    rf"{_TRIM}([+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    rf"[fFdD]?{_TRIM}"
)
HEXADECIMAL: Final = (
    rf"{_TRIM}[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?{_TRIM}"
)
"""Java reads numbers such as 0x1p3, which casts do not."""
SHORT_DECIMAL: Final = (
    rf"{_BLANK}([+-]?)([0-9]*)\.?([0-9]*)"
    r"(?:[eE]([+-]?[0-9]*)[\x00-\x2f\x3a-\x7f]?|[\x00-\x2d\x2f\x3a-\x44\x46-\x64\x66-\x7f])?"
    rf"{_BLANK}"
)
"""A DECIMAL as Flink's short way reads it; `ENDS_IN_SIGN` says what is none even so."""
ENDS_IN_SIGN: Final = rf"{_BLANK}([+-]|.*[eE][+-])?"
LONG_DECIMAL: Final = (
    rf"{_BLANK}([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?){_BLANK}"
)
SHORT_DECIMAL_MAX: Final = 18
"""Digits, and bytes of text, up to which Flink reads a DECIMAL by its own short way."""
DATE: Final = (
    rf"{_TRIM}([0-9]{{1,9}}){_TRIM}"
    rf"(?:-{_TRIM}([0-9]{{1,9}}){_TRIM}(?:-{_TRIM}([0-9]{{1,9}}){_TRIM})?)?"
)
TIMESTAMP: Final = (
    r"([0-9]{4})-([0-9]{1,2})?-([0-9]{1,2})?"
    r"(?: ([0-9]{1,2})?:([0-9]{1,2})?:([0-9]{1,2})?(?:\.([0-9]{0,9}))?)?"
)
_NUMBER = rf"{_TRIM}0*([0-9]{{1,9}}){_TRIM}"
TIME: Final = (
    rf"{_NUMBER}:{_NUMBER}:{_NUMBER}(?:\.{_TRIM}(?:([^-]*)(?=-)|([^+-]*)))?"
    rf"(?:([+-]){_NUMBER}(?::{_NUMBER})?)?"
)
"""A time of day with seconds, and its distance from UTC. The fraction, one of two groups, ends at
the first `-`, else at the first `+`; all in it but digits counts as 0."""
SHORT_TIME: Final = rf"{_NUMBER}(?::{_NUMBER})?(?:([+-]){_NUMBER})?"
TRUE_WORDS: Final = ("t", "true", "y", "yes", "1")
FALSE_WORDS: Final = ("f", "false", "n", "no", "0")
"""In any case of letters, without blanks."""
