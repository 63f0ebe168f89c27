"""Hypothesis strategies for changes: tiny domains, so that rows meet, repeat and cancel."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.upsert_materializer import MaterializerSpec
from state.multiset.strategy import Strategy
from state.types import LogicalType, parse_type


@dataclass(frozen=True, slots=True)
class Domain:
    """Columns with the few values that each may have."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    values: tuple[tuple[object, ...], ...]

    @classmethod
    def of(cls, **columns: tuple[str, tuple[object, ...]]) -> Domain:
        """A domain from `name=(type, values)`."""
        return cls(
            tuple(columns),
            tuple(parse_type(text) for text, _ in columns.values()),
            tuple(values for _, values in columns.values()),
        )

    def rows(self) -> st.SearchStrategy[tuple[object, ...]]:
        """Rows of the domain."""
        return st.tuples(*(st.sampled_from(values) for values in self.values))


INTEGERS = Domain.of(
    id=("BIGINT", (1, 2, 3)), k=("INT", (1, 2)), v=("VARCHAR(2147483647)", ("a", "b"))
)
"""The columns of Flink's own tests."""

ODD = Domain.of(
    id=("DOUBLE", (float("nan"), 0.0, -0.0, 1.5, None)),
    k=("VARCHAR(10)", ("", "x", None)),
    v=("BIGINT", (None, 0, 2**63 - 1, -(2**63))),
    w=("VARCHAR(200)", ("payload " * 12, 'quote " tab \t newline \n', None)),
)
"""Values that are easily confused, or of no cheap code."""


def changes(domain: Domain, size_max: int = 40) -> st.SearchStrategy[list[Change]]:
    """A run of changes, with retractions of what may or may not be there."""
    one = st.builds(Change, st.sampled_from(list(RowKind)), domain.rows())
    return st.lists(one, max_size=size_max)


def epochs(domain: Domain, size_max: int = 12) -> st.SearchStrategy[list[tuple[int, list[Change]]]]:
    """Epochs with how many ms later than the one before each one is."""
    one = st.tuples(st.integers(0, 60), changes(domain, size_max))
    return st.lists(one, max_size=6)


@st.composite
def specs(draw: st.DrawFn, domain: Domain, *, ttl_ms: tuple[int, ...] = (0,)) -> MaterializerSpec:
    """Materializers over a domain: all strategies, both match modes, thresholds soon met."""
    low = draw(st.integers(0, 3))
    return MaterializerSpec(
        types=domain.types,
        names=domain.names,
        key=draw(st.sampled_from([(1,), (1, 0)])),
        upsert_key=draw(st.sampled_from([None, (), (0,), (0, 2)])),
        strategy=draw(st.sampled_from(list(Strategy))),
        high=low + draw(st.integers(1, 3)),
        low=low,
        ttl_ms=draw(st.sampled_from(ttl_ms)),
    )
