"""Where errors of an operator say that they happened."""

from __future__ import annotations

from typing import NamedTuple

from state.execution.key_accounting import hashed


class Site(NamedTuple):
    """An operator in an epoch."""

    operator: str
    node: str
    epoch: int

    def where(self, key: bytes | None = None) -> str:
        """This place, and the key as errors show it: hashed."""
        place = f"{self.operator}, node {self.node}, epoch {self.epoch}"
        return place if key is None else f"{place}, key {hashed(key)}"
