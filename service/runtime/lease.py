"""The lease: the right to supervise pipelines, which one service on a Redis has at a time.

    tailrace:lease      text  the holder's token; it ends by Redis's own expiry, whatever clocks say
    tailrace:orders     set   names of pipelines of which something was asked; the holder takes them
    tailrace:statuses   hash  what the holder says that each pipeline does, for all other services

One call a beat does all there is to do, so that nothing of it is done without the lease. What the
holder notes in the registry is compared with the token in the transaction that writes it
(`registry_notes`); what reaches Spark or state is fenced by the run counter.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.runtime.transactions import translated
from state.backends.byte_client import byte_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    import redis

LEASE = "tailrace:lease"
ORDERS = "tailrace:orders"
STATUSES = "tailrace:statuses"

# KEYS lease, orders, statuses; ARGV token, life in ms, then name and status by turns, "" for gone.
# Replies with holder, ms left, whether it began now, orders, statuses. Renewed once a third of the
# life is over; before statuses are written, which a Redis that is full refuses. It lets a script
# go on that has written, so what was told of an earlier time goes before the lease is taken.
_BEAT = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {holder, redis.call('PTTL', KEYS[1]), 0, {}, redis.call('HGETALL', KEYS[3])}
end
local begins = 0
if not holder then
  redis.call('DEL', KEYS[3])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  begins = 1
elseif redis.call('PTTL', KEYS[1]) * 3 < ARGV[2] * 2 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local left = redis.call('PTTL', KEYS[1])
local orders = redis.call('SMEMBERS', KEYS[2])
if #orders > 0 then redis.call('DEL', KEYS[2]) end
for i = 3, begins == 0 and #ARGV or 0, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[3], ARGV[i])
  else redis.pcall('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
end
return {ARGV[1], left, begins, orders, {}}
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


@dataclass(frozen=True, slots=True)
class Beat:
    """What Redis said of the lease."""

    holder: str
    """The token of the service that has it."""
    remaining_ms: int
    """How long it lasts unless it is renewed."""
    begins: bool
    """Whether we have it from now on: somebody else may have had it in between."""
    orders: frozenset[str] = frozenset()
    """Of the holder: pipelines to look at."""
    statuses: Mapping[str, bytes] = field(default_factory=dict)
    """Of all others: what the holder says, by pipeline."""


class Lease:
    """One service's side of the lease. Its calls block.

    Args:
        client: Redis, with replies as bytes and a short time for each.
        life_ms: How long it lasts without a beat.
    """

    def __init__(self, client: redis.Redis, life_ms: int) -> None:
        self._redis = byte_client(client)
        self.life_ms = life_ms
        self.token = uuid.uuid4().hex
        """Ours, for as long as the process lives."""

    def beat(self, statuses: Mapping[str, bytes]) -> Beat:
        """Take the lease where it is free, renew it where it is ours, else see who has it.

        Args:
            statuses: What changed since the beat before, for others to read; b"" of what is gone.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        news = [part for pair in statuses.items() for part in pair]
        with translated():
            holder, left, begins, orders, shown = self._redis.eval(
                _BEAT, 3, LEASE, ORDERS, STATUSES, self.token, self.life_ms, *news
            )
        names = frozenset(each.decode() for each in orders)
        pairs = zip(shown[::2], shown[1::2], strict=True)
        told = {name.decode(): status for name, status in pairs}
        return Beat(holder.decode(), left, bool(begins), names, told)

    def release(self) -> None:
        """Let the next service have it at once.

        Raises:
            RegistryUnavailable: Redis does not answer; it then ends by itself.
        """
        with translated():
            self._redis.eval(_RELEASE, 1, LEASE, self.token)
