"""Sorted maps of whole numbers, as several tests fill them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.descriptors import JSON, SortedMapDescriptor
from state.lexicographic import lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from state.testing.sorted_epochs import Epochs

BIGINT = lexicographic_codec([parse_type("BIGINT NOT NULL")])


def described(**options: Any) -> SortedMapDescriptor[Any, Any]:
    return SortedMapDescriptor(**{"name": "rows", "key_codec": BIGINT, "codec": JSON, **options})


def fill(epochs: Epochs, rows: SortedMapDescriptor[Any, Any], keys: range) -> None:
    """An epoch that adds a value for each user key."""
    with epochs.epoch(rows) as state:
        for at in keys:
            state.add((at,), f"v{at}")


def pairs(keys: range) -> list[tuple[tuple[int], list[str]]]:
    """What `fill` leaves."""
    return [((at,), [f"v{at}"]) for at in keys]
