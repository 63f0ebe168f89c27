"""Tables of other pipelines that look-up joins ask: whether there are such.

A table in Redis is named by two options of the table that is looked up. One that is not there has
no rows, so each look-up of it would be a miss, for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.plan import load_plan
from service.plan.nodes import Sink
from service.plan.properties import JsonObject
from service.runtime.connectors import table_names
from service.runtime.dataflow_errors import InvalidTableOption
from service.sql.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode

_OPTIONS = ("temporalTable", "lookupTableSource", "table", "resolvedTable", "options")


def check_looked_up(
    plan: CompiledPlan, name: str, plan_of: Callable[[str], Mapping[str, Any] | None]
) -> None:
    """See that the tables in Redis that a plan looks up are those of pipelines.

    Args:
        plan: It was checked.
        name: Of its own pipeline, which may look up what it writes.
        plan_of: The document of another pipeline's plan; None: there is no such pipeline.

    Raises:
        InvalidTableOption: There is no such pipeline, or it has no such table.
    """
    for node, options in _looked_up(plan):
        pipeline, table = options["lookup.pipeline"], options["lookup.table"]
        other = plan if pipeline == name else _loaded(plan_of(pipeline))
        path = "/".join([node.path, *_OPTIONS])
        if other is None:
            raise InvalidTableOption(
                f'option "lookup.pipeline": there is no pipeline "{pipeline}"',
                hint="create the pipeline that writes the table first",
                node_id=node.id,
                path=f"{path}/lookup.pipeline",
            )
        tables = sorted(_in_redis(other))
        if table not in tables:
            raise InvalidTableOption(
                f'option "lookup.table": pipeline "{pipeline}" has no table "{table}" in Redis',
                hint=nearest(table, tables) or f"it has {', '.join(tables) or 'none'}",
                node_id=node.id,
                path=f"{path}/lookup.table",
            )


def _looked_up(plan: CompiledPlan) -> Iterator[tuple[ExecNode, dict[str, str]]]:
    for node in plan.nodes:
        if node.node_type.short != "lookup-join":
            continue
        options = JsonObject(node.raw, node.path, node.id).inner(*_OPTIONS)
        found = {str(name): str(value) for name, value in options.value.items()}
        if found.get("connector") == "redis":
            yield node, found


def _loaded(document: Mapping[str, Any] | None) -> CompiledPlan | None:
    return None if document is None else load_plan(dict(document))


def _in_redis(plan: CompiledPlan) -> set[str]:
    names = table_names(plan)
    return {
        names[node.view.table.identifier]
        for node in plan.nodes
        if isinstance(node.view, Sink) and node.view.table.options.get("connector") == "redis"
    }
