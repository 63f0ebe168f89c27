"""Specs of ranks over rows (id, cat, p), and changes written as text."""

from __future__ import annotations

from typing import Any

from operators.changelog import Change, RowKind
from operators.ordering import SortColumn
from operators.rank.spec import RankSpec
from operators.spec import InputSpec, RowSpec
from state.types import parse_type

NAMES = ("id", "cat", "p")
TYPES = tuple(parse_type(each) for each in ("INT", "STRING", "INT"))
DESCENDING = (SortColumn(column=2, descending=True, nulls_last=True),)
ASCENDING = (SortColumn(column=2),)


def rank_spec(strategy: str = "retract", **fields: Any) -> RankSpec:
    """Ranks 1 and 2 by p descending in each cat, unless fields say otherwise."""
    key = fields.pop("key", (1,))
    number = fields.get("with_number", False)
    bigint = parse_type("BIGINT")
    return RankSpec.build(
        **{
            "inputs": (InputSpec(types=TYPES, names=NAMES, key=key),),
            "output": RowSpec(
                types=(*TYPES, bigint) if number else TYPES,
                names=(*NAMES, "rn") if number else NAMES,
            ),
            "strategy": strategy,
            "order": DESCENDING,
            "end": 2,
            **fields,
        }
    )


def changes(text: str) -> list[Change]:
    """Changes, one a line or separated by `;`: `+I 1 a 10`. A `-` is null."""
    parts = [each.split() for each in text.replace(";", "\n").splitlines() if each.strip()]
    return [
        Change(RowKind.from_short(kind), tuple(_value(each) for each in values))
        for kind, *values in parts
    ]


def _value(text: str) -> object:
    if text == "-":
        return None
    return int(text) if text.lstrip("-").isdigit() else text
