"""Materializer cases: the operator alone, on each backend and with each strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.testing.recorded import run_case
from state.multiset.strategy import Strategy
from tests.oracles.cases import Case, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.oracles.engines import Engines

EPOCH_SIZES = {"heap": (1000, 7), "redis": (1000, 50)}
"""Changes in an epoch: nearly all in one, and many small epochs."""


def run_materializer(
    case: Case, backends: Sequence[str], strategies: Sequence[str], engines: Engines
) -> Iterator[Outcome]:
    """One outcome for each backend and strategy; every epoch size must give the same."""
    for backend in backends:
        client = engines.redis_client() if backend == "redis" else None
        for strategy in strategies:
            name = f"{case.name} [{backend}, {strategy}]"
            difference = None
            for size in EPOCH_SIZES[backend]:
                result = run_case(
                    case.folder, strategy=Strategy(strategy), client=client, epoch_changes=size
                )
                if result.difference is not None:
                    difference = f"epochs of {size}: {result.difference}"
                    break
            yield Outcome(name, difference)
