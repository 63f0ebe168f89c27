"""What the operators of windows share: where a row's window comes from, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.aggregate import AggregateCall
from operators.event_time import from_ms, to_ms
from operators.spec import OperatorSpec
from operators.time_zones import UnknownZone
from operators.windows.shapes import Shape
from operators.windows.zones import LocalTime
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.windows.shapes import Span
    from state.types import LogicalType

Property = Literal["start", "end", "rowtime", "proctime"]


class WindowedSpec(OperatorSpec):
    """Rows in windows of time."""

    bundles: bool = True
    """What a key keeps is read and written once an epoch."""
    shape: Shape
    time_column: NonNegativeInt | None = None
    """The row time; None: the time of the epoch that brings a row, or windows are attached."""
    end_column: NonNegativeInt | None = None
    """Windows are attached: the column that has the window's end."""
    zone: str = "UTC"
    """Whose local time windows are of, where the time is a TIMESTAMP_LTZ or processing time; UTC
    where it is a TIMESTAMP, which is local already."""

    @model_validator(mode="after")
    def _window(self) -> Self:
        if len(self.inputs) != 1:
            raise ValueError("windows have one input")
        width = len(self.inputs[0].types)
        for column in (self.time_column, self.end_column):
            if column is not None and column >= width:
                raise ValueError("the time of a window is not a column of the input")
        if self.time_column is not None and self.end_column is not None:
            raise ValueError("a row has its window, or a time that says which it is")
        try:
            LocalTime(self.zone)
        except UnknownZone as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def is_event_time(self) -> bool:
        """Whether windows wait for the watermark; else for processing time."""
        return self.time_column is not None or self.end_column is not None

    @property
    def local_time(self) -> LocalTime:
        """The zone that counts."""
        return LocalTime(self.zone)


class WindowAggregateSpec(WindowedSpec):
    """Aggregates of windows: the output has the key, then the calls, then the properties."""

    calls: tuple[AggregateCall, ...]
    properties: tuple[Property, ...] = ()

    @model_validator(mode="after")
    def _columns(self) -> Self:
        width = len(self.inputs[0].key) + len(self.calls) + len(self.properties)
        if len(self.output.types) != width:
            raise ValueError("the output has the key, the calls and the properties")
        return self


class PropertyColumns:
    """Writes what is told of a window.

    Args:
        properties: Which, in order.
        types: Of their columns.
        zone: Of local times.
    """

    def __init__(
        self, properties: Sequence[Property], types: Sequence[LogicalType], zone: LocalTime
    ) -> None:
        self._columns = list(zip(properties, types, strict=True))
        self._zone = zone

    def of(self, window: Span) -> Row:
        """The columns of a window; its row time is the last ms that it contains."""
        found: list[object] = []
        for name, logical in self._columns:
            match name:
                case "start":
                    found.append(from_ms(window.start, logical))
                case "end":
                    found.append(from_ms(window.end, logical))
                case "rowtime":
                    last_ms = window.end - 1
                    is_point = logical.root is TypeRoot.TIMESTAMP_LTZ
                    found.append(
                        from_ms(self._zone.point(last_ms) if is_point else last_ms, logical)
                    )
                case _:
                    # Who reads it makes it anew: a row's processing time is when it is read.
                    found.append(None)
        return tuple(found)


def time_of(row: Row, column: int) -> int | None:
    """A row's time in ms; None if it has none."""
    value = row[column]
    return None if value is None else to_ms(value)
