"""Processes in declared blocks: records in flight that can be kept as data and resumed.

A coroutine cannot be stored. A process that is declared as named blocks can: between two blocks,
all that it is is the name of the next one, the record, and a few variables. The same is true while
a block waits for its first request and that request was not executed: the block has done nothing
yet, so it can begin again. FLIP-425 drains faster before a checkpoint that way: only requests that
are under way are waited for, and the rest is kept.

    async def read(change, variables):      # one block; returns the name of the next one
        variables["count"] = await counts.get()
        return "write"

    async def write(change, variables):     # the last one returns None
        await counts.update(variables["count"] + 1)

    process = declare_process("count", read=read, write=write)

What a block must keep to: **nothing outside its variables is changed before its first request**
(nothing emitted, no state written); variables are JSON values. A variable changed before that is
taken back by itself.
"""

from __future__ import annotations

import json
import types
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from state.errors import FormatVersionMismatch, StateCorrupt
from state.execution.sync_point import SYNC_POINT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping

    Variables = dict[str, Any]
    Block = Callable[[Any, Variables], Coroutine[Any, None, str | None]]

R = TypeVar("R")

_HEADER = "kept"
_VERSION = 1


class Position(NamedTuple):
    """Where a declared process can be resumed."""

    process: str
    block: str
    variables: Mapping[str, Any]
    """As they were when the block began."""


class Resumable:
    """The first request of a block, and where to begin again if it is not executed."""

    __slots__ = ("position", "request")

    def __init__(
        self,
        request: Any,  # a read, or several: handed on to who drives the process
        position: Position,
    ) -> None:
        self.request = request
        self.position = position

    @property
    def reads(self) -> Any:
        """Those of the request, for whoever drives the process without a controller."""
        return self.request.reads

    def take(self, replies: object) -> None:
        """As the request."""
        self.request.take(replies)


class DeclaredProcess:
    """Named blocks, run one after the other: a process as the controller takes it."""

    __slots__ = ("_blocks", "first", "name")

    def __init__(self, name: str, blocks: Mapping[str, Block]) -> None:
        if not blocks:
            raise ValueError(f"process {name!r} has no block")
        self.name = name
        self._blocks = dict(blocks)
        self.first = next(iter(self._blocks))

    def __call__(self, record: object) -> Coroutine[Any, None, None]:
        """Begin with the first block."""
        return self._resume(record, self.first, {})

    def at(self, position: Position) -> Callable[[Any], Coroutine[Any, None, None]]:
        """The process that begins at a position.

        Raises:
            StateCorrupt: It has no such block.
        """
        if position.block not in self._blocks:
            raise StateCorrupt(
                f"process {self.name!r} has no block {position.block!r}",
                hint="resume with the version of the operator that declared it",
            )
        return partial(self._resume, block=position.block, variables=position.variables)

    def _resume(
        self, record: object, block: str, variables: Mapping[str, Any]
    ) -> Coroutine[Any, None, None]:
        return self._run(record, block, dict(variables))

    async def _run(self, record: object, block: str, variables: Variables) -> None:
        following: str | None = block
        while following is not None:
            position = Position(self.name, following, dict(variables))
            if following not in self._blocks:
                raise ValueError(f"process {self.name!r} has no block {following!r}")
            following = await _run_block(self._blocks[following](record, variables), position)


@types.coroutine
def _run_block(
    block: Coroutine[Any, None, str | None], position: Position
) -> Generator[Any, None, str | None]:
    """Drive a block; its first request carries the position, where it is one for state."""
    try:
        request = block.send(None)
        while request is SYNC_POINT:
            yield request
            request = block.send(None)
        yield Resumable(request, position)
        while True:
            yield block.send(None)
    except StopIteration as end:
        following: str | None = end.value
        return following
    finally:
        block.close()


def declare_process(name: str, **blocks: Block) -> DeclaredProcess:
    """Make a process of named blocks; the first one given is where it begins.

    Args:
        name: Stable, since kept records are stored with it.
        **blocks: `async def block(record, variables)`; returns the name of the next one, or None.
    """
    return DeclaredProcess(name, blocks)


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record that was in flight, as data. In a list of them, those of one key are in order."""

    record: object
    key: bytes
    key_group: int
    event_ms: int | None = None
    position: Position | None = None
    """Where to go on; None: it had not begun."""


def kept_to_text(kept: Iterable[KeptRecord], encode: Callable[[Any], str]) -> str:
    """Kept records as text: a header line, then a JSON array for each.

    Args:
        kept: What `Controller.keep` gave.
        encode: Writes a record.

    Raises:
        TypeError: A variable is no JSON value.
    """
    lines = [f"{_HEADER} {_VERSION}"]
    for each in kept:
        position = [*each.position] if each.position else None
        line = [each.key.decode(), each.key_group, each.event_ms, position, encode(each.record)]
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":"), sort_keys=True))
    return "\n".join(lines)


def kept_from_text(text: str, decode: Callable[[str], Any]) -> list[KeptRecord]:
    """The inverse of `kept_to_text`.

    Raises:
        FormatVersionMismatch: It was written by another version.
        StateCorrupt: It is not what we write.
    """
    header, *lines = text.split("\n")
    if header != f"{_HEADER} {_VERSION}":
        if header.startswith(f"{_HEADER} "):
            raise FormatVersionMismatch(
                f"kept records have format {header.removeprefix(_HEADER).strip()[:20]!r},"
                f" this version reads {_VERSION}",
                hint="resume with the version that kept them",
            )
        raise StateCorrupt("kept records begin with another header")
    return [_kept_of(number, line, decode) for number, line in enumerate(lines, 2)]


def _kept_of(number: int, line: str, decode: Callable[[str], Any]) -> KeptRecord:
    try:
        key, key_group, event_ms, position, record = json.loads(line)
        where = None if position is None else Position(*position)
        return KeptRecord(decode(record), key.encode(), int(key_group), event_ms, where)
    except (ValueError, TypeError, AttributeError) as error:
        raise StateCorrupt(f"line {number} of the kept records is none") from error
