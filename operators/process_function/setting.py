"""What a function of a user is called with, and how it makes its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.errors import InvalidSpec
from state.descriptors import (
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    MultisetDescriptor,
    ReducingDescriptor,
    SortedMapDescriptor,
    ValueDescriptor,
)
from state.ttl import DISABLED, TtlConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from operators.process_function.process_operator import ProcessFunctionSpec
    from operators.spec import InputSpec
    from state.descriptors import Aggregator, Codec, MatchColumns


class FunctionSetting:
    """What a function is called with, and how it makes its states.

    Args:
        spec: The call.
    """

    def __init__(self, spec: ProcessFunctionSpec) -> None:
        self._spec = spec
        self.inputs: tuple[InputSpec, ...] = spec.inputs
        """The tables that it is called with, and what they are partitioned by."""
        self.arguments: Mapping[str, Any] = dict(spec.arguments)
        """By name; null where the call leaves one out."""
        self.ttl: TtlConfig = spec.ttl_of(0)
        """That of the plan; `dataclasses.replace` it for another update type, visibility, time or
        clean-up. What counts event time is stamped by `on_time` of the row, or by the timer."""

    def value(
        self, name: str, codec: Codec[Any], ttl_ms: int | None = None, ttl: TtlConfig | None = None
    ) -> ValueDescriptor[Any]:
        """One value a key.

        Args:
            name: Unique in the function.
            codec: How values are written.
            ttl_ms: Its time to live, 0 is for ever; None: as the plan says.
            ttl: All about its time to live, in place of `ttl_ms`.

        Raises:
            InvalidSpec: Both are given.
        """
        return ValueDescriptor(codec=codec, **self._common(name, ttl_ms, ttl))

    def list(
        self, name: str, codec: Codec[Any], ttl_ms: int | None = None, ttl: TtlConfig | None = None
    ) -> ListDescriptor[Any]:
        """A list of elements a key."""
        return ListDescriptor(codec=codec, **self._common(name, ttl_ms, ttl))

    def map(
        self,
        name: str,
        key_codec: Codec[Any],
        codec: Codec[Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> MapDescriptor[Any, Any]:
        """A map a key."""
        return MapDescriptor(key_codec=key_codec, codec=codec, **self._common(name, ttl_ms, ttl))

    def sorted_map(
        self,
        name: str,
        key_codec: Codec[Any],
        codec: Codec[Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> SortedMapDescriptor[Any, Any]:
        """Lists of values by keys in order: `state.lexicographic` has codecs for these."""
        return SortedMapDescriptor(
            key_codec=key_codec, codec=codec, **self._common(name, ttl_ms, ttl)
        )

    def reducing(
        self,
        name: str,
        codec: Codec[Any],
        reduce: Callable[[Any, Any], Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> ReducingDescriptor[Any]:
        """One value a key, into which each added one is folded."""
        return ReducingDescriptor(codec=codec, reduce=reduce, **self._common(name, ttl_ms, ttl))

    def aggregating(
        self,
        name: str,
        codec: Codec[Any],
        aggregator: Aggregator[Any, Any, Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> AggregatingDescriptor[Any, Any, Any]:
        """One accumulator a key."""
        common = self._common(name, ttl_ms, ttl)
        return AggregatingDescriptor(codec=codec, aggregator=aggregator, **common)

    def multiset(
        self,
        name: str,
        codec: Codec[Any],
        match: MatchColumns[Any, Any] | None = None,
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> MultisetDescriptor[Any]:
        """A sequenced multiset of rows a key."""
        return MultisetDescriptor(codec=codec, match=match, **self._common(name, ttl_ms, ttl))

    def _common(self, name: str, ttl_ms: int | None, ttl: TtlConfig | None) -> dict[str, Any]:
        if ttl is None:
            ttl = self.ttl
            if ttl_ms is not None:
                ttl = TtlConfig(ttl_ms) if ttl_ms else DISABLED
        elif ttl_ms is not None:
            raise InvalidSpec(f"state {name!r} is given both ttl_ms and ttl")
        return {"name": name, "ttl": ttl, **self._spec.past_of(name)}
