"""Limit and SortLimit nodes: a Rank over one partition, whose number is never emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.specs.rank import rank_spec

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode


def limit_spec(at: StatefulNode) -> OperatorSpec:
    """A Limit or SortLimit node."""
    return rank_spec(at)
