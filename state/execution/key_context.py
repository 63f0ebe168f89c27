"""Whose key is current: what the controller tells the handles of state."""

from __future__ import annotations

from typing import Any, Protocol

NO_KEY = b""
NO_KEY_GROUP = -1
"""What is current before a record holds its key: a group that no transaction has, so that a process
which touches state too early fails."""


class KeyContext(Protocol):
    """Whose key is current: what the handles of a session act on. `StateSession` is one."""

    context: Any  # each kind of context has its own; a process only gives back what it was given
    """Key, namespace and event time as one value, taken when a process waits, given back after."""

    def set_key(self, key: bytes, key_group: int, *, event_ms: int | None = None) -> None:
        """Make a key current, with the empty namespace.

        Args:
            key: The key.
            key_group: Of the key.
            event_ms: Event time of the record, where it has one.
        """

    def set_namespace(self, namespace: bytes) -> None:
        """Make a namespace of the current key current."""
