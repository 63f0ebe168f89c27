"""Typed reading of a plan's JSON objects, with the place and the reason where it fails.

Where Flink's JSON reader is lenient about a scalar (a number written as text, null for a number or
a flag) we are too, so that no plan is refused that Flink loads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from service.plan.errors import InvalidProperty
from service.plan.json_names import json_name

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, Sequence

_INTEGER = re.compile(r"\s*[-+]?[0-9]{1,10}\s*", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG = re.compile(r"\s*[-+]?[0-9]{1,19}\s*", re.ASCII)
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1

Chosen = TypeVar("Chosen", bound=str)


def pointer_token(key: str) -> str:
    """A key as it stands in a JSON pointer.

    >>> pointer_token("a/b~c")
    'a~1b~0c'
    """
    return key.replace("~", "~0").replace("/", "~1")


def objects_in(value: object) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value, itself included, in no order.

    >>> sorted(len(each) for each in objects_in([{"a": {}}, 1]))
    [0, 1]
    """
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, dict):
            yield part
            pending.extend(part.values())


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object of the document and its place."""

    value: Mapping[str, Any]
    path: str
    node_id: int | None = None

    @classmethod
    def of(cls, value: object, path: str, what: str, node_id: int | None = None) -> JsonObject:
        """The object at a place.

        Raises:
            InvalidProperty: It is no object; `what` says what it should have been.
        """
        if not isinstance(value, dict):
            raise InvalidProperty(
                f"{what} must be an object, not {json_name(value)}", path=path, node_id=node_id
            )
        return cls(value, path, node_id)

    def at(self, key: str) -> str:
        """The path of a property."""
        return f"{self.path}/{pointer_token(key)}"

    def has(self, key: str) -> bool:
        """Whether the property is there and not null."""
        return self.value.get(key) is not None

    def fail(self, key: str, message: str, hint: str = "") -> InvalidProperty:
        """The error about a property, to be raised."""
        return InvalidProperty(message, hint=hint, node_id=self.node_id, path=self.at(key))

    def object(self, key: str, what: str = "") -> JsonObject:
        """The object under a key."""
        self._require(key)
        return JsonObject.of(self.value[key], self.at(key), what or key, self.node_id)

    def items(self, key: str, *, is_optional: bool = False) -> Iterator[tuple[Any, str]]:
        """The entries of the list under a key, each with its path."""
        return iter(
            [
                (entry, f"{self.at(key)}/{index}")
                for index, entry in enumerate(self.list(key, is_optional=is_optional))
            ]
        )

    def objects(self, key: str, what: str, *, is_optional: bool = False) -> list[JsonObject]:
        """The objects of the list under a key; `what` says what each should have been."""
        return [
            JsonObject.of(entry, path, what, self.node_id)
            for entry, path in self.items(key, is_optional=is_optional)
        ]

    def inner(self, *keys: str) -> JsonObject:
        """The object at the end of these keys."""
        found = self
        for key in keys:
            found = found.object(key)
        return found

    def list(self, key: str, *, is_optional: bool = False) -> builtins.list[Any]:
        """The list under a key; empty where it is optional and missing or null."""
        if is_optional and not self.has(key):
            return []
        self._require(key)
        entries = self.value[key]
        if not isinstance(entries, list):
            raise self.fail(key, f"{key} must be a list, not {json_name(entries)}")
        return entries

    def text(self, key: str) -> str:
        """The text under a key; other scalars are taken as text."""
        self._require(key)
        scalar = self.value[key]
        match scalar:
            case str():
                return scalar
            case bool():
                return "true" if scalar else "false"
            case int() | float():
                return str(scalar)
            case _:
                raise self.fail(key, f"{key} must be a string, not {json_name(scalar)}")

    def texts(self, key: str) -> dict[str, str]:
        """The object of texts under a key; empty where it is missing."""
        if not self.has(key):
            return {}
        entries = self.object(key)
        return {name: entries.text(name) for name in entries.value}

    def integer(self, key: str, default: int | None = None) -> int:
        """The 32-bit integer under a key; the default where it is missing, null or "" ."""
        if default is not None and (not self.has(key) or self.value[key] == ""):
            return default
        self._require(key)
        return self._to_integer(self.value[key], key)

    def indexes(self, key: str) -> tuple[int, ...]:
        """The list of indexes from 0 under a key."""
        found = tuple(self._to_integer(entry, key) for entry in self.list(key))
        if any(index < 0 for index in found):
            raise self.fail(key, f"{key} must hold indexes, counted from 0")
        return found

    def integers(self, key: str, *, is_optional: bool = False) -> tuple[int, ...]:
        """The 32-bit integers of the list under a key; null and "" in it are 0, as in Flink."""
        return tuple(
            0 if entry in (None, "") else self._to_integer(entry, key)
            for entry in self.list(key, is_optional=is_optional)
        )

    def columns(self, key: str, count: int, *, is_optional: bool = False) -> tuple[int, ...]:
        """The list of columns of a row that has so many."""
        found = self.integers(key, is_optional=is_optional)
        for each in found:
            if not 0 <= each < count:
                raise self.fail(key, f"{key} names column {each} of a row with {count}")
        return found

    def column(self, key: str, count: int) -> int:
        """A column of a row that has so many; the first one where it is missing, as in Flink."""
        found = self.integer(key, default=0)
        if not 0 <= found < count:
            raise self.fail(key, f"{key} names column {found} of a row with {count}")
        return found

    def named_column(self, key: str, names: Sequence[str]) -> int:
        """The column of a row with these names whose name is under a key."""
        name = self.text(key)
        if name not in names:
            raise self.fail(key, f"{key} names {name!r}, which is no column of the row")
        return names.index(name)

    def long(self, key: str, default: int | None = None) -> int:
        """The 64-bit integer under a key; the default where it is missing or null."""
        if default is not None and not self.has(key):
            return default
        self._require(key)
        scalar = self.value[key]
        text = str(scalar) if isinstance(scalar, int | str) else ""
        if isinstance(scalar, bool) or not _LONG.fullmatch(text):
            raise self.fail(key, f"{key} must be an integer, not {json_name(scalar)}")
        if not _LONG_MIN <= int(text) <= _LONG_MAX:
            raise self.fail(key, f"{key} does not fit 64 bits")
        return int(text)

    def flag(self, key: str) -> bool:
        """The boolean under a key, or a number that is not 0; false where it is missing or null."""
        match self.value.get(key):
            case None:
                return False
            case int() as number:
                return number != 0
            case str() as text if text.strip().lower() in ("true", "false"):
                return text.strip().lower() == "true"
            case other:
                raise self.fail(key, f"{key} must be true or false, not {json_name(other)}")

    def choice(self, key: str, allowed: tuple[Chosen, ...], *, any_case: bool = False) -> Chosen:
        """The text under a key, one of a closed set; in capitals where its case is free."""
        text = self.text(key).upper() if any_case else self.text(key)
        for each in allowed:
            if each == text:
                return each
        raise self.fail(key, f"unknown {key} {text!r}", f"one of {', '.join(allowed)}")

    def _require(self, key: str) -> None:
        if not self.has(key):
            state = "null" if key in self.value else "missing"
            raise self.fail(key, f"{key} is {state}", "it is required")

    def _to_integer(
        self,
        scalar: Any,  # any JSON value: what is no scalar, or another one, is refused below
        key: str,
    ) -> int:
        number: int | None = None
        match scalar:
            case bool():
                pass
            case int():
                number = scalar
            case float() if abs(scalar) <= _INT_MAX:
                number = int(scalar)
            case str() if _INTEGER.fullmatch(scalar):
                number = int(scalar)
        if number is None or not _INT_MIN <= number <= _INT_MAX:
            raise self.fail(key, f"{key} must be an integer, not {json_name(scalar)}")
        return number
