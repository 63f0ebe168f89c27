"""What every OVER is to do, in whatever order."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from operators.aggregate import AggregateCall
from operators.over.calls import Constant
from operators.over.positions import PositionCall
from operators.spec import OperatorSpec


class OverCallsSpec(OperatorSpec):
    """Functions of rows; the output has the input's columns, then one for each call."""

    calls: tuple[AggregateCall | PositionCall, ...]
    constants: tuple[Constant, ...] = ()
    """Behind the columns of a row, where calls may name them as arguments."""
    is_rows: bool
    """ROWS; else RANGE."""

    @model_validator(mode="after")
    def _columns(self) -> Self:
        if len(self.inputs) != 1:
            raise ValueError("OVER has one input")
        if len(self.output.types) != len(self.inputs[0].types) + len(self.calls):
            raise ValueError("the output has the input's columns and one for each call")
        return self
