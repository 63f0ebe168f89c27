"""Reads as Redis commands, and replies as what `fetch` promises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from state.backends.interface import (
    HashGet,
    HashKeys,
    HashLength,
    HashScan,
    LexCount,
    LexRange,
    SortedLength,
    SortedRange,
    SortedScores,
    SortedTop,
    StreamLength,
    StreamScan,
)
from state.backends.rules import check_lex_bounds

if TYPE_CHECKING:
    from state.backends.interface import Read
    from state.backends.transport import Command


def command_of(read: Read, prefix: bytes) -> Command | None:
    """The command of a read; None where nothing is asked for."""
    key = prefix + read.name
    match read:
        case HashGet(_, _, fields):
            return ("HMGET", key, *fields) if fields else None
        case HashScan():
            return ("HGETALL", key)
        case HashKeys():
            return ("HKEYS", key)
        case HashLength():
            return ("HLEN", key)
        case SortedTop(_, _, limit, score_max):
            if limit <= 0:
                return None
            if score_max == math.inf:
                return ("ZREVRANGE", key, 0, limit - 1, "WITHSCORES")
            return ("ZREVRANGEBYSCORE", key, score_max, "-inf", "WITHSCORES", "LIMIT", 0, limit)
        case SortedRange(_, _, minimum, maximum, limit_):
            command: Command = ("ZRANGEBYSCORE", key, minimum, maximum, "WITHSCORES")
            if limit_ is None:
                return command
            return (*command, "LIMIT", 0, limit_) if limit_ > 0 else None
        case SortedScores(_, _, members):
            return ("ZMSCORE", key, *members) if members else None
        case SortedLength():
            return ("ZCARD", key)
        case LexRange(_, _, lowest, highest, limit_, reverse):
            check_lex_bounds(lowest, highest)
            command = ("ZREVRANGEBYLEX", key, highest, lowest)
            if not reverse:
                command = ("ZRANGEBYLEX", key, lowest, highest)
            if limit_ is None:
                return command
            return (*command, "LIMIT", 0, limit_) if limit_ > 0 else None
        case LexCount(_, _, lowest, highest):
            check_lex_bounds(lowest, highest)
            return ("ZLEXCOUNT", key, lowest, highest)
        case StreamScan(_, _, after, limit):
            start = b"-" if after is None else b"(" + after
            return ("XRANGE", key, start, "+", "COUNT", limit) if limit > 0 else None
        case StreamLength():
            return ("XLEN", key)


def value_of(
    read: Read,
    reply: Any,  # what Redis replies depends on the read, by which each branch goes
) -> Any:
    """What `fetch` gives for a read; `reply` is None where there was no command."""
    match read:
        case HashScan():
            return dict(zip(reply[0::2], reply[1::2], strict=True))
        case SortedTop() | SortedRange():
            pairs = reply or ()
            return list(zip(pairs[0::2], map(float, pairs[1::2]), strict=True))
        case SortedScores():
            return [None if each is None else float(each) for each in reply or ()]
        case StreamScan():
            return [(entry_id, fields) for entry_id, fields in reply or ()]
        case HashGet() | LexRange():
            return reply or []
        case _:
            return reply
