"""GROUP BY TUMBLE(ts, ..), HOP and SESSION: windows as they were before table functions.

TUMBLE_START, TUMBLE_END, TUMBLE_ROWTIME and TUMBLE_PROCTIME, and those of HOP and SESSION, tell of
the window; they take the same arguments.

Source: Calcite `SqlGroupedWindowFunction`, Flink `StreamLogicalWindowAggregateRule` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from service.plan.rex import InputRef, Literal, Rex
from service.sql.algebra import Filter, Project
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.literals import interval_ms, window_length_ms
from service.sql.terms import WindowSpec

if TYPE_CHECKING:
    from service.sql.errors import Position
    from service.sql.expressions import ExpressionBinder
    from service.sql.terms import WindowKind
    from service.sql.window_relations import GroupWindows

_KINDS: Final[dict[str, WindowKind]] = {"TUMBLE": "TUMBLE", "HOP": "HOP", "SESSION": "SESSION"}
PROPERTIES: Final = ("START", "END", "ROWTIME", "PROCTIME")
"""What is told of a window, in the order of the columns."""


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """A window of GROUP BY, and the arguments that tell of it."""

    kind: WindowKind
    arguments: tuple[Rex, ...]

    @property
    def time(self) -> InputRef:
        """The time attribute that is cut."""
        assert isinstance(self.arguments[0], InputRef), "it was checked when it was bound"
        return self.arguments[0]

    def spec(self, column: int) -> WindowSpec:
        """How it is cut, of time in this column."""
        lengths = [interval_ms(each) for each in self.arguments[1:] if isinstance(each, Literal)]
        step = lengths[0] if self.kind == "HOP" else None
        return WindowSpec(self.kind, column, lengths[-1], step)


def window_kind(node: exp.Expression) -> WindowKind | None:
    """The kind of window that a function of GROUP BY is; None if it is none."""
    return _KINDS.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None


def auxiliary(node: exp.Expression) -> tuple[WindowKind, str] | None:
    """The window that a function tells of, and what; None if it is no such function."""
    if not isinstance(node, exp.Anonymous):
        return None
    name, _, what = node.name.upper().rpartition("_")
    kind = _KINDS.get(name)
    return None if kind is None or what not in PROPERTIES else (kind, what)


def has_auxiliary(nodes: list[exp.Expression]) -> bool:
    """Whether a function that tells of a window is among or inside the expressions."""
    return any(auxiliary(part) is not None for node in nodes for part in node.walk())


def bind_window(
    kind: WindowKind, node: exp.Expression, binder: ExpressionBinder, position: Position
) -> GroupWindow:
    """The window of a function's arguments.

    Raises:
        ValidationError: There is no time attribute, or no constant interval above 0.
        UnsupportedSql: The windows are to be moved by an offset.
    """
    arguments = tuple(binder.rex(each) for each in node.expressions)
    steps = 2 if kind == "HOP" else 1
    if len(arguments) == steps + 2:
        raise UnsupportedSql(
            f"an offset in GROUP BY {kind}(..) is not supported",
            position,
            hint="use the window table function",
        )
    if len(arguments) != steps + 1:
        raise ValidationError(f"{kind} does not take {len(arguments)} arguments", position)
    time, *lengths = arguments
    if not isinstance(time, InputRef) or time.type.time_attribute is None:
        raise ValidationError(
            "Window aggregate can only be defined over a time attribute column", position
        )
    for each in lengths:
        window_length_ms(each, position)
    return GroupWindow(kind, arguments)


def in_table_order(made: GroupWindows) -> GroupWindows:
    """The aggregate over columns in the order of the table, where Flink's has them so.

    That is where all columns are read, or where a condition is below.
    """
    project = made.input
    if not isinstance(project, Project):
        return made
    columns = [rex.index for rex in project.scalars if isinstance(rex, InputRef)]
    if len(columns) < len(project.scalars):
        return made
    is_all = len(columns) == len(project.input.row)
    if not is_all and not isinstance(project.input, Filter):
        return made
    order = sorted(range(len(columns)), key=columns.__getitem__)
    places = {old: new for new, old in enumerate(order)}
    row = project.input.row
    below = Project(
        project.input,
        tuple(project.scalars[old] for old in order),
        tuple(row.names[columns[old]] for old in order),
    )
    calls = tuple(each.over(places.__getitem__) for each in made.calls)
    return replace(
        made,
        input=below,
        grouping=tuple(places[each] for each in made.grouping),
        calls=calls,
        spec=replace(made.spec, time_column=places[made.spec.time_column]),
    )
