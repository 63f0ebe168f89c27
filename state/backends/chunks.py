"""Writes on the way to Redis: checked, counted, and packed into items, chunks of commands first.

A chunk is a msgpack array of commands, each `[COMMAND, name, argument, ...]`:

    HSET name field value ...      HDEL name field ...       HINCRBY name field by
    ZADD name score member ...     ZREM name member ...      ZREMRANGEBYLEX name from to
    ZREMRANGEBYSCORE name from to
    XADD name max_length id [field, value, ...] ...          INCRBY name by      UNLINK name
    TAKE name number

A hash that replaces another one goes as it is where that pays: it is a *part* of the commit, a hash
of its own with a number, and TAKE gives it its name. So what is in it is never unpacked.

Values of HSET that are longer than 255 bytes are not in the chunk: `false` stands for each, and
they follow it in their order, an item each. So a long value is handed on, and never unpacked.

A command has at most 4,000 arguments, since Lua unpacks them on a stack of 8,000, and a chunk about
as many over all its commands. Byte strings are packed in msgpack's old raw type, which is the one
that Redis's Lua knows. `state/backends/tailrace.lua` reads them.
"""

from __future__ import annotations

import operator as op
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import msgpack
import orjson

from state.backends.interface import (
    CounterAdd,
    Drop,
    HashAdd,
    HashDelete,
    HashPut,
    HashReplace,
    LexRemove,
    ScoreRemove,
    SortedPut,
    SortedRemove,
    StreamAppend,
)
from state.backends.names import PARTS_MAX, is_reserved
from state.backends.rules import check_lex_bounds
from state.errors import InvariantViolation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.backends.interface import Write

ARGUMENTS_MAX = 4_000
CHUNK_BYTES_MAX = 64 * 1024 * 1024
"""A chunk that would be larger is split, while it holds more than one command or pair."""
INLINE_BYTES_MAX = 255
"""Longer values follow their chunk."""
PART_BYTES_MIN = 4 * 1024
"""A hash with less in it is no part: it is written field by field."""
INTEGER_MAX = 2**53
"""Beyond it a number of Lua is not exact."""

_Command = list[Any]


def check_write(write: Write) -> int:
    """See that a write can be carried out later, whatever is stored by then.

    Returns:
        How many fields, members or entries it writes.

    Raises:
        InvariantViolation: It is malformed, or its name is reserved.
    """
    if is_reserved(write.name) or not write.name:
        raise InvariantViolation(f"a write to the reserved name {write.name!r}")
    match write:
        case HashPut(_, pairs):
            _require(len(pairs) % 2 == 0, "a field without a value")
            return len(pairs) // 2
        case HashReplace(_, pairs):
            _require(len(pairs) % 2 == 0, "a field without a value")
            return max(len(pairs) // 2, 1)
        case SortedPut(_, pairs):
            _require(len(pairs) % 2 == 0, "a score without a member")
            # NaN alone differs from itself; Redis would refuse it when it is too late.
            scores = pairs[0::2]
            _require(not any(map(op.ne, scores, scores)), "a score that is NaN")
            return len(pairs) // 2
        case HashDelete(_, members) | SortedRemove(_, members):
            return len(members)
        case HashAdd(_, _, by) | CounterAdd(_, by):
            _require(abs(by) <= INTEGER_MAX, "a number beyond 2^53")
            return 1
        case StreamAppend(_, entries, max_length, entry_id):
            _require(max_length >= 1, "a stream without room")
            _require(entry_id is None or len(entries) == 1, "one id for several entries")
            _require(all(e and len(e) % 2 == 0 for e in entries), "an entry without pairs")
            return len(entries)
        case ScoreRemove(_, score_max):
            _require(abs(score_max) <= INTEGER_MAX, "a score beyond 2^53")
            return 1
        case LexRemove(_, minimum, maximum):
            check_lex_bounds(minimum, maximum)
            return 1
        case Drop():
            return 1
    raise InvariantViolation(f"no such write: {type(write).__name__}")


@dataclass(frozen=True, slots=True)
class PackedWrites:
    """Writes as they travel."""

    items: list[bytes]
    parts: list[Sequence[bytes]]
    """Fields and values of each part; the first one has number 1."""
    fields: int
    """How many fields, members or entries they write."""


def encode_commit(writes: Sequence[Write], *, parts_max: int = PARTS_MAX) -> PackedWrites:
    """Pack writes; writes that do nothing vanish.

    Args:
        writes: In their order.
        parts_max: How many parts there may be.

    Raises:
        InvariantViolation: A write is malformed.
    """
    items: list[bytes] = []
    parts: list[Sequence[bytes]] = []
    commands: list[_Command] = []
    fields = arguments = 0
    for write in writes:
        count = check_write(write)
        if not count:
            continue
        fields += count
        if isinstance(write, HashReplace) and len(parts) < parts_max and _is_long(write.pairs):
            parts.append(write.pairs)
            given = iter([[b"TAKE", write.name, len(parts)]])
        else:
            given = _commands(write)
        for command in given:
            if commands and arguments + len(command) > ARGUMENTS_MAX:
                items += _packed(commands)
                commands, arguments = [], 0
            commands.append(command)
            arguments += len(command)
    if commands:
        items += _packed(commands)
    return PackedWrites(items, parts, fields)


def encode_chunks(writes: Sequence[Write]) -> tuple[list[bytes], int]:
    """Pack writes without parts.

    Returns:
        The items, and how many fields, members or entries they write.

    Raises:
        InvariantViolation: A write is malformed.
    """
    packed = encode_commit(writes, parts_max=0)
    return packed.items, packed.fields


def _is_long(pairs: Sequence[bytes]) -> bool:
    # Mostly the first few are enough.
    return any(map(PART_BYTES_MIN.__le__, accumulate(map(len, pairs))))


def _commands(write: Write) -> Iterator[_Command]:
    match write:
        case HashPut(name, pairs):
            return _pieces(b"HSET", name, pairs)
        case HashReplace(name, pairs):
            return chain([[b"UNLINK", name]], _pieces(b"HSET", name, pairs))
        case HashDelete(name, fields):
            return _pieces(b"HDEL", name, fields)
        case HashAdd(name, field, by):
            return iter([[b"HINCRBY", name, field, b"%d" % by]])
        case SortedPut(name, scored):
            # Lua would format each number anew, with all digits of a double.
            flat: list[Any] = [*scored]
            flat[0::2] = _score_texts(flat[0::2])
            return _pieces(b"ZADD", name, flat)
        case SortedRemove(name, members):
            return _pieces(b"ZREM", name, members)
        case ScoreRemove(name, score_max):
            return iter([[b"ZREMRANGEBYSCORE", name, b"-inf", b"%d" % score_max]])
        case LexRemove(name, minimum, maximum):
            return iter([[b"ZREMRANGEBYLEX", name, minimum, maximum]])
        case Drop(name):
            return iter([[b"UNLINK", name]])
        case StreamAppend(name, entries, max_length, entry_id):
            # Entries that trimming would remove at once need not travel.
            head = [b"XADD", name, max_length, entry_id or b""]
            kept = [list(each) for each in entries[-max_length:]]
            step = ARGUMENTS_MAX // 8
            return iter([[*head, *kept[at : at + step]] for at in range(0, len(kept), step)])
        case CounterAdd(name, by):
            return iter([[b"INCRBY", name, b"%d" % by]])


def _score_texts(scores: list[float]) -> list[bytes]:
    """Scores in digits that give the same doubles."""
    texts = orjson.dumps(scores)[1:-1].split(b",")
    # It has no word for what is infinite.
    return [repr(each).encode() for each in scores] if b"null" in texts else texts


def _pieces(command: bytes, name: bytes, arguments: Sequence[Any]) -> Iterator[_Command]:
    for at in range(0, len(arguments), ARGUMENTS_MAX):
        yield [command, name, *arguments[at : at + ARGUMENTS_MAX]]


def _packed(commands: list[_Command]) -> list[bytes]:
    values: list[bytes] = []
    skeletons = [_without_long_values(each, values) for each in commands]
    chunk: bytes = msgpack.packb(skeletons, use_bin_type=False)
    if len(chunk) <= CHUNK_BYTES_MAX:
        return [chunk, *values]
    if len(commands) > 1:
        middle = len(commands) // 2
        return _packed(commands[:middle]) + _packed(commands[middle:])
    head, arguments = commands[0][:2], commands[0][2:]
    middle = len(arguments) // 4 * 2
    if head[0] == b"XADD" or middle == 0:
        return [chunk, *values]
    return _packed([head + arguments[:middle]]) + _packed([head + arguments[middle:]])


def _without_long_values(command: _Command, values: list[bytes]) -> _Command:
    """The command with `False` for each long value, which is appended to `values`."""
    if command[0] != b"HSET":
        return command
    lengths = [*map(len, command[3::2])]
    if max(lengths) <= INLINE_BYTES_MAX:
        return command
    short: _Command = list(command)
    if min(lengths) > INLINE_BYTES_MAX:
        values += command[3::2]
        short[3::2] = [False] * len(lengths)
        return short
    for place in range(3, len(command), 2):
        if len(command[place]) > INLINE_BYTES_MAX:
            values.append(command[place])
            short[place] = False
    return short


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantViolation(f"a write cannot be carried out: {otherwise}")
