"""Primitives of an operator, written by an epoch of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.descriptors import JSON, ListDescriptor, MapDescriptor, ValueDescriptor
from state.epochs import EpochLedger
from state.execution.sync import run_now
from state.key_groups import key_group
from state.primitives.session import StateSession
from state.registry import register_states
from state.ttl import TtlClock, TtlConfig
from state.types import parse_type
from tests.service.plans import OPERATOR
from tests.service.prepared import MAX_PARALLELISM

if TYPE_CHECKING:
    import redis

SEATS = MapDescriptor(name="seats", key_codec=JSON, codec=JSON)
CALLS = ListDescriptor(name="calls", codec=JSON)
LAST = ValueDescriptor(name="last", codec=JSON, ttl=TtlConfig(1_000))
KEY = "N1"


def write_states(client: redis.Redis, pipeline: str) -> None:
    """A map, a list, and a value that has long expired, for one key of the pipeline's operator."""
    ledger, backend = EpochLedger(client, pipeline), RedisBackend(client, pipeline)
    run = ledger.open_run([OPERATOR], MAX_PARALLELISM)
    seats, calls, last = register_states(ledger, OPERATOR, [SEATS, CALLS, LAST], TtlClock(0))
    stamp = EpochStamp(ledger.marker().epoch + 1, run, 5_000)
    group = key_group([parse_type("VARCHAR(10)")], [KEY], MAX_PARALLELISM)
    transaction = backend.begin(OPERATOR, stamp, [group])
    session = StateSession(transaction, clock=TtlClock(stamp.time_ms))
    session.set_key(b'["%b"]' % KEY.encode(), group)
    run_now(session.map(seats).put_all({"1A": None, "2B": {"taken": True}}), session)
    run_now(session.list(calls).add_all(["JFK", "LAX"]), session)
    run_now(session.value(last).update(7), session)
    transaction.commit(session.writes())
    ledger.close_epoch(stamp, {}, [])
    backend.close()
