"""The lease: the right to supervise pipelines, which one service on a Redis has at a time.

    tailrace:lease      text  the holder's token; it ends by Redis's own expiry, whatever clocks say
    tailrace:orders     set   names of pipelines of which something was asked; the holder takes them
    tailrace:statuses   hash  what the holder says that each pipeline does, for all other services
    tailrace:telling    text  the number of the holder's telling: see below

One call a beat does all there is to do, so that nothing of it is done without the lease. What the
holder notes in the registry is compared with the token in the transaction that writes it
(`registry_notes`); what reaches Spark or state is fenced by the run counter.

A token is of one **tenure**: a service that has lost the lease asks for it under another one, so
that what it has under way from the tenure before is as another service's to the next.

A beat of which nobody heard the reply may have been carried out, or may be later, behind others. So
from then on the holder's **telling** is another one, with a higher number: it says anew what all
pipelines do, and Redis does nothing for a beat of an earlier one.
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
TELLING = "tailrace:telling"
_SERVICE_LENGTH = 8

# KEYS lease, orders, statuses, telling; ARGV token, life in ms, number of the telling (0: of one
# that does not supervise, and takes the lease if it is free), then name and status by turns, "" for
# gone. Replies with holder, ms left, whether it began now, orders, statuses, whether all were kept.
# Renewed once a third of the life is over; before statuses are written, which a Redis that is full
# refuses. It lets a script go on that has written, so what was told of an earlier time goes before
# the lease is taken.
_BEAT = """
local function is_kept(reply) return type(reply) ~= 'table' or not reply.err end
local holder = redis.call('GET', KEYS[1])
local telling, told = tonumber(ARGV[3]), tonumber(redis.call('GET', KEYS[4]) or 0)
if not holder and telling == 0 then
  redis.call('DEL', KEYS[3], KEYS[4])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {ARGV[1], redis.call('PTTL', KEYS[1]), 1, {}, {}, 1}
end
local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[1] or telling < told then
  return {holder or '', left, 0, {}, redis.call('HGETALL', KEYS[3]), 1}
end
if left * 3 < ARGV[2] * 2 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = redis.call('PTTL', KEYS[1])
end
if telling == 0 then return {holder, left, 0, {}, {}, 1} end
local orders = redis.call('SMEMBERS', KEYS[2])
if #orders > 0 then redis.call('DEL', KEYS[2]) end
local kept = 1
if telling > told then
  redis.call('DEL', KEYS[3])
  if not is_kept(redis.pcall('SET', KEYS[4], telling)) then kept = 0 end
end
for i = 4, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[3], ARGV[i])
  elseif not is_kept(redis.pcall('HSET', KEYS[3], ARGV[i], ARGV[i + 1])) then kept = 0 end
end
return {holder, left, 0, orders, {}, kept}
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


@dataclass(frozen=True, slots=True)
class Beat:
    """What Redis said of the lease."""

    holder: str
    """The token under which it is held; "" where nobody has it."""
    remaining_ms: int
    """How long it lasts unless it is renewed."""
    begins: bool
    """Whether we have it from now on."""
    orders: frozenset[str] = frozenset()
    """Of the holder: pipelines to look at."""
    statuses: Mapping[str, bytes] = field(default_factory=dict)
    """Of all others: what the holder says, by pipeline."""
    are_kept: bool = True
    """Of the holder: whether Redis has kept all that it was told; one that is full does not."""


def service_of(token: str) -> str:
    """The name of the service that has a token."""
    return token[:_SERVICE_LENGTH]


class Lease:
    """One service's side of the lease. Its calls block.

    Args:
        client: Redis, with replies as bytes and a short time for each.
        life_ms: How long it lasts without a beat.
    """

    def __init__(self, client: redis.Redis, life_ms: int) -> None:
        self._redis = byte_client(client)
        self.life_ms = life_ms
        self.service = service_of(uuid.uuid4().hex)
        """Names this service, for as long as the process lives."""
        self.token = ""
        """Ours, in this tenure."""
        self.begin_tenure()

    def begin_tenure(self) -> None:
        """Ask for the lease under another token from now on."""
        self.token = self.service + uuid.uuid4().hex[_SERVICE_LENGTH:]

    def beat(self, statuses: Mapping[str, bytes], telling: int = 0) -> Beat:
        """Renew the lease if it is ours, else see who has it.

        Args:
            statuses: What changed since the beat before, for others to read; b"" of what is gone.
            telling: Which telling they are of, from 1; 0: of one that does not supervise yet. Such
                a beat takes the lease where it is free, and tells nothing.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        news = [part for pair in statuses.items() for part in pair]
        keys = (LEASE, ORDERS, STATUSES, TELLING)
        with translated():
            holder, left, begins, orders, shown, are_kept = self._redis.eval(
                _BEAT, len(keys), *keys, self.token, self.life_ms, telling, *news
            )
        names = frozenset(each.decode() for each in orders)
        pairs = zip(shown[::2], shown[1::2], strict=True)
        told = {name.decode(): status for name, status in pairs}
        return Beat(holder.decode(), left, bool(begins), names, told, bool(are_kept))

    def release(self) -> None:
        """Let the next service have it at once.

        Raises:
            RegistryUnavailable: Redis does not answer; it then ends by itself.
        """
        with translated():
            self._redis.eval(_RELEASE, 1, LEASE, self.token)
