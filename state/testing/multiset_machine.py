"""The multiset against a plain list: any operations, epochs, layouts, times to live and restarts.

Each result is compared at once. Whenever an epoch has been closed, what is stored is read past the
handle and must be what the model holds, with an index, an order and stamps that say so, and no name
beside. At the end everything is cleared, and nothing is left.
"""

# ruff: noqa: D102 - rules are named as what they do

from __future__ import annotations

import copy
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)

from state.descriptors import JSON
from state.execution.sync import run_now
from state.multiset.strategy import Thresholds
from state.registry import register_states
from state.testing.multiset_model import MultisetModel
from state.testing.multisets import ON_KEY, Committed, multiset
from state.testing.sessions import PACKED, SPREAD, SessionStand
from state.testing.stand import NODE
from state.ttl import (
    DISABLED,
    Cleanup,
    TimeCharacteristic,
    TtlClock,
    TtlConfig,
    UpdateType,
    Visibility,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from state.testing.stand import Stand

KEYS = [b'["a"]', b'["b"]']
TTL_MS = 10
# Few keys, so that rows match; some longer than what an index field holds as it is.
ROWS = st.tuples(st.sampled_from(["p", "q", "r", "long " * 9]), st.integers(0, 2)).map(list)
TTLS = st.builds(
    TtlConfig,
    st.sampled_from([TTL_MS, TTL_MS * 2]),
    st.sampled_from([each for each in UpdateType if each is not UpdateType.DISABLED]),
    st.sampled_from(Visibility),
    st.sampled_from([TimeCharacteristic.PROCESSING, TimeCharacteristic.EVENT_BY_PROCESSING]),
    cleanup=st.just(Cleanup(by_timer=True)),
)
PASSED = st.sampled_from([0, 1, TTL_MS // 2, TTL_MS - 1, TTL_MS, TTL_MS * 2])
# A block has sixteen numbers: with 40 some histories have several, and migrate with them.
THRESHOLDS = st.sampled_from(
    [PACKED, SPREAD, SPREAD, Thresholds(high=4, low=2), Thresholds(high=40, low=20)]
)
OPERATIONS = st.one_of(
    *(st.tuples(st.just(name), ROWS) for name in ("add", "append", "remove", "remove", "find")),
    *(st.tuples(st.just(name), st.integers(-1, 60)) for name in ("entry_before", "entry_after")),
    *(st.tuples(st.just(n)) for n in ("first", "last", "entries", "size", "is_empty", "clear")),
)


class MultisetMachine(RuleBasedStateMachine):
    """Handles against models, epoch after epoch, on the stand that a subclass opens."""

    open_stand: Callable[[], AbstractContextManager[Stand]]

    @initialize(
        ttl=TTLS | st.just(DISABLED),
        thresholds=THRESHOLDS,
        on_key=st.booleans(),
        is_local=st.booleans(),
        fills=st.lists(st.tuples(st.integers(0, 60), PASSED), max_size=3),
    )
    def begin(
        self,
        ttl: TtlConfig,
        thresholds: Thresholds,
        on_key: bool,
        is_local: bool,
        fills: list[tuple[int, int]],
    ) -> None:
        self.closing = ExitStack()
        self.stand = self.closing.enter_context(type(self).open_stand())
        self.sessions = SessionStand(self.stand, thresholds=thresholds, is_local=is_local)
        self.now_ms = 1000
        match: Callable[[Any], Any] = (lambda row: row[0]) if on_key else (lambda row: row)
        self.models = {key: MultisetModel(match) for key in KEYS}
        self.descriptor = multiset(ttl, match=ON_KEY if on_key else None)
        self.register()
        self.committed = copy.deepcopy(self.models)
        # Histories of several blocks, of different ages: the rules alone seldom get that far.
        for count, passed_ms in fills:
            self.many(KEYS[0], count, "append", 0)
            self.close_epoch(passed_ms, cleans=False)

    def register(self) -> None:
        clock = TtlClock(self.now_ms, self.now_ms)
        (self.descriptor,) = register_states(self.stand.ledger, NODE, [self.descriptor], clock)
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self.session = self.sessions.begin(TtlClock(self.now_ms, self.now_ms))
        self.handle = self.session.multiset(self.descriptor)
        for model in self.models.values():
            model.config, model.now_ms = self.descriptor.ttl, self.now_ms

    @rule(
        key=st.sampled_from(KEYS),
        operations=st.lists(OPERATIONS, min_size=1, max_size=8),
        late_ms=st.none() | st.integers(0, TTL_MS),
    )
    def operate(self, key: bytes, operations: list[Any], late_ms: int | None) -> None:
        event_ms = None if late_ms is None else self.now_ms - late_ms
        self.models[key].event_ms = event_ms
        for name, *given in operations:
            self.session.set_key(key, 0, event_ms=event_ms)
            found = run_now(getattr(self.handle, name)(*given), self.session)
            assert found == getattr(self.models[key], name)(*given), name

    @rule(
        key=st.sampled_from(KEYS),
        count=st.integers(1, 50),
        name=st.sampled_from(["append", "append", "remove"]),
        column=st.integers(0, 5),
    )
    def many(self, key: bytes, count: int, name: str, column: int) -> None:
        """Enough of them to fill blocks, or to empty them from either end or the middle."""
        self.operate(key, [(name, [f"{(each + column) % 9}", 0]) for each in range(count)], None)

    @rule(
        key=st.sampled_from(KEYS), count=st.integers(1, 40), name=st.sampled_from(["first", "last"])
    )
    def take_from_an_end(self, key: bytes, count: int, name: str) -> None:
        """Remove what stands at an end, as a queue or a stack does."""
        for _ in range(count):
            shown = getattr(self.models[key], name)()
            self.session.set_key(key, 0)
            self.models[key].event_ms = None
            assert run_now(getattr(self.handle, name)(), self.session) == shown
            if shown is None:
                break
            self.operate(key, [("remove", shown.row)], None)

    @rule(passed_ms=PASSED, cleans=st.booleans())
    def close_epoch(self, passed_ms: int, cleans: bool) -> None:
        if cleans:
            self.session.clean_up((0,))
            self.clean_models()
        self.check_writes_do_not_change()
        self.sessions.end(self.session)
        self.committed = copy.deepcopy(self.models)
        self.check_stored()
        self.now_ms += passed_ms
        self.begin_epoch()

    @rule(change=st.sampled_from(["lost", "lost", "other TTL", "no TTL"]), ttl=TTLS)
    def restart(self, change: str, ttl: TtlConfig) -> None:
        """The epoch is lost; perhaps the TTL is another one afterwards."""
        self.models = copy.deepcopy(self.committed)
        self.sessions.reopen()
        if change != "lost":
            kept = ttl if change == "other TTL" else DISABLED
            self.descriptor = replace(self.descriptor, ttl=kept, enabled_ms=None, is_stamped=False)
        self.register()

    def clean_models(self) -> None:
        for key, model in self.models.items():
            # Where TTL was switched on, a key that no run with a TTL touched is in no index, and
            # is visited once all that was there is expired.
            if key in self.handle.cells or self.descriptor.enabled_ms is None:
                model.drop_expired()

    def check_writes_do_not_change(self) -> None:
        assert self.session.writes() == self.session.writes()

    def check_stored(self) -> None:
        stored = Committed(self.sessions, self.descriptor)
        expected = {
            key: [(each.sequence, each.ms, JSON.encode(each.row)) for each in model.held]
            for key, model in self.models.items()
            if model.held
        }
        assert stored.histories == expected
        assert stored.following == {key: self.models[key].following for key in expected}
        self.check_expiry(stored)
        self.check_layouts(stored)
        names = {each for each in self.sessions.names() if not each.endswith(b":swept")}
        assert names == stored.names

    def check_expiry(self, stored: Committed) -> None:
        """The index holds each key with a TTL, never later than it has something to expire."""
        for key, lines in stored.histories.items():
            oldest_ms = min(ms for _, ms, _ in lines)
            assert stored.expiry.get(key, -1) <= oldest_ms
            enabled_ms = self.descriptor.enabled_ms
            if self.descriptor.may_have_stamps and enabled_ms is None:
                assert key in stored.expiry
        assert stored.expiry.keys() <= stored.histories.keys()

    def check_layouts(self, stored: Committed) -> None:
        thresholds = self.handle.thresholds
        for key, lines in stored.histories.items():
            size, layout = len(lines), stored.layouts[key]
            assert layout == "packed" if size <= thresholds.low else True
            assert layout == "spread" if size >= thresholds.high else True

    def teardown(self) -> None:
        if not hasattr(self, "models"):
            return
        with self.closing:
            for key in KEYS:
                self.operate(key, [("clear",), ("append", ["p", 1]), ("remove", ["p", 1])], None)
            # What remembers a walk goes once the walk would be due again and finds nothing.
            self.close_epoch(10 * TTL_MS, cleans=True)
            self.close_epoch(0, cleans=True)
            self.close_epoch(0, cleans=True)
            assert self.sessions.names() == []
