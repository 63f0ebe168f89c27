"""Sorted map state against a naive model: a list of values with their stamps for each user key.

Heap and Redis go the same way in the same epochs; epochs end, or are dropped and run again from
what was closed. After each end everything that is stored is compared with the model: order, sizes,
stamps, the expiry index, and that nothing else is left.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from state.backends.interface import HashScan, LexRange, SortedRange
from state.descriptors import JSON, SortedMapDescriptor
from state.lexicographic import lexicographic_codec
from state.multiset.strategy import Thresholds
from state.primitives.layout import read_collection
from state.testing.sessions import PACKED, SPREAD
from state.testing.stand import heap_stand, redis_stand
from state.ttl import DISABLED, TtlConfig, UpdateType, Visibility, unstamped
from state.types import parse_type
from tests.state.primitives.epochs import GROUP, Epochs

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis


TTL_MS = 100
EVER = float("inf")
STATE = b"rows"
CODEC = lexicographic_codec([parse_type("STRING NOT NULL")])
USER_KEYS = [("",), ("a",), ("a\t",), ("ab",), ("b",), ("\U0001f600",)]
STORED_KEYS = [b'["k"]', b'["l"]']
LAYOUTS = [PACKED, SPREAD, Thresholds(high=4, low=2)]
TTLS = [
    DISABLED,
    TtlConfig(TTL_MS),
    TtlConfig(TTL_MS, update=UpdateType.ON_READ_AND_WRITE),
    TtlConfig(TTL_MS, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP),
]
_user_keys = st.sampled_from(USER_KEYS)
_values = st.one_of(st.integers(0, 3), st.sampled_from(["", "@1 x", "tab\there", "line\n"]))


BEGINNINGS = [0, 1_767_225_600_000]
"""Stamps of today's length take shorter ways than small numbers."""


class Model:
    """One key: stamped values by user key."""

    def __init__(self, ttl: TtlConfig) -> None:
        self.ttl = ttl
        self.has_ttl = ttl != DISABLED
        self.now_ms = 0
        self.held: dict[tuple[str], list[tuple[int, Any]]] = {}

    def add(self, user_key: tuple[str], value: Any) -> None:
        self.held.setdefault(user_key, []).append((self.now_ms, value))

    def put(self, user_key: tuple[str], values: list[Any]) -> None:
        self.held.pop(user_key, None)
        for each in values:
            self.add(user_key, each)

    def read_at(self, user_key: tuple[str]) -> list[Any]:
        """What a read of one user key shows; it removes and refreshes."""
        held = self.held.pop(user_key, [])
        live = [each for each in held if not self.is_expired(each[0])]
        if live:
            self.held[user_key] = live
        if self.ttl.update is UpdateType.ON_READ_AND_WRITE:
            live[:] = [(self.now_ms, value) for _, value in live]
        return [value for _, value in (held if self.ttl.shows_expired else live)]

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

    def clear(self, wanted: Callable[[tuple[str]], bool]) -> None:
        self.held = {each: held for each, held in self.held.items() if not wanted(each)}

    def clean_up(self) -> None:
        for user_key, held in [*self.held.items()]:
            self.put(user_key, [])
            live = [each for each in held if not self.is_expired(each[0])]
            if live:
                self.held[user_key] = live

    def is_expired(self, stamp_ms: int) -> bool:
        return self.has_ttl and stamp_ms + TTL_MS <= self.now_ms

    def stored(self) -> list[tuple[bytes, int | None, bytes]]:
        """Ordered key, stamp and JSON of each value, in order."""
        return [
            (CODEC.encode(user_key), stamp if self.has_ttl else None, JSON.encode(value))
            for user_key in sorted(self.held)
            for stamp, value in self.held[user_key]
        ]


def bounds(low: Any, high: Any, *, inclusive: bool) -> Callable[[tuple[str]], bool]:
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
        ttl=st.sampled_from(TTLS),
        begin_ms=st.sampled_from(BEGINNINGS),
    )
    def start(self, thresholds: Thresholds, ttl: TtlConfig, begin_ms: int = 0) -> None:
        self.all = self.worlds()
        self.rows: SortedMapDescriptor[Any, Any] = SortedMapDescriptor(
            name=STATE.decode(), key_codec=CODEC, codec=JSON, ttl=ttl, thresholds=thresholds
        )
        self.models = {each: Model(ttl) for each in STORED_KEYS}
        self.closed = copy.deepcopy(self.models)
        self.now_ms = begin_ms
        self.key = STORED_KEYS[0]
        self.begin()

    def begin(self) -> None:
        for each in self.all:
            each.begin(self.rows, self.now_ms)
        self.set_key(self.key)
        for model in self.models.values():
            model.now_ms = self.now_ms

    @property
    def model(self) -> Model:
        return self.models[self.key]

    def agree(self, name: str, expected: Any, *args: Any, **options: Any) -> None:
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
    def add(self, user_key: tuple[str], value: Any) -> None:
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
        for model in self.models.values():
            model.clean_up()
        for each in self.all:
            each.end()
            self.check(each)
        self.closed = copy.deepcopy(self.models)
        self.now_ms += later_ms
        self.begin()

    @rule()
    def drop_epoch(self) -> None:
        """The attempt died; another one runs the epoch from what is closed."""
        self.models = copy.deepcopy(self.closed)
        self.begin()

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
            stored = [tuple(each.split(b"\t", 1)) for each in lines]
            if header.is_spread:
                names.add(b"%b:%b:order" % (STATE, key))
                stored = self.check_spread(world, key, names)
                assert header.size == len(expected)
            found = [(each[0], *unstamped(each[1])) for each in stored]
            assert found == expected
            stamps = [stamp for _, stamp, _ in expected if stamp is not None]
            assert (key in dict(index)) == bool(stamps)
            if stamps:
                names.add(STATE + b":expiry")
                assert dict(index)[key] <= min(stamps)
                assert not header.is_spread or dict(index)[key] <= header.oldest_ms <= min(stamps)
        assert world.stored() == names

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


def run(machine: type[RuleBasedStateMachine]) -> None:
    case = machine.TestCase()
    case.settings = settings(
        deadline=None, stateful_step_count=40, suppress_health_check=list(HealthCheck)
    )
    case.runTest()


def test_heap_redis_and_model_agree(redis_client: redis.Redis) -> None:
    class Machine(SortedMachine):
        def worlds(self) -> list[Epochs]:
            redis_client.flushall()
            self.opened = redis_stand(redis_client)
            return [
                Epochs(heap_stand()),
                Epochs(self.opened.__enter__()),
            ]

        def teardown(self) -> None:
            if hasattr(self, "opened"):
                self.opened.__exit__(None, None, None)

    run(Machine)


@pytest.mark.parametrize("later_ms", [0, 1])
def test_the_machine_finds_a_model_that_is_wrong(later_ms: int) -> None:
    """It can fail: a model that forgets TTL by a millisecond does not pass."""

    class Machine(SortedMachine):
        def worlds(self) -> list[Epochs]:
            return [Epochs(heap_stand())]

    machine = Machine()
    machine.start(SPREAD, TTLS[1])
    machine.add(("a",), 1)
    machine.end_epoch(TTL_MS)
    for model in machine.models.values():
        model.now_ms -= later_ms
    if later_ms:
        with pytest.raises(AssertionError):
            machine.values_at(("a",))
    else:
        machine.values_at(("a",))
