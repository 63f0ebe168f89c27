"""What a table's connector reads and writes, as far as a plan depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from operators.changelog import RowKind
from service.plan.changelog_modes import options_mode

if TYPE_CHECKING:
    from service.plan.changelog_mode import ChangelogMode
    from service.sql.catalogue import CatalogTable

SinkMode = Literal["append", "upsert", "retract"]
_UPSERT_CONNECTORS = ("blackhole", "upsert-kafka", "redis")
_RETRACT_CONNECTORS = ("print",)
LOOKED_UP = ("filesystem", "redis")
"""Connectors whose tables a look-up join can ask."""
_OBLIGING = ("blackhole", "print")
_MODES: tuple[SinkMode, ...] = ("append", "upsert", "retract")


def source_mode(table: CatalogTable) -> ChangelogMode:
    """The kinds of change that a source carries."""
    if table.options.get("connector") == "datagen":
        return options_mode({})
    return options_mode(table.options)


def could_insert_only(table: CatalogTable) -> bool:
    """Whether a source carries all kinds only because its option `changelog-mode` is not given."""
    is_declared = bool(table.options.get("changelog-mode"))
    return not is_declared and _is_ours(table) and not source_mode(table).is_insert_only


def _is_ours(table: CatalogTable) -> bool:
    """Whether the lines say their kinds, in our format; those of others carry what they carry."""
    is_changelog = table.options.get("format", "").startswith("changelog-json")
    return is_changelog or table.options.get("connector") == "ingress"


def is_upsert_source(table: CatalogTable) -> bool:
    """Whether a source sends what a row becomes, and never what it was."""
    kinds = source_mode(table).kinds
    return RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds


def deletes_by_key(table: CatalogTable) -> bool:
    """Whether deletes carry the key alone."""
    return table.options.get("key-only-deletes", "").lower() == "true"


def scans_keys_of_deletes(table: CatalogTable) -> bool:
    """Whether a source knows of a row that is gone nothing but its key."""
    return table.options.get("connector") == "upsert-kafka" or deletes_by_key(table)


def is_lookup(table: CatalogTable) -> bool:
    """Whether single keys can be looked up: of some connectors, unless the table says no."""
    is_wanted = table.options.get("lookup", "true").lower() == "true"
    return is_wanted and table.options.get("connector") in LOOKED_UP


def sink_mode(table: CatalogTable, *, is_insert_only: bool = False) -> SinkMode:
    """The changes that a sink takes: inserts, upserts, or all kinds.

    Some sinks take what they are given: nothing but inserts, if there is nothing else.

    Where the option `changelog-mode` does not say it: what the connector or format can write.
    """
    declared = table.options.get("changelog-mode", "").lower()
    for mode in _MODES:
        if declared == mode:
            return mode
    connector = table.options.get("connector")
    if connector == "jdbc":
        return "upsert" if table.primary_key else "append"
    if connector in _OBLIGING and is_insert_only:
        return "append"
    if connector in _UPSERT_CONNECTORS:
        return "upsert"
    if connector in _RETRACT_CONNECTORS:
        return "retract"
    form = table.options.get("format", table.options.get("value.format", ""))
    return "retract" if form.startswith("changelog-json") else "append"
