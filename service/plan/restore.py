"""Plans made whole by a catalogue: what `table.plan.restore.catalog-objects` says of their tables.

A plan may hold no more than the names of its tables, as it always does for temporary ones. Where a
session knows them, their description is put into the plan, so that it means the same without the
session. Options are merged, the catalogue's win, but over none that a hint of the statement set; of
a plan that was made of the catalogue just now, its own win.

Source: Flink `ContextResolvedTableJsonDeserializer` (2.3).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from service.plan.document import load_plan
from service.plan.tables import parse_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.document import CompiledPlan

RestoreObjects = Literal["ALL", "ALL_ENFORCED", "IDENTIFIER"]
_Winner = Literal["PLAN", "CATALOG", "CATALOG_ALONE"]
"""Whose options count where both have one."""

_HINT = re.compile(r"hints=\[\[\[\w+ options:\{(.*?)\]\]\]", re.DOTALL)
_HOLDERS = ("scanTableSource", "dynamicTableSink", "lookupTableSource")


def restored(
    source: str | bytes | Mapping[str, Any],
    catalog: Mapping[str, Mapping[str, Any]],
    objects: RestoreObjects = "ALL",
    *,
    is_new: bool = False,
) -> CompiledPlan:
    """The plan with its tables as the catalogue has them.

    Args:
        source: The document.
        catalog: Tables by identifier, each as a plan writes a `resolvedTable`.
        objects: ALL: plan and catalogue together; ALL_ENFORCED: the plan's description alone;
            IDENTIFIER: the catalogue's alone.
        is_new: Whether the plan was made of this catalogue just now.

    Raises:
        UnresolvedTable: Neither has a table that the plan needs.
        SchemaMismatch: Plan and catalogue describe different tables.
        PlanError: Anything else that is wrong with the plan.
    """
    if objects == "ALL_ENFORCED":
        return load_plan(source)
    plan = load_plan(source, catalog=catalog)
    by_names = {parse_identifier(identifier): table for identifier, table in catalog.items()}
    wins: _Winner = "PLAN" if is_new else "CATALOG" if objects == "ALL" else "CATALOG_ALONE"
    return load_plan(_rebuilt(dict(plan.document), by_names, wins))


def _rebuilt(value: object, catalog: Mapping[Any, Mapping[str, Any]], wins: _Winner) -> Any:
    """The value with the tables in it described; depth is bounded by the plan's reader."""
    if isinstance(value, list):
        return [_rebuilt(each, catalog, wins) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _rebuilt(each, catalog, wins) for key, each in value.items()}
    for holder in _HOLDERS:
        spec = made.get(holder)
        if isinstance(spec, dict) and isinstance(spec.get("table"), dict):
            table = _described(spec["table"], catalog, wins, str(made.get("description", "")))
            made[holder] = {**spec, "table": table}
    return made


def _described(
    table: dict[str, Any],
    catalog: Mapping[Any, Mapping[str, Any]],
    wins: _Winner,
    description: str,
) -> dict[str, Any]:
    is_enforced = wins == "CATALOG_ALONE"
    given = table.get("resolvedTable")
    known = catalog.get(parse_identifier(str(table.get("identifier", ""))))
    if known is None:
        return {k: v for k, v in table.items() if k != "resolvedTable" or not is_enforced}
    if not isinstance(given, dict) or is_enforced:
        return {**table, "resolvedTable": dict(known)}
    own, others = given.get("options") or {}, known.get("options", {})
    options = (
        {**others, **own} if wins == "PLAN" else {**own, **others, **_hinted(own, description)}
    )
    return {**table, "resolvedTable": {**given, "options": options}}


def _hinted(own: Mapping[str, Any], description: str) -> dict[str, Any]:
    """The options of a plan's table that a hint set, of which only the description tells.

    Where the value of one reads like another key, that key's option is the plan's, too.
    """
    found = _HINT.search(description)
    given = f", {found[1]}" if found else ""
    return {key: value for key, value in own.items() if f", {key}=" in given}
