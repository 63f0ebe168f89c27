"""What value, list, map, reducing and aggregating state mean, told as plainly as can be.

Dictionaries and lists of elements with stamps; no layouts, no index, no cache, no epochs. Written
from Flink's rules (`TtlValueState` and its siblings), not from our handles, which are held to it.
"""

# ruff: noqa: D102 - a model's operations are those of the handles

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from state.ttl import DISABLED, TimeCharacteristic, TtlConfig, UpdateType, Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class Stamped:
    """An element and its stamp; None if it was written without a TTL."""

    value: object
    ms: int | None


@dataclass
class ModelTtl:
    """A TTL, and the time that it is."""

    config: TtlConfig = DISABLED
    enabled_ms: int | None = None
    now_ms: int = 0
    event_ms: int | None = None
    """Event time of the record, if it has one."""

    @property
    def stamp_ms(self) -> int:
        if self.config.time is TimeCharacteristic.PROCESSING or self.event_ms is None:
            return self.now_ms
        return self.event_ms

    @property
    def shows_expired(self) -> bool:
        return self.config.visibility is Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

    @property
    def reads_count(self) -> bool:
        return self.config.update is UpdateType.ON_READ_AND_WRITE

    def is_expired(self, element: Stamped) -> bool:
        if self.config.update is UpdateType.DISABLED:
            return False
        since = self.enabled_ms if element.ms is None else element.ms
        return since is not None and since + self.config.ttl_ms <= self.now_ms

    def write(self, value: object, old: Stamped | None = None) -> Stamped:
        if self.config.update is UpdateType.DISABLED:
            return Stamped(value, None)
        if self.config.update is UpdateType.ON_CREATE and old and not self.is_expired(old):
            return Stamped(value, self.enabled_ms if old.ms is None else old.ms)
        return Stamped(value, self.stamp_ms)

    def refreshed(self, element: Stamped) -> Stamped:
        """A live element behind a read that counts."""
        stamp_ms = self.stamp_ms if element.ms is None else max(element.ms, self.stamp_ms)
        return Stamped(element.value, stamp_ms)


@dataclass
class FieldModel:
    """Value state, and what the merging states have in common: an element a key."""

    ttl: ModelTtl
    held: dict[bytes, Stamped] = field(default_factory=dict)

    def elements(self) -> dict[bytes, list[Stamped]]:
        """All elements, by key."""
        return {key: [each] for key, each in self.held.items()}

    def clean(self) -> None:
        """Remove everything that is expired."""
        self.held = {k: each for k, each in self.held.items() if not self.ttl.is_expired(each)}

    def value(self, key: bytes) -> Any:
        element = self.held.get(key)
        if element is None:
            return None
        if self.ttl.is_expired(element):
            del self.held[key]
            return element.value if self.ttl.shows_expired else None
        if self.ttl.reads_count:
            element.ms = self.ttl.refreshed(element).ms
        return element.value

    def update(self, key: bytes, value: object) -> None:
        if value is None:
            self.held.pop(key, None)
        else:
            self.held[key] = self.ttl.write(value, self.held.get(key))

    def clear(self, key: bytes) -> None:
        self.held.pop(key, None)


@dataclass
class MergingModel(FieldModel):
    """Reducing and aggregating state."""

    start: Any = None  # as `fold`, of whatever is added up
    """The accumulator of no value; None where the first value is one."""
    fold: Callable[[Any, Any], Any] = lambda one, other: one + other
    merge: Callable[[Any, Any], Any] = lambda one, other: one + other
    show: Callable[[Any], Any] = lambda accumulator: accumulator

    def get(self, key: bytes) -> Any:
        accumulator = self.value(key)
        return None if accumulator is None else self.show(accumulator)

    def add(self, key: bytes, value: object) -> None:
        old = self.held.get(key)
        usable = old is not None and (self.ttl.shows_expired or not self.ttl.is_expired(old))
        base = old.value if usable and old else self.start
        self.held[key] = self.ttl.write(value if base is None else self.fold(base, value), old)

    def merge_namespaces(self, target: bytes, sources: Sequence[bytes]) -> None:
        if not any(each in self.held for each in sources):
            return
        found = [self.held.pop(each) for each in (target, *sources) if each in self.held]
        usable = [e.value for e in found if self.ttl.shows_expired or not self.ttl.is_expired(e)]
        if usable:
            merged = usable[0]
            for each in usable[1:]:
                merged = self.merge(merged, each)
            self.held[target] = self.ttl.write(merged)


@dataclass
class ListModel:
    """List state."""

    ttl: ModelTtl
    held: dict[bytes, list[Stamped]] = field(default_factory=dict)

    def elements(self) -> dict[bytes, list[Stamped]]:
        return self.held

    def clean(self) -> None:
        for key, elements in list(self.held.items()):
            self._set(key, [each for each in elements if not self.ttl.is_expired(each)])

    def get(self, key: bytes) -> Any:
        stored = self.held.get(key, [])
        live = [each for each in stored if not self.ttl.is_expired(each)]
        shown = [each.value for each in (stored if self.ttl.shows_expired else live)]
        if not live:
            self._set(key, [])
        elif self.ttl.reads_count:
            self._set(key, [self.ttl.refreshed(each) for each in live])
        return shown or None

    def add(self, key: bytes, value: object) -> None:
        self.add_all(key, [value])

    def add_all(self, key: bytes, values: list[Any]) -> None:
        self._set(key, self.held.get(key, []) + [self.ttl.write(each) for each in values])

    def update(self, key: bytes, values: list[Any]) -> None:
        self._set(key, [self.ttl.write(each) for each in values])

    def is_empty(self, key: bytes) -> bool:
        return key not in self.held

    def clear(self, key: bytes) -> None:
        self._set(key, [])

    def merge_namespaces(self, target: bytes, sources: Sequence[bytes]) -> None:
        for each in sources:
            self._set(target, self.held.get(target, []) + self.held.pop(each, []))

    def _set(self, key: bytes, elements: list[Stamped]) -> None:
        self.held.pop(key, None)
        if elements:
            self.held[key] = elements


@dataclass
class MapModel:
    """Map state with strings as user keys."""

    ttl: ModelTtl
    held: dict[bytes, dict[str, Stamped]] = field(default_factory=dict)

    def elements(self) -> dict[bytes, list[Stamped]]:
        return {key: [*entries.values()] for key, entries in self.held.items()}

    def clean(self) -> None:
        for key, entries in list(self.held.items()):
            for user_key, element in list(entries.items()):
                if self.ttl.is_expired(element):
                    self.remove(key, user_key)

    def get(self, key: bytes, user_key: str) -> Any:
        element = self._read(key, user_key)
        return None if element is None else element.value

    def contains(self, key: bytes, user_key: str) -> bool:
        return self._read(key, user_key) is not None

    def put(self, key: bytes, user_key: str, value: object) -> None:
        entries = self.held.setdefault(key, {})
        entries[user_key] = self.ttl.write(value, entries.get(user_key))

    def put_all(self, key: bytes, values: dict[str, Any]) -> None:
        for user_key, value in values.items():
            self.put(key, user_key, value)

    def remove(self, key: bytes, user_key: str) -> None:
        entries = self.held.get(key, {})
        entries.pop(user_key, None)
        if not entries:
            self.held.pop(key, None)

    def iterate(self, key: bytes, removed: Sequence[str], steps: int) -> list[tuple[str, Any]]:
        """At most so many entries, by user key; those named are removed as they come."""
        given: list[tuple[str, Any]] = []
        for user_key in sorted(self.held.get(key, {})):
            if len(given) == steps:
                break
            element = self._read(key, user_key)
            if element is not None:
                given.append((user_key, element.value))
                if user_key in removed:
                    self.remove(key, user_key)
        return given

    def entries(self, key: bytes) -> list[tuple[str, Any]]:
        return self.iterate(key, (), 1 << 30)

    def keys(self, key: bytes) -> list[str]:
        return [each for each, _ in self.entries(key)]

    def values(self, key: bytes) -> list[Any]:
        return [value for _, value in self.entries(key)]

    def is_empty(self, key: bytes) -> bool:
        return key not in self.held

    def clear(self, key: bytes) -> None:
        self.held.pop(key, None)

    def _read(self, key: bytes, user_key: str) -> Stamped | None:
        element = self.held.get(key, {}).get(user_key)
        if element is None:
            return None
        if self.ttl.is_expired(element):
            self.remove(key, user_key)
            return element if self.ttl.shows_expired else None
        if self.ttl.reads_count:
            element.ms = self.ttl.refreshed(element).ms
        return element
