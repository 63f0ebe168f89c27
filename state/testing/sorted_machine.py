"""Sorted map state against a naive model: a list of values with their stamps for each user key.

Heap and Redis go the same way in the same epochs; epochs end, or are dropped and run again from
what was closed. After each end everything that is stored is compared with the model: order, sizes,
stamps, the expiry index, and that nothing else is left.
"""

# ruff: noqa: D102 - rules are named as what they do, and so are the model's operations

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from state.backends.interface import HashScan, LexRange, SortedRange
from state.descriptors import JSON, SortedMapDescriptor
from state.lexicographic import lexicographic_codec
from state.multiset.strategy import Thresholds
from state.primitives.layout import own_stamps, read_collection
from state.testing.primitive_models import ModelTtl, Stamped
from state.testing.sessions import PACKED, SPREAD
from state.testing.sorted_epochs import GROUP, Epochs
from state.ttl import DISABLED, TtlConfig, UpdateType, Visibility, unstamped
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable

TTL_MS = 100
EVER = float("inf")
STATE = b"rows"
CODEC = lexicographic_codec([parse_type("STRING NOT NULL")])
USER_KEYS = [("",), ("a",), ("a\t",), ("ab",), ("b",), ("\U0001f600",)]
STORED_KEYS = [b'["k"]', b'["l"]']
LAYOUTS = [PACKED, SPREAD, Thresholds(high=4, low=2)]
TTLS = st.builds(
    TtlConfig,
    st.sampled_from([TTL_MS, TTL_MS * 2]),
    st.sampled_from([each for each in UpdateType if each is not UpdateType.DISABLED]),
    st.sampled_from(Visibility),
)
_user_keys = st.sampled_from(USER_KEYS)
_values = st.one_of(st.integers(0, 3), st.sampled_from(["", "@1 x", "tab\there", "line\n"]))


BEGINNINGS = [0, 1_767_225_600_000]
"""Stamps of today's length take shorter ways than small numbers."""


class Model:
    """One key: stamped values by user key."""

    def __init__(self, ttl: ModelTtl) -> None:
        self.ttl = ttl
        self.held: dict[tuple[str], list[Stamped]] = {}

    def add(self, user_key: tuple[str], value: object) -> None:
        self.held.setdefault(user_key, []).append(self.ttl.write(value))

    def put(self, user_key: tuple[str], values: list[Any]) -> None:
        self.held.pop(user_key, None)
        for each in values:
            self.add(user_key, each)

    def read_at(self, user_key: tuple[str]) -> list[Any]:
        """What a read of one user key shows; it removes and refreshes."""
        held = self.held.pop(user_key, [])
        live = [each for each in held if not self.ttl.is_expired(each)]
        shown = [each.value for each in (held if self.ttl.shows_expired else live)]
        if live:
            self.held[user_key] = live
        if self.ttl.reads_count:
            live[:] = [self.ttl.refreshed(each) for each in live]
        return shown

    def read(self, wanted: Callable[[tuple[str]], bool]) -> list[Any]:
        """A range, in order."""
        found = [(each, self.read_at(each)) for each in sorted(self.held) if wanted(each)]
        return [each for each in found if each[1]]

    def nearest(self, wanted: Callable[[tuple[str]], bool], *, reverse: bool) -> Any:
        """The first user key that shows anything."""
        for each in sorted(self.held, reverse=reverse):
            if wanted(each) and (values := self.read_at(each)):
                return each, values
        return None

    def take(self, user_key: tuple[str], value: object) -> Any:
        """Remove the first that is this value of those that a read shows."""
        held = self.held.get(user_key, [])
        live = [each for each in held if not self.ttl.is_expired(each)]
        shown = held if self.ttl.shows_expired else live
        found = next((each for each in shown if each.value == value), None)
        at = next((at for at, each in enumerate(live) if each is found), None)
        self.read_at(user_key)
        if at is not None:
            self.drop(user_key, at)
        return None if found is None else found.value

    def pop_last(self) -> Any:
        """Remove the last value, as a read of it alone shows it."""
        while self.held:
            user_key = max(self.held)
            last = self.drop(user_key, -1)
            if self.ttl.shows_expired or not self.ttl.is_expired(last):
                return last.value
        return None

    def replace(self, user_key: tuple[str], value: object, by: object) -> Any:
        """Write another value in the place of the first live one that is this."""
        held = self.held.get(user_key, [])
        was_live = any(each.value == value and not self.ttl.is_expired(each) for each in held)
        self.read_at(user_key)
        for at, each in enumerate(self.held.get(user_key, [])):
            if was_live and each.value == value:
                self.held[user_key][at] = self.ttl.write(by, each)
                return value
        return None

    def drop(self, user_key: tuple[str], at: int) -> Stamped:
        held = self.held[user_key]
        dropped = held.pop(at)
        if not held:
            del self.held[user_key]
        return dropped

    def clear(self, wanted: Callable[[tuple[str]], bool]) -> None:
        self.held = {each: held for each, held in self.held.items() if not wanted(each)}

    def clean_up(self) -> None:
        for user_key, held in [*self.held.items()]:
            self.put(user_key, [])
            live = [each for each in held if not self.ttl.is_expired(each)]
            if live:
                self.held[user_key] = live

    def stored(self) -> list[tuple[bytes, int | None, bytes]]:
        """Ordered key, stamp and JSON of each value, in order."""
        return [
            (CODEC.encode(user_key), each.ms, JSON.encode(each.value))
            for user_key in sorted(self.held)
            for each in self.held[user_key]
        ]


def bounds(
    low: tuple[str] | None, high: tuple[str] | None, *, inclusive: bool
) -> Callable[[tuple[str]], bool]:
    """Whether a user key lies between two, where None is no bound."""

    def wanted(each: tuple[str]) -> bool:
        above = low is None or each >= low
        return above and (high is None or each < high or (inclusive and each == high))

    return wanted


class SortedMachine(RuleBasedStateMachine):
    """Both backends in step, and the model."""

    def worlds(self) -> list[Epochs]:
        raise NotImplementedError

    @initialize(
        thresholds=st.sampled_from(LAYOUTS),
        config=TTLS | st.just(DISABLED),
        begin_ms=st.sampled_from(BEGINNINGS),
    )
    def start(self, thresholds: Thresholds, config: TtlConfig, begin_ms: int = 0) -> None:
        """Begin with empty state."""
        self.all = self.worlds()
        self.ttl = ModelTtl(config, now_ms=begin_ms)
        self.rows: SortedMapDescriptor[Any, Any] = SortedMapDescriptor(
            name=STATE.decode(), key_codec=CODEC, codec=JSON, thresholds=thresholds
        )
        self.register(config)
        self.models = {each: Model(self.ttl) for each in STORED_KEYS}
        self.closed = self.held()
        self.key = STORED_KEYS[0]
        self.begin()

    def register(self, config: TtlConfig) -> None:
        """Begin a run with this TTL."""
        asked = replace(self.rows, ttl=config, enabled_ms=None, is_stamped=False)
        for each in self.all:
            (self.rows,) = each.register(asked, self.ttl.now_ms)

    def held(self) -> dict[bytes, Any]:
        """What the models hold, apart from them."""
        return {key: copy.deepcopy(model.held) for key, model in self.models.items()}

    def begin(self) -> None:
        """Begin an epoch."""
        for each in self.all:
            each.begin(self.rows, self.ttl.now_ms)
        self.set_key(self.key)

    @property
    def model(self) -> Model:
        return self.models[self.key]

    def agree(self, name: str, expected: object, *args: object, **options: object) -> None:
        """Both give what the model gives."""
        for each in self.all:
            assert getattr(each.state, name)(*args, **options) == expected

    @rule(key=st.sampled_from(STORED_KEYS))
    def set_key(self, key: bytes) -> None:
        self.key = key
        for each in self.all:
            each.session.set_key(key, GROUP)

    @rule(key=st.sampled_from(STORED_KEYS))
    def prefetch(self, key: bytes) -> None:
        for each in self.all:
            each.session.prefetch([(self.rows, [(key, GROUP)])])

    @rule(user_key=_user_keys, value=_values)
    def add(self, user_key: tuple[str], value: object) -> None:
        self.model.add(user_key, value)
        self.agree("add", None, user_key, value)

    @rule(user_key=_user_keys, count=st.integers(15, 40))
    def add_many(self, user_key: tuple[str], count: int) -> None:
        """More than a look for an end takes at a time."""
        for at in range(count):
            self.add(user_key, at)

    @rule(user_key=_user_keys, values=st.lists(_values, max_size=4))
    def put(self, user_key: tuple[str], values: list[Any]) -> None:
        self.model.put(user_key, values)
        self.agree("put", None, user_key, values)

    @rule(user_key=_user_keys)
    def values_at(self, user_key: tuple[str]) -> None:
        self.agree("values_at", self.model.read_at(user_key) or None, user_key)

    @rule()
    def entries(self) -> None:
        self.agree("entries", self.model.read(lambda _: True))

    @rule(low=_user_keys, high=_user_keys, inclusive=st.booleans())
    def read_range(self, low: tuple[str], high: tuple[str], inclusive: bool) -> None:
        expected = self.model.read(bounds(low, high, inclusive=inclusive))
        self.agree("read_range", expected, low, high, inclusive_to=inclusive)

    @rule(high=_user_keys, inclusive=st.booleans())
    def read_range_until(self, high: tuple[str], inclusive: bool) -> None:
        expected = self.model.read(bounds(None, high, inclusive=inclusive))
        self.agree("read_range_until", expected, high, inclusive_to=inclusive)

    @rule(low=_user_keys)
    def read_range_from(self, low: tuple[str]) -> None:
        self.agree("read_range_from", self.model.read(bounds(low, None, inclusive=False)), low)

    @rule()
    def first_entry(self) -> None:
        self.agree("first_entry", self.model.nearest(lambda _: True, reverse=False))

    @rule()
    def last_entry(self) -> None:
        self.agree("last_entry", self.model.nearest(lambda _: True, reverse=True))

    @rule(high=_user_keys, inclusive=st.booleans())
    def last_entry_until(self, high: tuple[str], inclusive: bool) -> None:
        expected = self.model.nearest(bounds(None, high, inclusive=inclusive), reverse=True)
        self.agree("last_entry_until", expected, high, inclusive_to=inclusive)

    @rule(low=_user_keys, high=_user_keys, last=st.booleans())
    def entry_between(self, low: tuple[str], high: tuple[str], last: bool) -> None:
        expected = self.model.nearest(bounds(low, high, inclusive=False), reverse=last)
        self.agree("last_entry_between" if last else "first_entry_between", expected, low, high)

    @rule(looks=st.integers(0, 2))
    def know_for(self, looks: int) -> None:
        self.agree("know_for", None, looks)

    @rule(user_key=_user_keys, value=_values)
    def take(self, user_key: tuple[str], value: object) -> None:
        expected = self.model.take(user_key, value)
        for each in self.all:
            taken = each.state.take(user_key, value)
            assert (None if taken is None else taken.value) == expected

    @rule(user_key=_user_keys, value=_values, by=_values)
    def replace_where(self, user_key: tuple[str], value: object, by: object) -> None:
        expected = self.model.replace(user_key, value, by)
        for each in self.all:
            taken = each.state.replace_where(user_key, partial(eq, value), by)
            assert (None if taken is None else taken.value) == expected

    @rule()
    def pop_last(self) -> None:
        self.agree("pop_last", self.model.pop_last())

    @rule(low=_user_keys, high=_user_keys, inclusive=st.booleans())
    def clear_range(self, low: tuple[str], high: tuple[str], inclusive: bool) -> None:
        self.model.clear(bounds(low, high, inclusive=inclusive))
        self.agree("clear_range", None, low, high, inclusive_to=inclusive)

    @rule(high=_user_keys, inclusive=st.booleans())
    def clear_range_until(self, high: tuple[str], inclusive: bool) -> None:
        self.model.clear(bounds(None, high, inclusive=inclusive))
        self.agree("clear_range_until", None, high, inclusive_to=inclusive)

    @rule(low=_user_keys)
    def clear_range_from(self, low: tuple[str]) -> None:
        self.model.clear(bounds(low, None, inclusive=False))
        self.agree("clear_range_from", None, low)

    @rule(user_key=_user_keys)
    def clear_entry_at(self, user_key: tuple[str]) -> None:
        self.model.put(user_key, [])
        self.agree("clear_entry_at", None, user_key)

    @rule()
    def clear(self) -> None:
        self.model.clear(lambda _: True)
        self.agree("clear", None)

    @rule()
    def is_empty(self) -> None:
        self.agree("is_empty", not self.model.held)

    @rule(later_ms=st.lists(st.sampled_from([0, 1, 40, 60, 99]), min_size=1, max_size=3))
    def end_epochs(self, later_ms: list[int]) -> None:
        """End the epoch, and some after it in which nothing happens but clean-up."""
        for each in later_ms:
            self.end_epoch(each)

    @rule(user_keys=st.lists(_user_keys, min_size=2, max_size=6))
    def add_over_time(self, user_keys: list[tuple[str]]) -> None:
        """What is added in different epochs expires one by one."""
        for each in user_keys:
            self.add(each, 0)
            self.end_epoch(20)

    def end_epoch(self, later_ms: int) -> None:
        """Clean up, close the epoch, and look at all that is stored."""
        for model in self.models.values():
            model.clean_up()
        for each in self.all:
            each.end()
            self.check(each)
        self.closed = self.held()
        self.ttl.now_ms += later_ms
        self.begin()

    @rule()
    def drop_epoch(self) -> None:
        """The attempt died; another one runs the epoch from what is closed."""
        self.forget()
        self.begin()

    @rule()
    def lose_epoch(self) -> None:
        """It was committed and never closed; another run takes it back."""
        for each in self.all:
            each.lose()
        self.forget()
        self.begin()

    @rule(config=TTLS | st.just(DISABLED))
    def change_the_ttl(self, config: TtlConfig) -> None:
        """Another run begins, with another TTL or none."""
        self.end_epoch(0)
        if config.is_enabled and not self.ttl.config.is_enabled:
            self.ttl.enabled_ms = self.ttl.now_ms
        self.ttl.config = config
        for each in self.all:
            each.lose()
        self.register(config)
        self.begin()

    def forget(self) -> None:
        """Go back to what is closed."""
        for key, model in self.models.items():
            model.held = copy.deepcopy(self.closed[key])

    def check(self, world: Epochs) -> None:
        """What is stored is what the model holds, and nothing else is."""
        names = set()
        texts, index = world.read(
            HashScan(GROUP, STATE), SortedRange(GROUP, STATE + b":expiry", -EVER, EVER)
        )
        for key, model in self.models.items():
            expected = model.stored()
            assert (key in texts) == bool(expected)
            if not expected:
                assert key not in dict(index)
                continue
            names.add(STATE)
            header, lines = read_collection(texts[key])
            lines = own_stamps(header, lines, b"\t")
            stored = [tuple(each.split(b"\t", 1)) for each in lines]
            if header.is_spread:
                names.add(b"%b:%b:order" % (STATE, key))
                stored = self.check_spread(world, key, names)
                assert header.size == len(expected)
            found = [(each[0], *unstamped(each[1])) for each in stored]
            assert found == expected
            stamps = [stamp for _, stamp, _ in expected if stamp is not None]
            score_ms = dict(index).get(key)
            if score_ms is not None:
                # It may be of stamps that are gone: clean-up sets it right when it is due.
                names.add(STATE + b":expiry")
            if stamps:
                assert score_ms is not None
                bound = min(stamps) if header.oldest_ms is None else header.oldest_ms
                assert score_ms <= min(stamps)
                assert not header.is_spread or score_ms <= bound <= min(stamps)
        assert {each for each in world.stored() if not each.endswith(b":swept")} == names

    def check_spread(self, world: Epochs, key: bytes, names: set[bytes]) -> list[Any]:
        """Stamps are those of the members; keys and elements of these, in order."""
        name = b"%b:%b" % (STATE, key)
        members, stamps = world.read(
            LexRange(GROUP, name + b":order", b"-", b"+"),
            SortedRange(GROUP, name + b":stamps", -EVER, EVER),
        )
        parts = [each.split(b"\t", 2) for each in members]
        own = {b"\t".join(each[:2]): unstamped(each[2])[0] for each in parts}
        stamped = {place: stamp for place, stamp in own.items() if stamp is not None}
        assert dict(stamps) == stamped
        if stamped:
            names.add(name + b":stamps")
        return [(each[0], each[2]) for each in parts]
