"""Whatever TTLs the runs of an operator had, nothing is left once all is gone.

Runs follow each other with TTLs that are switched on and off, made longer and shorter, with lives
that are extended, and with histories that change their strategy and layout; on Redis a savepoint is
restored between two of them. What only a TTL needs (indexes of expiry, what remembers a walk,
timers) must go with what it was for, whichever run wrote it. Update types that no operator has are
driven by `state.testing.primitive_machine`, to the same end.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.changelog import RowKind
from operators.keyed import WATERMARK_MAX
from operators.testing.operator_harness import Of
from operators.upsert_materializer import MaterializerSpec
from state.multiset.strategy import Strategy
from state.savepoint import Expiry, SaveOptions
from state.ttl import TtlClock
from tests.operators.inputs import BEGAN_MS, epochs, live
from tests.operators.stage import GROUPS, NODE, Epoch, Stage
from tests.operators.table import TABLE
from tests.operators.test_every_operator import moved
from tests.state.savepoint.world import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from tests.operators.entries import AnySpec, Entry

EXAMPLES = max(4, min(200, settings().max_examples // 25))
"""Of an operator."""
LONG: Final = (0, 0, 1_000_000, 3_000_000)
"""TTLs that outlive all runs, or none."""
SHORT: Final = (0, 2, 4, 30)
"""TTLs that some rows outlive, or none."""
WITH_TIMERS: Final = ("ordered-over", "over-aggregate", "temporal-join")
"""Kinds whose keys go by timers alone, so that other laws of a TTL are not theirs."""
TAKEN_BACK = [each for each in TABLE if each.gone in ("rows", "keys")]
EXPIRING = [each for each in TABLE if each.has_ttl or each.kind in WITH_TIMERS]
ON_REDIS = [
    each
    for each in TAKEN_BACK
    if each.kind in (MaterializerSpec.KIND, "lag-lead")
    or each.name in ("join: full, none", "rank: retract", "group-aggregate: bundles")
]
BY_TIMERS_ON_REDIS = [each for each in TABLE if each.kind in WITH_TIMERS]


def law(entries: Sequence[Entry]) -> Callable[[Any], Any]:
    """A test of these operators, with a few examples each."""

    def wrap(test: Any) -> Any:
        run = settings(
            max_examples=EXAMPLES,
            suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        )(given(data=st.data())(test))
        return pytest.mark.parametrize("entry", entries, ids=lambda each: each.name)(run)

    return wrap


class Runs:
    """Runs of one operator that follow each other on the same state, each with a TTL of its own.

    Args:
        entry: The operator.
        data: Draws the runs.
        ttls: The TTLs that they may have, in ms; 0 for none.
        client: Where the state is; None: in this process.
    """

    def __init__(
        self,
        entry: Entry,
        data: st.DataObject,
        ttls: Sequence[int],
        client: redis.Redis | None = None,
    ) -> None:
        self._entry, self._data, self._ttls, self._client = entry, data, ttls, client
        self._extension_ms = 0
        self._opened = ExitStack()
        self._is_moved = False
        spec = self._spec(data.draw(st.sampled_from(ttls), label="ttl"))
        self._stage = Stage.on_heap(spec) if client is None else Stage.on_redis(spec, client)
        self._opened.callback(self._stage.close)

    def run(self, given_epochs: Sequence[Epoch]) -> None:
        """Run these epochs, some of them in a run that begins with them."""
        for epoch in given_epochs:
            if self._data.draw(st.booleans(), label="restart"):
                self._extension_ms += self._data.draw(st.sampled_from([0, 0, 7]), label="extended")
                self.restart(self._data.draw(st.sampled_from(self._ttls), label="ttl"))
            self._stage.run(epoch)

    def restart(self, ttl_ms: int) -> None:
        """Begin another run."""
        restores = self._client is not None and self._stage.epoch > 0 and not self._is_moved
        if restores and self._data.draw(st.booleans(), label="restore"):
            self._move()
        self._stage.restart(self._spec(ttl_ms))

    def idle(self, *at_ms: int) -> None:
        """Run epochs without a change, behind all watermarks."""
        watermark_ms = WATERMARK_MAX if self._entry.watermarks else None
        for each in at_ms:
            self._stage.run(Epoch((), each, watermark_ms))

    def left(self) -> set[bytes]:
        """The names of all that is stored, but for counters, which are for ever."""
        if self._client is None:
            names = {name for _, name in self._stage.stored()}
        else:
            self._stage.ledger.promote_all([NODE], self._stage.groups)
            pipeline = "moved" if self._is_moved else "stage"
            held = dump(self._client, pipeline)
            names = {name.partition(b"}:")[2] or name for name in held}
        self._opened.close()
        return {each for each in names if each not in (b"counters", b"orphans")}

    def _spec(self, ttl_ms: int) -> AnySpec:
        """The operator with this TTL, and with any layout of histories, where it has a choice."""
        entry, draw = self._entry, self._data.draw
        ttls: dict[str, Any] = {"ttl_ms": (ttl_ms,) * entry.inputs} if ttl_ms else {}
        if entry.kind == "temporal-join":
            ttls = {"retention_ms": ttl_ms}
        spec = entry.make(ttl_extension_ms=self._extension_ms, **ttls)
        if not isinstance(spec, MaterializerSpec):
            return spec
        return replace(
            spec,
            strategy=draw(st.sampled_from(Strategy), label="strategy"),
            high=draw(st.integers(2, 3), label="high"),
            emit_expired=draw(st.booleans(), label="emits expired"),
        )

    def _move(self) -> None:
        """Go on with what a savepoint restores, in another number of key groups."""
        assert self._client is not None
        stage, spec = self._stage, self._stage.spec
        groups = self._data.draw(st.sampled_from([1, GROUPS, 7]), label="key groups")
        options = None
        if self._data.draw(st.booleans(), label="without what has expired"):
            clock = TtlClock(stage.now_ms, stage.watermark_ms, spec.ttl_extension_ms)
            expiry = Expiry.ENTRY
            if isinstance(spec, MaterializerSpec) and spec.strategy is Strategy.LEGACY:
                expiry = Expiry.WHOLE
            if isinstance(spec, MaterializerSpec) and spec.emit_expired:
                expiry = Expiry.EMITTED
            options = SaveOptions(clock, expiry={NODE: expiry})
        self._stage = moved(stage, self._client, groups, options)
        self._opened.callback(self._stage.close)
        self._is_moved = True


def drawn(entry: Entry, data: st.DataObject) -> list[Epoch]:
    """Epochs of an entry."""
    return data.draw(epochs(entry.changes, watermarks=entry.watermarks), label="epochs")


def ends_ms(given_epochs: Sequence[Epoch]) -> int:
    """A time behind these epochs."""
    return given_epochs[-1].time_ms + 1 if given_epochs else BEGAN_MS


def taken_back(entry: Entry, given_epochs: Sequence[Epoch], data: st.DataObject) -> list[Epoch]:
    """Two epochs that take back what these epochs leave."""
    came = [each for epoch in given_epochs for each in epoch.changes]
    by_key = [Of(0, each.change.with_kind(RowKind.DELETE)) for each in came]
    back = data.draw(st.permutations(by_key if entry.gone == "keys" else live(came)), label="back")
    half, at_ms = len(back) // 2, ends_ms(given_epochs)
    return [Epoch(tuple(back[:half]), at_ms), Epoch(tuple(back[half:]), at_ms + 1)]


@law(TAKEN_BACK)
def test_what_is_taken_back_leaves_nothing(entry: Entry, data: st.DataObject) -> None:
    given_epochs = drawn(entry, data)
    given_epochs += taken_back(entry, given_epochs, data)
    runs = Runs(entry, data, LONG)
    runs.run(given_epochs)
    end_ms = ends_ms(given_epochs)
    runs.idle(end_ms, end_ms + 1, end_ms + 2)
    assert runs.left() <= entry.left


@law(EXPIRING)
def test_what_has_expired_leaves_nothing(entry: Entry, data: st.DataObject) -> None:
    given_epochs = drawn(entry, data)
    runs = Runs(entry, data, SHORT)
    runs.run(given_epochs)
    runs.restart(5)
    end_ms = ends_ms(given_epochs)
    runs.idle(end_ms + 1_000, end_ms + 2_000, end_ms + 3_000, end_ms + 4_000)
    assert runs.left() <= entry.left


@law(ON_REDIS)
def test_on_redis_no_key_is_left_though_a_savepoint_was_restored(
    redis_client: redis.Redis, entry: Entry, data: st.DataObject
) -> None:
    redis_client.flushall()
    given_epochs = drawn(entry, data)
    given_epochs += taken_back(entry, given_epochs, data)
    runs = Runs(entry, data, LONG, redis_client)
    runs.run(given_epochs)
    end_ms = ends_ms(given_epochs)
    runs.idle(end_ms, end_ms + 1, end_ms + 2)
    assert runs.left() == set()


@law([*ON_REDIS, *BY_TIMERS_ON_REDIS])
def test_on_redis_no_key_of_what_has_expired_is_left_though_a_savepoint_was_restored(
    redis_client: redis.Redis, entry: Entry, data: st.DataObject
) -> None:
    redis_client.flushall()
    given_epochs = drawn(entry, data)
    runs = Runs(entry, data, SHORT, redis_client)
    runs.run(given_epochs)
    runs.restart(5)
    end_ms = ends_ms(given_epochs)
    runs.idle(end_ms + 1_000, end_ms + 2_000, end_ms + 3_000, end_ms + 4_000)
    assert runs.left() == set()
