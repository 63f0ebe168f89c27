"""Taking records out of flight as data (`Controller.keep`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.execution.processes import DeclaredProcess, KeptRecord, Position
from state.execution.timers import Turn

if TYPE_CHECKING:
    from state.execution.engine import RecordEngine
    from state.execution.record_context import RecordContext


class Keeper:
    """Takes records out of an engine while it runs to its end.

    A record is taken together with all that wait for its key, or not at all: were it kept and one
    behind it run, that one would have overtaken it.
    """

    def __init__(self, engine: RecordEngine) -> None:
        self._engine = engine
        self.kept: list[KeptRecord] = []

    def take(self, context: RecordContext) -> bool:
        """Take a record and those behind it, if all of them can be kept; whether it was done."""
        waiting = [context, *self._engine.blocking.behind(context.key)]
        if not all(map(_is_keepable, waiting)):
            return False
        for _ in waiting[1:]:
            self._engine.blocking.take(context.key)
        for each in waiting:
            self._keep(each)
        return True

    def _keep(self, context: RecordContext) -> None:
        if not isinstance(context.record, Turn):
            self.kept.append(
                KeptRecord(
                    context.record,
                    context.key,
                    context.key_group,
                    context.event_ms,
                    _position(context),
                )
            )
        if context.coroutine is not None:
            context.coroutine.close()
        self._engine.dispose(context)


def _is_keepable(context: RecordContext) -> bool:
    """Whether a record has done nothing yet that data could not tell.

    Variables of a context are shared between records, so they are no data of one of them.
    """
    if context.variables is not None:
        return False
    if context.position is not None:
        return True
    process = context.process
    return context.coroutine is None and (
        process is None or isinstance(process, DeclaredProcess) or isinstance(context.record, Turn)
    )


def _position(context: RecordContext) -> Position | None:
    if context.position is None and isinstance(context.process, DeclaredProcess):
        return Position(context.process.name, context.process.first, {})
    return context.position
