"""Writes of one restore, as long as no other restore, run or drop of the pipeline has begun.

A restore takes long, and who makes it may be overtaken by another service, which makes it anew, and
lets a run begin. What the first one still sends must change nothing then: neither what is restored
nor what that run keeps. So all it writes goes in scripts that see the run counter first, as a drop
does; the restore has a number of that counter for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from state.backends.names import REGISTRY, RESTORING, slot_prefix
from state.backends.transport import checked
from state.errors import Fenced, SavepointTargetInUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.backends.transport import Command, Transport

# KEYS restoring, registry, marker, run; ARGV what is restored. Replies with the restore's number,
# and what an unfinished one left to be cleared, or nil where the pipeline has been started.
_BEGIN: Final = """
local unfinished = redis.call('GET', KEYS[1])
if redis.call('EXISTS', KEYS[3]) == 1 then return false end
if not unfinished and redis.call('EXISTS', KEYS[2]) == 1 then return false end
redis.call('SET', KEYS[1], ARGV[1])
return {redis.call('INCR', KEYS[4]), unfinished or ''}
"""
# KEYS run; ARGV the restore's number, then commands, each behind the number of its words.
_WRITE: Final = """#!lua flags=allow-cross-slot-keys
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local at = 2
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return 1
"""
_WORDS_MAX: Final = 4_000
"""Of a command: Lua gives no more than 8,000 values at a time."""


class RestoreFence:
    """A restore that has begun. Making one fences earlier ones, and runs, off.

    Args:
        transport: All goes through it.
        pipeline: What is restored into.
        told: What is restored, for who finds it unfinished.

    Raises:
        SavepointTargetInUse: The pipeline was started already.
        StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
    """

    def __init__(self, transport: Transport, pipeline: str, told: bytes) -> None:
        self._transport = transport
        prefix = slot_prefix(pipeline)
        self._counter = prefix + b"run"
        keys = (prefix + RESTORING, prefix + REGISTRY, prefix + b"marker", self._counter)
        begun = self._asked(("EVAL", _BEGIN, len(keys), *keys, told), is_repeatable=True)
        if begun is None:
            raise SavepointTargetInUse(
                f"{pipeline} was started already",
                hint="restore into a new pipeline, or delete this one first",
            )
        self.run, self.unfinished = int(begun[0]), bytes(begun[1])

    def write(self, commands: Sequence[Command] = (), *, is_repeatable: bool = True) -> None:
        """Carry out commands as one; none: see that the restore is still ours.

        Raises:
            Fenced: Another restore, a run or a drop has begun.
            StateUnavailable, StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        words = list[Any]()
        for command in commands:
            for part in _parts(command):
                words += (len(part), *part)
        asked = ("EVAL", _WRITE, 1, self._counter, self.run, *words)
        if not self._asked(asked, is_repeatable=is_repeatable):
            raise Fenced("another restore or run of the pipeline has begun")

    def _asked(self, command: Command, *, is_repeatable: bool) -> Any:
        """The reply of Redis, of whatever type it is."""
        return checked(self._transport.exchange([command], is_repeatable=is_repeatable))[0]


def _parts(command: Command) -> Iterator[Command]:
    """A command of pairs, or of values, as several ones that are not too long.

    >>> [len(each) for each in _parts(("HSET", "k", *range(9_000)))]
    [4002, 4002, 1002]
    """
    if len(command) <= _WORDS_MAX:
        yield command
        return
    name, key, *words = command
    for start in range(0, len(words), _WORDS_MAX):
        yield (name, key, *words[start : start + _WORDS_MAX])
