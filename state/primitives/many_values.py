"""The values of many keys in one go: no cell a key.

An operator that does a whole epoch at once knows which keys it reads and what becomes of each. What
is stored of them is kept by key, and beside it what is to be stored. With a TTL that is so for
elements that live and have a stamp of the usual length: about any other a rule may have something
to say, so its key gets a cell. So does a key that somebody asks for by itself after all: for a
timer, at clean-up, or since its changes are left to be processed one by one. It is no more here
then.
"""

from __future__ import annotations

from functools import partial
from itertools import compress
from operator import ne
from typing import TYPE_CHECKING

from state.backends.interface import HashGet
from state.execution.requests import OneRead
from state.ttl import STAMP_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.execution.requests import Request
    from state.primitives.field_cell import FieldCell
    from state.primitives.value import FieldHandle
    from state.primitives.write_batch import WriteBatch


class ManyValues:
    """Values of one state, by key.

    Characteristics:
        loads   one field a key; shares a round trip with whatever is executed with it
        write   the fields that differ, in the order in which their keys were given; with TTL the
                entries of the expiry index of keys that are new or gone
    """

    __slots__ = ("_groups", "_handle", "_head", "_put", "_stored")

    def __init__(self, handle: FieldHandle, keys: Iterable[tuple[bytes, int]]) -> None:
        """Begin.

        Args:
            handle: Of the state; it has no cell. All that it writes has one stamp of the usual
                length, or no element of it has a stamp.
            keys: Stored keys with their key groups, each once.
        """
        self._handle = handle
        self._head = handle.stamp_text
        """What stands before the JSON of an element that is written now."""
        self._groups: dict[int, list[bytes]] = {}
        self._stored: dict[bytes, bytes | None] = {}
        self._put: dict[bytes, bytes | None] = {}
        for key, key_group in keys:
            group = self._groups.get(key_group)
            if group is None:
                group = self._groups[key_group] = []
            group.append(key)

    def __contains__(self, key: bytes) -> bool:
        """Whether a key is loaded, and has no cell."""
        return key in self._stored

    @property
    def keys(self) -> list[tuple[bytes, int]]:
        """All keys that are loaded and have no cell, with their key groups."""
        return [(key, group) for group, keys in self._groups.items() for key in keys if key in self]

    def loads(self) -> list[Request]:
        """Requests for all keys: one a key group."""
        state = self._handle.state
        return [
            OneRead(HashGet(each, state, keys), partial(self.take, each, keys))
            for each, keys in self._groups.items()
        ]

    def take(self, key_group: int, keys: Sequence[bytes], texts: Sequence[bytes | None]) -> None:
        """Have what is stored of some keys."""
        if self._head:
            # Few stamps are met in an epoch, each many times.
            heads = {text[:STAMP_SIZE] for text in texts if text is not None}
            others = {each for each in heads if not self._is_plain(each)}
            if others:
                is_plain = [text is None or text[:STAMP_SIZE] not in others for text in texts]
                for key, text, is_it in zip(keys, texts, is_plain, strict=True):
                    if not is_it:
                        self._handle.cell_of(key, key_group).load(text)
                keys, texts = [*compress(keys, is_plain)], [*compress(texts, is_plain)]
        self._stored.update(zip(keys, texts, strict=True))

    def _is_plain(self, head: bytes) -> bool:
        """Whether elements that begin so live, and are in the expiry index by no newer a stamp."""
        return self._handle.is_plain_head(head) and head <= self._head

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of loaded keys, as JSON; None: there is none."""
        texts = [*map(self._stored.__getitem__, keys)]
        if start := len(self._head):
            texts = [text and text[start:] for text in texts]
        if not self._put:
            return texts
        return [*map(self._put.get, keys, texts)]

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
            cell.put(None if json is None else (self._handle.stamp_ms, json))

    def write(self, batch: WriteBatch) -> None:
        """Give what differs from what is stored, and what the expiry index must be told."""
        if not self._put:
            return
        state, expiry, stamp_ms = self._handle.state, self._handle.expiry, self._handle.stamp_ms
        for key_group, keys in self._groups.items():
            puts: list[bytes] = []
            gone: list[bytes] = []
            for key, text in self._changed(keys):
                if text is None:
                    gone.append(key)
                else:
                    puts += (key, text)
            batch.put_all(key_group, state, puts)
            batch.delete_all(key_group, state, gone)
            if stamp_ms is not None:
                batch.unscore_all(key_group, expiry, gone)
                stored = self._stored
                scores: list[float | bytes] = []
                for key in puts[::2]:
                    if stored[key] is None:
                        scores += (stamp_ms, key)
                batch.score_all(key_group, expiry, scores)

    def _changed(self, keys: Sequence[bytes]) -> Iterable[tuple[bytes, bytes | None]]:
        """Those of the keys that are to hold something else, with its text."""
        put, head = self._put, self._head
        mine = [key for key in keys if key in put]
        texts = [*map(put.__getitem__, mine)]
        if head:
            texts = [text and head + text for text in texts]
        stored = map(self._stored.__getitem__, mine)
        return compress(zip(mine, texts, strict=True), map(ne, texts, stored))
