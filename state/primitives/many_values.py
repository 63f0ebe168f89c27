"""The values of many keys in one go: no cell a key.

An operator that does a whole epoch at once knows which keys it reads and what becomes of each. What
is stored of them is kept by key, and what is to be stored beside it. Only for states without
stamps: a TTL is about each element.

A key that somebody asks for by itself after all, for a timer, or since its changes are left to be
processed one by one, gets a cell and is no more here.
"""

from __future__ import annotations

from itertools import compress
from operator import ne
from typing import TYPE_CHECKING, Any

from state.backends.interface import HashGet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.execution.requests import Request
    from state.primitives.value import FieldCell
    from state.primitives.write_batch import WriteBatch


class ManyValues:
    """Values of one state without stamps, by key.

    Characteristics:
        loads   one field a key; shares a round trip with whatever is executed with it
        write   the fields that differ, in the order in which their keys were given
    """

    __slots__ = ("_groups", "_put", "_state", "_stored")

    def __init__(self, state: bytes, keys: Iterable[tuple[bytes, int]]) -> None:
        """Begin.

        Args:
            state: The name of its hash.
            keys: Stored keys with their key groups, each once.
        """
        self._state = state
        self._groups: dict[int, list[bytes]] = {}
        self._stored: dict[bytes, bytes | None] = {}
        self._put: dict[bytes, bytes | None] = {}
        for key, key_group in keys:
            group = self._groups.get(key_group)
            if group is None:
                group = self._groups[key_group] = []
            group.append(key)

    def __len__(self) -> int:
        """How many keys are loaded."""
        return len(self._stored)

    def loads(self) -> list[Request]:
        """Requests for all keys: one a key group."""
        return [_Loads(self, each, self._state, keys) for each, keys in self._groups.items()]

    def take(self, keys: Sequence[bytes], texts: Sequence[bytes | None]) -> None:
        """Have what is stored of some keys."""
        self._stored.update(zip(keys, texts, strict=True))

    def read(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The values of loaded keys, as JSON; None: there is none."""
        if not self._put:
            return [*map(self._stored.__getitem__, keys)]
        stored, put = self._stored, self._put
        return [put[key] if key in put else stored[key] for key in keys]

    def put(self, keys: Iterable[bytes], jsons: Iterable[bytes | None]) -> None:
        """Set the values of loaded keys; None removes one."""
        self._put.update(zip(keys, jsons, strict=True))

    def hand_over(self, cell: FieldCell) -> None:
        """Let a cell that knows nothing yet have what is known of its key, if that is here."""
        key = cell.key
        if key not in self._stored:
            return
        cell.load(self._stored.pop(key))
        if key in self._put:
            json = self._put.pop(key)
            cell.put(None if json is None else (None, json))

    def write(self, batch: WriteBatch) -> None:
        """Give what differs from what is stored."""
        if not self._put:
            return
        for key_group, keys in self._groups.items():
            puts: list[bytes] = []
            for key, text in self._changed(keys):
                if text is None:
                    batch.delete(key_group, self._state, key)
                else:
                    puts += (key, text)
            batch.put_all(key_group, self._state, puts)

    def _changed(self, keys: Sequence[bytes]) -> Iterable[tuple[bytes, bytes | None]]:
        """Those of the keys that are to hold something else, with what that is."""
        put = self._put
        mine = [key for key in keys if key in put]
        texts = [*map(put.__getitem__, mine)]
        stored = map(self._stored.__getitem__, mine)
        return compress(zip(mine, texts, strict=True), map(ne, texts, stored))


class _Loads:
    """The request for the values of one key group."""

    __slots__ = ("_keys", "_values", "reads")

    def __init__(
        self, values: ManyValues, key_group: int, state: bytes, keys: Sequence[bytes]
    ) -> None:
        self._values = values
        self._keys = keys
        self.reads = (HashGet(key_group, state, keys),)

    def take(self, replies: Sequence[Any]) -> None:
        """Have them."""
        self._values.take(self._keys, replies[0])
