"""What single functions demand of their operands, found out before a row is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from operators.expressions.call_site import Operand
from state.types import (
    BINARY_ROOTS,
    DECIMAL_PRECISION_MAX,
    FLOAT_ROOTS,
    INTEGER_BITS,
    INTERVAL_ROOTS,
    LENGTH_MAX,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    from operators.expressions.call_site import CallSite

T = TypeVar("T", bound=Operand)
TRIM_SIDES: Final = ("BOTH", "LEADING", "TRAILING")
DIGEST_BITS: Final = (224, 256, 384, 512)
CHARACTER_MAX: Final = 255
"""The greatest number of a character that SPLIT_INDEX takes."""
CHARSETS: Final = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16")
EXACT_ROOTS: Final = frozenset(
    {*INTEGER_BITS, *STRING_ROOTS, *BINARY_ROOTS, *TIMESTAMP_ROOTS}
    | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.DATE, TypeRoot.TIME}
)
"""Types whose values are equal, and ordered, in Python and Spark where they are in Flink."""
MANY_ELEMENTS: Final = "ELEMENT of more than one element"
NO_MAP: Final = "a map has as many values as keys, no key twice, and none that is NULL"


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
    """The keys of MAP, different ones as far as they are literals, with their values."""
    if len(site) % 2:
        site.malformed("MAP needs pairs of keys and values")
    keys = site.operands[::2]
    known = [key.literal for key in keys if key.is_literal]
    if None in known or len(set(known)) != len(known):
        site.refuse("a key stands there twice, or is NULL")
    if len(known) < len(keys) and site.type.children[0].root not in EXACT_ROOTS:
        site.refuse_types()
    return list(zip(keys, site.operands[1::2], strict=True))


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


def digest_bits(site: CallSite[Operand]) -> int:
    """The second operand of SHA2, one of `DIGEST_BITS`."""
    bits = site.whole(1, "the number of bits")
    if bits not in DIGEST_BITS:
        site.refuse(f"no digest of {bits} bits")
    return bits


def charset(site: CallSite[Operand]) -> str:
    """The second operand of ENCODE and DECODE, one of `CHARSETS`."""
    found = site.text(1, "the charset").upper()
    if found not in CHARSETS:
        site.refuse(f"no charset {found}", hint=f"these are: {', '.join(CHARSETS)}")
    return found


def described_type(site: CallSite[Operand]) -> str:
    """What TYPEOF says of its first operand."""
    is_serializable = len(site) > 1 and site.constant(1, "whether it is serializable")
    return format_type(site[0].type) if is_serializable else _summary(site, site[0].type)


def _summary(site: CallSite[Operand], logical: LogicalType) -> str:
    """The type as people write it."""
    if logical.time_attribute is not None or logical.root in INTERVAL_ROOTS:
        site.refuse_types()
    inner = [_summary(site, child) for child in logical.children]
    match logical.root:
        case TypeRoot.VARCHAR if logical.length == LENGTH_MAX:
            found = "STRING"
        case TypeRoot.VARBINARY if logical.length == LENGTH_MAX:
            found = "BYTES"
        case TypeRoot.TIMESTAMP_LTZ:
            found = f"TIMESTAMP_LTZ({logical.precision})"
        case TypeRoot.ROW:
            pairs = zip(logical.field_names, inner, strict=True)
            found = f"ROW<{', '.join(f'`{name}` {kind}' for name, kind in pairs)}>"
        case _ if inner:
            found = f"{logical.root.name}<{', '.join(inner)}>"
        case _:
            return format_type(logical)
    return found if logical.nullable else f"{found} NOT NULL"


def separator(site: CallSite[Operand]) -> str | None:
    """The second operand of SPLIT_INDEX: a text or a character's number; None: of no character."""
    found = site.constant(1, "the separator")
    if isinstance(found, int):
        return chr(found) if 1 <= found <= CHARACTER_MAX else None
    return site.text(1, "the separator")


def texts_to_join(site: CallSite[T]) -> list[T]:
    """The operands of ARRAY_JOIN: an array of texts, what stands between, and for NULL."""
    children = site[0].type.children
    if site[0].type.root is not TypeRoot.ARRAY or children[0].root is not TypeRoot.VARCHAR:
        site.refuse_types()
    return [site[0], *(site.of_type(at, STRING_ROOTS) for at in range(1, len(site)))]


def array_element(site: CallSite[Operand], at: int = 0) -> LogicalType:
    """The type of the elements of an operand that must be an array."""
    return site.of_type(at, (TypeRoot.ARRAY,)).type.children[0]


def exact_element(site: CallSite[Operand]) -> LogicalType:
    """The same of the first operand, whose elements are compared for being equal or by order."""
    element = array_element(site)
    if element.root not in EXACT_ROOTS:
        site.refuse_types()
    return element


def ordered_element(site: CallSite[Operand], *, with_nan: bool) -> LogicalType:
    """The same of elements in an order, which BOOLEAN has not in Flink; `with_nan`: FLOAT, too."""
    element = array_element(site)
    if element.root is TypeRoot.BOOLEAN:
        site.refuse_types()
    return element if with_nan and element.root in FLOAT_ROOTS else exact_element(site)


def sort_order(site: CallSite[T]) -> list[T]:
    """The operands of ARRAY_SORT behind the first: whether it ascends, and NULLs are first."""
    return [site.of_type(at, (TypeRoot.BOOLEAN,)) for at in range(1, len(site))]


def exact_key(site: CallSite[Operand], at: int = 0) -> None:
    """Find out whether an operand is a map whose keys are compared."""
    if site.of_type(at, (TypeRoot.MAP,)).type.children[0].root not in EXACT_ROOTS:
        site.refuse_types()


def check_keys(site: CallSite[Operand]) -> None:
    """Find out whether two arrays can be the keys and values of a map."""
    exact_element(site)
    array_element(site, 1)


def translation(site: CallSite[Operand]) -> tuple[str, str]:
    """The second and third operand of TRANSLATE: characters, and what becomes of each."""
    matching = site.text(1, "what to translate")
    by = site.text(2, "what to translate to")
    if len(set(matching)) != len(matching):
        site.refuse("a character to translate stands there twice")
    return matching, by
