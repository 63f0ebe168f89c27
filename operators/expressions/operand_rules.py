"""What single functions demand of their operands, found out before a row is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from operators.expressions.call_site import Operand
from state.types import BINARY_ROOTS, DECIMAL_PRECISION_MAX, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from operators.expressions.call_site import CallSite

T = TypeVar("T", bound=Operand)
TRIM_SIDES: Final = ("BOTH", "LEADING", "TRAILING")
DIGEST_BITS: Final = (224, 256, 384, 512)


def case_branches(site: CallSite[T]) -> tuple[list[tuple[T, T]], T]:
    """The conditions of CASE with their results, and the result where none holds."""
    if len(site) % 2 == 0:
        site.malformed("CASE needs pairs of operands and one more")
    pairs = zip(site.operands[:-1:2], site.operands[1:-1:2], strict=True)
    return list(pairs), site[-1]


def choices(site: CallSite[T]) -> tuple[T, list[T]]:
    """The number and the values of ELT; of a number of another type Flink's job fails."""
    roots = STRING_ROOTS if site.type.root in STRING_ROOTS else BINARY_ROOTS
    values = [site.of_type(at, roots) for at in range(1, len(site))]
    return site.of_type(0, (TypeRoot.INTEGER,)), values


def map_entries(site: CallSite[T]) -> list[tuple[T, T]]:
    """The keys of MAP, different literals, with their values."""
    if len(site) % 2:
        site.malformed("MAP needs pairs of keys and values")
    keys = [site.constant(index, "a key") for index in range(0, len(site), 2)]
    if len(set(keys)) != len(keys):
        site.refuse("a key stands there twice")
    return list(zip(site.operands[::2], site.operands[1::2], strict=True))


def check_row(site: CallSite[Operand]) -> None:
    """Find out whether ROW has an operand for each field."""
    if len(site) != len(site.type.children):
        site.malformed("ROW needs an operand for each field")


def digits(site: CallSite[Operand]) -> int:
    """The second operand of ROUND and TRUNCATE, 0 without one."""
    return site.whole(1, "the number of digits") if len(site) > 1 else 0


def rounded_digits(site: CallSite[Operand]) -> int:
    """As `digits`, of ROUND."""
    found, logical = digits(site), site[0].type
    if (
        found < 0
        and logical.root is TypeRoot.DECIMAL
        and logical.precision == DECIMAL_PRECISION_MAX
    ):
        site.refuse("whole digits of a DECIMAL of 38 digits may overflow when rounded")
    return found


def trim_side(site: CallSite[Operand]) -> str:
    """The first operand of TRIM, one of `TRIM_SIDES`."""
    where = site.text(0, "where to trim")
    if where not in TRIM_SIDES:
        site.malformed(f"no such place to trim: {where}")
    return where


def start_position(site: CallSite[Operand]) -> int:
    """The third operand of LOCATE, from 1."""
    start = site.whole(2, "the position to start from")
    if start < 1 or site[0].literal == "":
        site.refuse("it starts before the first character, or looks for nothing")
    return start


def digest_bits(site: CallSite[Operand]) -> int:
    """The second operand of SHA2, one of `DIGEST_BITS`."""
    bits = site.whole(1, "the number of bits")
    if bits not in DIGEST_BITS:
        site.refuse(f"no digest of {bits} bits")
    return bits


def separator(site: CallSite[Operand]) -> str | None:
    """The second operand of SPLIT_INDEX: a text or a character's number; None: of no character."""
    found = site.constant(1, "the separator")
    if isinstance(found, int):
        return chr(found) if 1 <= found <= 255 else None
    if not isinstance(found, str) or not found:
        site.refuse("an empty separator stands for any white space")
    return found


def split_at(site: CallSite[Operand]) -> str:
    """The second operand of SPLIT; an empty one would take characters apart."""
    found = site.text(1, "the separator")
    if not found:
        site.refuse("an empty separator")
    return found


def texts_to_join(site: CallSite[T]) -> list[T]:
    """The operands of ARRAY_JOIN: an array of texts, what stands between, and for NULL."""
    children = site[0].type.children
    if site[0].type.root is not TypeRoot.ARRAY or children[0].root is not TypeRoot.VARCHAR:
        site.refuse_types()
    return [site[0], *(site.of_type(at, STRING_ROOTS) for at in range(1, len(site)))]


def translation(site: CallSite[Operand]) -> tuple[str, str]:
    """The second and third operand of TRANSLATE: characters, and what becomes of each."""
    matching = site.text(1, "what to translate")
    by = site.text(2, "what to translate to")
    if len(set(matching)) != len(matching):
        site.refuse("a character to translate stands there twice")
    return matching, by
