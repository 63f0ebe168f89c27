"""What a plan hands to a source, and that nobody above does again.

Flink's sources may take over filters and a limit. Where the node above repeats them they only save
work, and are passed over. Where none does they are part of what the plan says: a filter is applied
to the source's rows, or refused by name; so is a limit, as which rows a source gives first is
nobody's to say.

A filter of rows goes wrong where an update is known by its +U alone: if the row before it passed
and the +U does not, nothing says that the row is gone. There it may read the key alone.

Source: Flink `FilterPushDownSpec`, `LimitPushDownSpec` (2.3); predicates are over the columns that
the abilities before them leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from operators.changelog import RowKind
from service.plan.changelog_modes import source_mode
from service.plan.nodes import Calc, DropUpdateBefore, Exchange, TableScan, WatermarkAssigner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.plan.document import CompiledPlan
    from service.plan.nodes import Ability, ExecNode, PushedFilter

_PASSING = frozenset({"mini-batch-assigner"})


@dataclass(frozen=True, slots=True)
class Refused:
    """An ability that is neither done again above nor can be applied."""

    ability: Ability
    reason: str


def applied_filters(plan: CompiledPlan, scan: ExecNode) -> list[PushedFilter]:
    """The filters that a scan's rows must pass, as nothing above the scan asks again."""
    assert isinstance(scan.view, TableScan), "only scans are asked"
    return [each for each in scan.view.filters if not _is_repeated(plan, scan, each)]


def refused_abilities(plan: CompiledPlan, scan: ExecNode) -> Iterator[Refused]:
    """What a scan took over, and that cannot be done here."""
    assert isinstance(scan.view, TableScan), "only scans are asked"
    for each in applied_filters(plan, scan):
        reason = _why_not(plan, scan, scan.view, each)
        if reason:
            yield Refused(each.ability, reason)
    for ability in scan.view.abilities:
        if ability.type == "LimitPushDown" and not _is_limited(plan, scan, ability.value):
            reason = "the source is to give a number of rows, and no LIMIT above it says which"
            yield Refused(ability, reason)


def _why_not(plan: CompiledPlan, node: ExecNode, scan: TableScan, pushed: PushedFilter) -> str:
    schema = scan.table.schema
    unread = set(pushed.read) - {each.name for each in schema.physical}
    if unread:
        return f"its filter reads {', '.join(sorted(unread))}, which is no column of its records"
    kinds = source_mode(scan.table).kinds
    is_whole = RowKind.UPDATE_AFTER not in kinds or (
        RowKind.UPDATE_BEFORE in kinds
        and not any(isinstance(each.view, DropUpdateBefore) for each in _above(plan, node))
    )
    if is_whole or set(pushed.read) <= set(schema.primary_key):
        return ""
    return (
        "its filter reads more than the key, and updates come without the row before: a row that "
        "does not pass any more would stay"
    )


def _above(plan: CompiledPlan, node: ExecNode) -> Iterator[ExecNode]:
    """The nodes that a scan's rows come to as they are, and the first ones that change them."""
    following = [each for each in plan.edges if each.source == node.id]
    for edge in following:
        consumer = plan.node(edge.target)
        yield consumer
        passes = isinstance(consumer.view, Exchange | DropUpdateBefore | WatermarkAssigner)
        if passes or consumer.node_type.short in _PASSING:
            yield from _above(plan, consumer)


def readers(plan: CompiledPlan, node: ExecNode) -> list[ExecNode]:
    """The first nodes above that change a scan's rows."""
    return [
        each
        for each in _above(plan, node)
        if not isinstance(each.view, Exchange | DropUpdateBefore | WatermarkAssigner)
        and each.node_type.short not in _PASSING
    ]


def _is_repeated(plan: CompiledPlan, scan: ExecNode, pushed: PushedFilter) -> bool:
    """Whether every node above asks for all that the filter asks for."""
    wanted = set(_said(pushed.ability.value.get("predicates"), pushed.columns))
    return _ask_again(plan, scan, wanted, scan.output_type.field_names)


def is_normalized(plan: CompiledPlan, identifier: str) -> bool:
    """Whether a table is read by ChangelogNormalize alone, which keeps the last row of each key."""
    return all(
        each.node_type.short == "changelog-normalize"
        for node in plan.nodes
        if isinstance(node.view, TableScan) and node.view.table.identifier == identifier
        for each in readers(plan, node)
    )


def _ask_again(
    plan: CompiledPlan, node: ExecNode, wanted: set[bytes], names: Sequence[str]
) -> bool:
    above = readers(plan, node)
    return bool(above) and all(
        wanted <= set(_said(_condition(each), names))
        or (
            # It passes rows on as they are.
            each.node_type.short == "changelog-normalize" and _ask_again(plan, each, wanted, names)
        )
        for each in above
    )


def _condition(node: ExecNode) -> object:
    if isinstance(node.view, Calc):
        return [node.raw.get("condition")]
    if node.node_type.short == "changelog-normalize":
        return [node.raw.get("filterCondition")]
    return []


def _said(conditions: object, names: Sequence[str]) -> Iterator[bytes]:
    """The parts of a conjunction as texts, with names in place of columns' numbers."""
    for each in conditions if isinstance(conditions, list) else []:
        if isinstance(each, dict):
            if each.get("kind") == "CALL" and each.get("internalName") == "$AND$1":
                yield from _said(each.get("operands"), names)
            else:
                yield orjson.dumps(_by_name(each, names), option=orjson.OPT_SORT_KEYS)


def _by_name(value: Any, names: Sequence[str]) -> Any:  # JSON of any shape
    if isinstance(value, list):
        return [_by_name(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "INPUT_REF":
        index = value.get("inputIndex")
        return {"column": names[index] if isinstance(index, int) and index < len(names) else index}
    return {name: _by_name(each, names) for name, each in value.items()}


def _is_limited(plan: CompiledPlan, scan: ExecNode, limit: Mapping[str, Any]) -> bool:
    """Whether every node above takes as many rows at most."""
    most = limit.get("limit")
    above = readers(plan, scan)
    return bool(above) and all(
        each.node_type.short == "limit" and _end(each) <= (most if isinstance(most, int) else 0)
        for each in above
    )


def _end(limit: ExecNode) -> float:
    rows = limit.raw.get("rankRange")
    end = rows.get("end") if isinstance(rows, dict) else None
    return end if isinstance(end, int) else float("inf")
