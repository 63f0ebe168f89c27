"""Whether the deletes that each node sends carry the key alone or the whole row.

A ChangelogNormalize that nobody needs is left out.
"""

from __future__ import annotations

from dataclasses import replace

from service.sql.physical.connectors import scans_keys_of_deletes
from service.sql.physical.keys import unfiltered_keys
from service.sql.physical.nodes import (
    CalcSpec,
    Changes,
    Deletes,
    DropUpdateBeforeSpec,
    ExchangeSpec,
    ExpandSpec,
    JoinSpec,
    MultiJoinSpec,
    Node,
    NormalizeSpec,
    ScanSpec,
    UnionSpec,
    rebuilt,
)
from service.sql.physical.updates import filters_values, joined_on

UNAVAILABLE = "debezium-json.unavailable.value.placeholder"
"""An option of tables; see `service.runtime.sources.formats`."""


def _full(changes: Changes) -> Deletes:
    return "FULL" if changes.has_deletes else "NONE"


def with_deletes(node: Node, wanted: Deletes) -> Node | None:
    """The node sending deletes as it was asked to; None: it cannot."""
    spec = node.spec
    match spec:
        case ScanSpec():
            sent: Deletes = "KEY" if scans_keys_of_deletes(spec.table) else "FULL"
            return _deleting(node, (), sent if node.changes.has_deletes else "NONE")
        case NormalizeSpec():
            return _normalize_deletes(node, spec, wanted)
        case CalcSpec() if wanted == "KEY" and filters_values(node, spec):
            return None
        case CalcSpec() | ExchangeSpec() | ExpandSpec() | DropUpdateBeforeSpec():
            made = with_deletes(node.input, wanted)
            if made is None or made.changes.deletes != wanted:
                return None
            return _deleting(node, (made,), made.changes.deletes)
        case JoinSpec() | MultiJoinSpec():
            return _join_deletes(node, wanted)
        case UnionSpec():
            return _union_deletes(node, wanted)
        case _:
            below = []
            for each in node.inputs:
                made = with_deletes(each, _full(each.changes))
                if made is None:
                    return None
                below.append(made)
            return _deleting(node, tuple(below), _full(node.changes))


def _deleting(node: Node, made: tuple[Node, ...], sent: Deletes) -> Node:
    below = rebuilt(node, made)
    return below.sending(replace(below.changes, deletes=sent))


def _normalize_deletes(node: Node, spec: NormalizeSpec, wanted: Deletes) -> Node | None:
    is_needed = node.changes.updates == "BOTH" or spec.condition is not None
    is_needed |= _lacks_values(node)
    has_deletes = node.input.changes.has_deletes
    if not is_needed and has_deletes:
        made = with_deletes(node.input, wanted)
        if made is not None and made.changes.deletes == wanted:
            return made.input
    choices: list[Deletes] = ["KEY", "FULL"] if has_deletes else ["NONE"]
    for choice in choices:
        made = with_deletes(node.input, choice)
        if made is not None and made.changes.deletes == choice:
            return _deleting(node, (made,), _full(node.changes))
    return None


def _lacks_values(node: Node) -> bool:
    """Whether a table says what stands for values that changes leave out: the last row has them."""
    while isinstance(node.spec, NormalizeSpec | ExchangeSpec | DropUpdateBeforeSpec):
        node = node.input
    options = node.spec.table.options if isinstance(node.spec, ScanSpec) else {}
    return any(name.removeprefix("value.") == UNAVAILABLE for name in options)


def _join_deletes(node: Node, wanted: Deletes) -> Node | None:
    below = []
    for side, columns in zip(node.inputs, joined_on(node), strict=True):
        supports = any(frozenset(columns) <= key for key in unfiltered_keys(side))
        full = _full(side.changes)
        made = None
        if supports and wanted == "KEY" and full != "NONE":
            made = with_deletes(side, "KEY")
        made = made or with_deletes(side, full)
        if made is None:
            return None
        below.append(made)
    has_keys = any(made.changes.deletes == "KEY" for made in below)
    sent: Deletes = "KEY" if has_keys else _full(node.changes)
    return _deleting(node, tuple(below), sent)


def _union_deletes(node: Node, wanted: Deletes) -> Node | None:
    below = []
    for each in node.inputs:
        made = with_deletes(each, wanted if each.changes.has_deletes else "NONE")
        if made is None:
            return None
        below.append(made)
    sent = {made.changes.deletes for made in below}
    merged: Deletes = "KEY" if "KEY" in sent else "FULL" if "FULL" in sent else "NONE"
    return _deleting(node, tuple(below), merged)
