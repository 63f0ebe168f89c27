"""Expressions of a plan (Calcite's RexNode) as a typed, frozen tree.

Each node keeps its JSON pointer, so that whoever cannot evaluate one can say which.

    kind in the plan        class
    INPUT_REF               InputRef: a column of the input row, from 0
    LITERAL                 Literal; SargLiteral if it has `sarg`; SymbolLiteral if it has `symbol`
    CALL                    Call: a function of operands
    FIELD_ACCESS            FieldAccess: a field of a row
    CORREL_VARIABLE         CorrelVariable     only in nodes that are not run yet
    PATTERN_INPUT_REF       PatternInputRef    the same
    TABLE_ARG_CALL          TableArgument      the same

`service.plan.rex` reads them from a plan; `transport` carries them in the spec of an operator.

Source: Flink `RexNodeJsonSerializer` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as OneOf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.types import LogicalType

PlanValue: TypeAlias = bool | int | float | str | None
"""A literal's value as the plan writes it.

BOOLEAN is a JSON boolean and an integer a JSON number; others are text: DECIMAL, FLOAT, DOUBLE
`"2.5"`, CHAR itself, BINARY base64, DATE `"2020-02-29"`, TIMESTAMP `"2020-02-29 13:14:15.5"`
(TIMESTAMP_LTZ: in UTC), TIME `"13:14:15.5"`, intervals the number of months or milliseconds.
"""
NullAs = OneOf["UNKNOWN", "TRUE", "FALSE"]
FunctionOrigin = OneOf["built-in", "system", "catalog", "class"]


@dataclass(frozen=True, slots=True)
class InputRef:
    """A column of the input row."""

    index: int
    type: LogicalType
    path: str


@dataclass(frozen=True, slots=True)
class Literal:
    """One value; NULL is None."""

    value: PlanValue
    type: LogicalType
    path: str


@dataclass(frozen=True, slots=True)
class SymbolLiteral:
    """A constant of an enumeration, such as TRIM's BOTH or EXTRACT's DAY."""

    symbol: str
    """The enumeration: TRIM, TIME_UNIT_RANGE, JSON_VALUE_EMPTY_OR_ERROR_BEHAVIOR, ..."""
    value: str
    type: LogicalType
    path: str


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range."""

    value: bool | int | float | str
    is_inclusive: bool


@dataclass(frozen=True, slots=True)
class SargRange:
    """A range of values; an end that is None is open to infinity."""

    lower: Bound | None
    upper: Bound | None


@dataclass(frozen=True, slots=True)
class SargLiteral:
    """A search argument, second operand of SEARCH: the union of its ranges."""

    ranges: tuple[SargRange, ...]
    null_as: NullAs
    """What SEARCH gives for NULL."""
    type: LogicalType
    path: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator of operands."""

    name: str
    """`=` of the built-in `$=$1`; for others the catalogue's identifier or the class."""
    version: int | None
    """Of a built-in (`$=$1` is 1); None for others."""
    origin: FunctionOrigin
    operands: tuple[Rex, ...]
    type: LogicalType | None
    """None where an old plan leaves it to be derived."""
    syntax: str
    """FUNCTION, BINARY, PREFIX, POSTFIX, SPECIAL, INTERNAL, ...; tells `-a` from `a - b`."""
    sql_kind: str | None
    path: str


@dataclass(frozen=True, slots=True)
class FieldAccess:
    """A field of the row that `expression` gives."""

    name: str
    expression: Rex
    path: str


@dataclass(frozen=True, slots=True)
class CorrelVariable:
    """A row of the other side of a correlation."""

    name: str
    type: LogicalType
    path: str


@dataclass(frozen=True, slots=True)
class PatternInputRef:
    """A column of a row that MATCH_RECOGNIZE named."""

    pattern: str
    index: int
    type: LogicalType
    path: str


@dataclass(frozen=True, slots=True)
class TableArgument:
    """An input of a process table function."""

    index: int
    partition_keys: tuple[int, ...]
    order_keys: tuple[int, ...]
    type: LogicalType
    path: str


Rex: TypeAlias = (
    InputRef
    | Literal
    | SymbolLiteral
    | SargLiteral
    | Call
    | FieldAccess
    | CorrelVariable
    | PatternInputRef
    | TableArgument
)


def walk(rex: Rex) -> Iterator[Rex]:
    """The expression and all below it, parents first.

    >>> from operators.expressions.rex import Call, InputRef, walk
    >>> from state.types import parse_type
    >>> whole = parse_type("INT")
    >>> reference = InputRef(0, whole, "/operands/0")
    >>> call = Call("ABS", 1, "built-in", (reference,), whole, "FUNCTION", None, "")
    >>> [type(part).__name__ for part in walk(call)]
    ['Call', 'InputRef']
    """
    pending = [rex]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Call):
            pending.extend(reversed(part.operands))
        elif isinstance(part, FieldAccess):
            pending.append(part.expression)
