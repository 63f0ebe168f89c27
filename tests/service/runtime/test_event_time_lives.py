"""Lives in event time count by the watermark of the operator, for whoever reads, saves or starts.

The operator's event time comes from the watermark assigner of node 2, which the marker knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from operators.wire import WATERMARKS
from service.runtime.inspection_errors import KeyExpired
from service.runtime.keeper_ports import PlannedStates
from service.runtime.key_text import KeyText
from service.runtime.query_starter import RedisLedgers
from service.runtime.state_inspection import StateInspector
from service.runtime.table_reader import SlotReader
from service.settings import RedisSettings
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.descriptors import JSON, ListDescriptor, ValueDescriptor
from state.epochs import EpochLedger
from state.execution.sync import run_now
from state.key_groups import key_group
from state.primitives.session import StateSession
from state.reader import CommittedReader
from state.savepoint import SaveOptions, StateSaver
from state.ttl import TimeCharacteristic, TtlClock, TtlConfig
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis
    from state.testing.redis_server import RedisServer

NODE = "3_process-table-function"
ASSIGNERS = ((("2", 0),),)
NOW_MS = 1_000_000
"""Of the wall clock, far behind every life below, were it the one that counts."""
BEFORE = ValueDescriptor(name="last", codec=JSON)
LAST = replace(BEFORE, ttl=TtlConfig(100, time=TimeCharacteristic.EVENT_BY_WATERMARK))
CALLS = ListDescriptor(name="calls", codec=JSON, ttl=TtlConfig(5_000))
KEYS = KeyText([parse_type("VARCHAR(10)")], ("tail",))
GROUPS = 4


class Stand:
    """An operator on a real Redis."""

    def __init__(self, server: RedisServer, client: redis.Redis) -> None:
        self.client = client
        self.ledger = EpochLedger(client, "p")
        self.ledgers = RedisLedgers(client, RedisSettings(url=server.url))
        self.backend = RedisBackend(client, "p")
        self.reader = CommittedReader(client, "p")
        self.inspector = StateInspector(
            self.reader,
            SlotReader(client, "p"),
            NODE,
            KEYS,
            GROUPS,
            descriptors=[LAST, CALLS],
            assigners=ASSIGNERS,
            clock=lambda: NOW_MS,
        )

    def open_run(self, *states: ValueDescriptor | ListDescriptor) -> tuple[int, list[int | None]]:
        """Begin a run with these; its number, and when the TTL of each was switched on."""
        run = self.ledgers.open_run("p", PlannedStates({NODE: states}, {NODE: ASSIGNERS}), GROUPS)
        return run.number, [each.enabled_ms for each in run.states[NODE]]

    def epoch(self, run: int, watermark_ms: int, key: str | None, *states: str) -> None:
        """An epoch of this watermark that writes some states of a key; the next one has another."""
        stamp = EpochStamp(self.ledger.marker().epoch + 1, run, NOW_MS)
        if key is not None:
            group = key_group([parse_type("VARCHAR(10)")], [key], GROUPS)
            transaction = self.backend.begin(NODE, stamp, [group])
            session = StateSession(transaction, clock=TtlClock(NOW_MS, watermark_ms))
            session.set_key(JSON.encode([key]), group)
            if "last" in states:
                run_now(session.value(LAST).update(7), session)
            if "calls" in states:
                run_now(session.list(CALLS).add_all(["JFK"]), session)
            transaction.commit(session.writes())
        held = {WATERMARKS: {"2": [watermark_ms, watermark_ms + 50]}}
        self.ledger.close_epoch(stamp, held, [])

    def keys(self, state: str | None) -> list[str]:
        """The keys that are listed, a page of one at a time."""
        part = self.inspector.list_keys(state, "", None, 1)
        found = list(part.items)
        while part.position is not None:
            part = self.inspector.list_keys(state, "", part.position, 1)
            found += part.items
        return sorted(each.key[0] for each in found)


@pytest.fixture
def stand(redis_server: RedisServer, redis_client: redis.Redis) -> Iterator[Stand]:
    made = Stand(redis_server, redis_client)
    yield made
    made.reader.close()
    made.backend.close()


def test_a_ttl_that_is_switched_on_begins_at_the_watermark(stand: Stand) -> None:
    run, _ = stand.open_run(BEFORE)
    stand.epoch(run, 600, None)

    assert stand.open_run(LAST)[1] == [600]
    assert stand.open_run(LAST)[1] == [600]


def test_what_is_past_its_life_by_the_watermark_is_not_shown(stand: Stand) -> None:
    run, _ = stand.open_run(LAST, CALLS)
    stand.epoch(run, 600, "N1", "last")
    assert stand.inspector.read("last", ["N1"], namespace="", after="", limit=1).content.elements

    stand.epoch(run, 699, None)
    assert stand.keys("last") == stand.keys(None) == ["N1"]
    stand.epoch(run, 700, None)

    assert stand.keys("last") == stand.keys(None) == []
    with pytest.raises(KeyExpired):
        stand.inspector.read("last", ["N1"], namespace="", after="", limit=1)
    with pytest.raises(KeyExpired):
        stand.inspector.read_all(["N1"], namespace="", limit=1)


def test_a_key_is_listed_once_by_the_first_state_in_which_it_lives(stand: Stand) -> None:
    run, _ = stand.open_run(LAST, CALLS)
    for key, states in (("N1", ("last", "calls")), ("N2", ("last",)), ("N3", ("calls",))):
        stand.epoch(run, 600, key, *states)
    assert stand.keys(None) == ["N1", "N2", "N3"]

    stand.epoch(run, 700, "N4", "last")

    assert stand.keys(None) == ["N1", "N3", "N4"]
    assert (stand.keys("last"), stand.keys("calls")) == (["N4"], ["N1", "N3"])


@pytest.mark.parametrize(("watermark_ms", "kept"), [(699, 1), (700, 0)])
def test_a_savepoint_leaves_out_what_is_past_its_life_by_the_watermark(
    stand: Stand, tmp_path: Path, watermark_ms: int, kept: int
) -> None:
    run, _ = stand.open_run(LAST)
    stand.epoch(run, 600, "N1", "last")
    saver = StateSaver(RedisTransport(stand.client), "p", {NODE: [LAST]}, GROUPS)
    options = SaveOptions(clock=TtlClock(NOW_MS), watermarks_ms={NODE: watermark_ms})

    manifest = saver.save("s", tmp_path, options)

    assert [each.keys for each in manifest.states] == [kept]
