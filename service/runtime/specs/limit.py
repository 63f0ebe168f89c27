"""Limit and SortLimit nodes: a Rank over one partition, whose number is never emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.specs.rank import ranked

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode


def limit_spec(at: StatefulNode) -> OperatorSpec:
    """A Limit or SortLimit node; what they say of partitions Flink does not read either.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: Its strategy or range is not run.
    """
    return ranked(at, at.input(0, ()), with_number=False)
