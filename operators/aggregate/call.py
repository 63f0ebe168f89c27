"""One aggregate call of a plan: a function over columns of the rows of a group or window."""

from __future__ import annotations

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, model_validator

from operators.spec import Logical
from state.types import (
    INTEGER_BITS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    TypeRoot,
    format_type,
)

ARGUMENTS: Final[dict[str, tuple[int, int]]] = {
    "COUNT": (0, 8),
    "SUM": (1, 1),
    "$SUM0": (1, 1),
    "AVG": (1, 1),
    "MIN": (1, 1),
    "MAX": (1, 1),
    "FIRST_VALUE": (1, 1),
    "LAST_VALUE": (1, 1),
    "LISTAGG": (1, 2),
    "COLLECT": (1, 1),
    "ARRAY_AGG": (1, 1),
    "SINGLE_VALUE": (1, 1),
    "STDDEV_POP": (1, 1),
    "STDDEV_SAMP": (1, 1),
    "VAR_POP": (1, 1),
    "VAR_SAMP": (1, 1),
    "$WELFORD_M2$1": (1, 1),
    "BIT_AND": (1, 1),
    "BIT_OR": (1, 1),
    "BIT_XOR": (1, 1),
    "BOOL_AND": (1, 1),
    "BOOL_OR": (1, 1),
}
"""The functions, with the least and the greatest number of their arguments."""


_ORDERED: Final = (
    NUMBER_ROOTS | STRING_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME}
)
_ALLOWED: Final[dict[str, frozenset[TypeRoot]]] = {
    **dict.fromkeys(("SUM", "$SUM0", "AVG"), NUMBER_ROOTS),
    **dict.fromkeys(("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"), NUMBER_ROOTS),
    "$WELFORD_M2$1": NUMBER_ROOTS,
    **dict.fromkeys(("MIN", "MAX"), _ORDERED),
    **dict.fromkeys(("BIT_AND", "BIT_OR", "BIT_XOR"), frozenset(INTEGER_BITS)),
    **dict.fromkeys(("BOOL_AND", "BOOL_OR"), frozenset({TypeRoot.BOOLEAN})),
    "LISTAGG": STRING_ROOTS,
}
"""Types of the first argument, where not all will do; those that Flink takes."""


class AggregateCall(BaseModel):
    """A call of an aggregate function.

    `operators.aggregate.aggregates.Aggregates` computes several calls over rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    function: str
    """As SQL names it; `$SUM0` is SUM that gives 0 for no rows."""
    name: str
    """Of its accumulator, as people see it in state."""
    arguments: tuple[NonNegativeInt, ...] = ()
    """Columns of the input row."""
    argument_types: tuple[Logical, ...] = ()
    result_type: Logical
    is_distinct: bool = False
    """Equal arguments count once."""
    filter: NonNegativeInt | None = None
    """A BOOLEAN column of the input row; only rows with TRUE are taken."""
    needs_retraction: bool = False
    """Whether rows may be taken back. MIN and MAX without it ignore what is taken back, which
    plans use where results only grow."""
    ignores_null: bool = True
    """Of ARRAY_AGG; all other functions but SINGLE_VALUE ignore null anyway."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.function not in ARGUMENTS:
            raise ValueError(f"unknown aggregate function {self.function}")
        least, most = ARGUMENTS[self.function]
        if not least <= len(self.arguments) <= most:
            raise ValueError(f"{self.function} of {len(self.arguments)} arguments")
        if len(self.arguments) != len(self.argument_types):
            raise ValueError("an aggregate call needs a type for each argument")
        allowed = _ALLOWED.get(self.function)
        if allowed is not None and self.argument_types[0].root not in allowed:
            given = format_type(self.argument_types[0])
            raise ValueError(f"{self.function} is not defined for {given}")
        return self
