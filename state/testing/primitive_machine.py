"""A Hypothesis machine that drives all primitives and their models side by side.

Operations come in any order, several to an epoch; epochs end with or without clean-up; the TTL is
switched on, off and over between runs. Each result is compared at once. Whenever an epoch has been
closed, what is stored is read past the handles and must be what the models hold: every element
with its stamp, a layout that fits the size, an index entry for each key with stamps and no other,
and no name besides.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from state.backends.interface import HashScan, SortedRange
from state.descriptors import (
    JSON,
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    ReducingDescriptor,
    ValueDescriptor,
)
from state.execution.sync import run_now
from state.multiset.strategy import Thresholds
from state.primitives.session import stored_key
from state.registry import register_states
from state.testing.primitive_models import (
    FieldModel,
    ListModel,
    MapModel,
    MergingModel,
    ModelTtl,
    Stamped,
)
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

    from state.descriptors import StateDescriptor
    from state.primitives.maps import MapHandle
    from state.primitives.session import StateSession
    from state.testing.stand import Stand

TTL_MS = 10
KEY = b'["a"]'
NAMESPACES = st.sampled_from([b"", b"", b"", b"[1]"])
VALUES = st.integers(0, 9)
PASSED = st.sampled_from([0, 1, TTL_MS // 2, TTL_MS - 1, TTL_MS, -1, -TTL_MS // 2])
"""The time of an epoch may be before that of the one before."""
LATE = st.sampled_from([None, None, 0, 1, TTL_MS - 1, TTL_MS, 3 * TTL_MS, -1])
"""How much older than now the event time of a record is, if it has one."""
USER_KEYS = st.sampled_from("uvwxy")
TTLS = st.builds(
    TtlConfig,
    st.sampled_from([TTL_MS, TTL_MS * 2]),
    st.sampled_from([each for each in UpdateType if each is not UpdateType.DISABLED]),
    st.sampled_from(Visibility),
    st.sampled_from([TimeCharacteristic.PROCESSING, TimeCharacteristic.EVENT_BY_PROCESSING]),
    cleanup=st.just(Cleanup(by_timer=True)),
)
BEGINNINGS = [100_000, 1_767_225_600_000]
"""Stamps of today's length take shorter ways than small numbers."""
RESTARTS = st.sampled_from(["lost", "lost", "other TTL", "no TTL"])
THRESHOLDS = st.sampled_from([Thresholds(high=4, low=2), PACKED, SPREAD])


def _operations(*named: tuple[Any, ...]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    """Names of operations, each with its arguments."""
    return st.one_of(*(st.tuples(st.just(name), st.tuples(*given)) for name, *given in named))


_MERGING = _operations(("get",), ("add", VALUES), ("add", VALUES), ("clear",))
OPERATIONS = {
    "value": _operations(
        ("value",), ("update", VALUES | st.none()), ("update", VALUES), ("clear",)
    ),
    "reducing": _MERGING,
    "aggregating": _MERGING,
    "list": _operations(
        ("get",),
        ("add", VALUES),
        ("add_all", st.lists(VALUES, max_size=5)),
        ("update", st.lists(VALUES, max_size=5)),
        ("is_empty",),
        ("clear",),
    ),
    "map": _operations(
        ("get", USER_KEYS),
        ("contains", USER_KEYS),
        ("put", USER_KEYS, VALUES | st.none()),
        ("put_all", st.dictionaries(USER_KEYS, VALUES, max_size=4)),
        ("remove", USER_KEYS),
        ("iterate", st.lists(USER_KEYS, max_size=3), st.integers(0, 6)),
        ("entries",),
        ("keys",),
        ("values",),
        ("is_empty",),
        ("clear",),
    ),
}


class _Text:
    """A sum from 3 on, shown as text."""

    def create_accumulator(self) -> int:
        return 3

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> str:
        return str(accumulator)

    def merge(self, one: int, other: int) -> int:
        return one + other


def _descriptors() -> list[StateDescriptor]:
    return [
        ValueDescriptor(name="value", codec=JSON),
        ListDescriptor(name="list", codec=JSON),
        MapDescriptor(name="map", key_codec=JSON, codec=JSON),
        ReducingDescriptor(name="reducing", codec=JSON, reduce=lambda one, other: one + other),
        AggregatingDescriptor(name="aggregating", codec=JSON, aggregator=_Text()),
    ]


def _models(ttl: ModelTtl) -> dict[str, Any]:
    return {
        "value": FieldModel(ttl),
        "list": ListModel(ttl),
        "map": MapModel(ttl),
        "reducing": MergingModel(ttl),
        "aggregating": MergingModel(ttl, start=3, show=str),
    }


async def _iterate(handle: MapHandle[str, Any], removed: list[str], steps: int) -> Any:
    """The counterpart of the model's operation of this name."""
    given: list[Any] = []
    iterator = await handle.iterator()
    while len(given) < steps:
        entry = next(iterator, None)
        if entry is None:
            break
        given.append(entry)
        if entry[0] in removed:
            iterator.remove()
    return given


class PrimitiveMachine(RuleBasedStateMachine):
    """Handles against models, epoch after epoch, on the stand that a subclass opens."""

    open_stand: Callable[[], AbstractContextManager[Stand]]

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._stand = self._stack.enter_context(type(self).open_stand())

    @initialize(
        ttl=TTLS | st.just(DISABLED),
        thresholds=THRESHOLDS,
        kinds=st.lists(st.sampled_from([*OPERATIONS]), min_size=2, max_size=2),
        begin_ms=st.sampled_from(BEGINNINGS),
    )
    def begin(
        self, ttl: TtlConfig, thresholds: Thresholds, kinds: list[str], begin_ms: int
    ) -> None:
        """Begin with empty state; one or two kinds are driven, so that they come to old age."""
        self._kinds = kinds
        self._thresholds = thresholds
        self._ttl = ModelTtl(ttl, now_ms=begin_ms)
        self._models = _models(self._ttl)
        self._sessions = SessionStand(self._stand, thresholds=thresholds)
        self._descriptors = _descriptors()
        self._register(ttl)
        self._begin_epoch()

    @rule(data=st.data(), epochs=st.lists(PASSED, min_size=3, max_size=8))
    def run_epochs(self, data: st.DataObject, epochs: list[int]) -> None:
        """A few operations an epoch, and time that passes after each."""
        for passed_ms in epochs:
            for kind in data.draw(st.lists(st.sampled_from(self._kinds), min_size=1, max_size=6)):
                namespace = data.draw(NAMESPACES, "namespace")
                self._be_late(data.draw(LATE, "late"))
                self._operate(kind, *data.draw(OPERATIONS[kind], kind), namespace)
            self._next_epoch(passed_ms)

    @rule(passed_ms=PASSED, cleans=st.booleans())
    def next_epoch(self, passed_ms: int, cleans: bool) -> None:
        """Close the epoch, with or without a clean-up."""
        if cleans:
            self._clean()
        self._next_epoch(passed_ms)

    @precondition(lambda self: not {*self._kinds} <= {"value", "map"})
    @rule(flip=st.booleans())
    def merge(self, flip: bool) -> None:
        """Merge one of the namespaces into the other."""
        kind = next(each for each in self._kinds if each not in ("value", "map"))
        target, source = (b"", b"[1]") if flip else (b"[1]", b"")
        self._be_late(None)
        self._session.set_key(KEY, 0)
        self._models[kind].merge_namespaces(stored_key(KEY, target), [stored_key(KEY, source)])

        run_now(self._handles[kind].merge_namespaces(target, [source]), self._session)

    @rule(data=st.data(), restart=RESTARTS, ttl=TTLS)
    def begin_another_run(self, data: st.DataObject, restart: str, ttl: TtlConfig) -> None:
        """Begin another run, with another TTL or before an epoch was closed, which is lost."""
        if restart == "lost":
            for kind in self._kinds:
                self._operate(kind, *data.draw(OPERATIONS[kind], kind), b"")
            self._lose_the_epoch()
        else:
            self._change_the_ttl(ttl if restart == "other TTL" else DISABLED)
        self._begin_epoch()

    def teardown(self) -> None:
        """Let everything go, and see that nothing is left."""
        if hasattr(self, "_sessions"):
            for _ in range(2):
                self._ttl.now_ms += 10 * TTL_MS
                self._session.clock = TtlClock(self._ttl.now_ms)
                if not self._ttl.config.is_enabled:
                    self._clear_all()
                self._clean()
                self._end_epoch()
                self._begin_epoch()
            assert self._sessions.names() == []
        self._stack.close()

    def _be_late(self, late_ms: int | None) -> None:
        self._ttl.event_ms = None if late_ms is None else self._ttl.now_ms - late_ms

    def _operate(self, kind: str, name: str, arguments: tuple[Any, ...], namespace: bytes) -> None:
        """One operation on both; the results are equal."""
        handle = self._handles[kind]
        self._session.set_key(KEY, 0, event_ms=self._ttl.event_ms)
        self._session.set_namespace(namespace)
        expected = getattr(self._models[kind], name)(stored_key(KEY, namespace), *arguments)
        operation = _iterate if name == "iterate" else getattr(type(handle), name)

        assert run_now(operation(handle, *arguments), self._session) == expected

    def _lose_the_epoch(self) -> None:
        now_ms, config, enabled_ms = self._ttl.now_ms, self._ttl.config, self._ttl.enabled_ms
        self._sessions.commit_only(self._session.writes())
        self._sessions.reopen()
        self._ttl = ModelTtl(config, enabled_ms, now_ms)
        self._models = _copied(self._closed, self._ttl)

    def _change_the_ttl(self, ttl: TtlConfig) -> None:
        self._end_epoch()
        self._sessions.reopen()
        if ttl.is_enabled and not self._ttl.config.is_enabled:
            self._ttl.enabled_ms = self._ttl.now_ms
        self._ttl.config = ttl
        self._register(ttl)

    def _next_epoch(self, passed_ms: int) -> None:
        self._end_epoch()
        self._ttl.now_ms += passed_ms
        self._begin_epoch()

    def _register(self, ttl: TtlConfig) -> None:
        asked = [replace(each, ttl=ttl) for each in self._descriptors]
        clock = TtlClock(self._ttl.now_ms)
        self._descriptors = register_states(self._stand.ledger, NODE, asked, clock)

    def _begin_epoch(self) -> None:
        self._closed = _copied(self._models, self._ttl)
        self._session: StateSession = self._sessions.begin(TtlClock(self._ttl.now_ms))
        self._handles: dict[str, Any] = {
            each.kind: getattr(self._session, each.kind)(each) for each in self._descriptors
        }

    def _end_epoch(self) -> None:
        """Close the epoch; what is stored then is what the models hold."""
        self._sessions.end(self._session)
        check_stored(self._sessions, self._models, self._thresholds)

    def _clean(self) -> None:
        self._session.clean_up((0,))
        for each in self._models.values():
            each.clean()

    def _clear_all(self) -> None:
        for kind, model in self._models.items():
            for key in list(model.elements()):
                base, _, namespace = key.partition(b"\t")
                self._session.set_key(base, 0)
                self._session.set_namespace(namespace)
                run_now(self._handles[kind].clear(), self._session)
                model.clear(key)


def check_stored(sessions: SessionStand, models: dict[str, Any], thresholds: Thresholds) -> None:
    """What is stored is what the models hold, in a layout that fits, and nothing besides."""
    names: set[bytes] = set()
    for kind, model in models.items():
        names |= _check_state(sessions, kind, model.elements(), thresholds)
    swept = {b"%b:swept" % kind.encode() for kind in models}
    assert set(sessions.names()) - swept == names


def _check_state(
    sessions: SessionStand, kind: str, held: dict[bytes, list[Stamped]], thresholds: Thresholds
) -> set[bytes]:
    """Check one state; the names that it must have."""
    state = kind.encode()
    main, index = sessions.fetch(
        HashScan(0, state), SortedRange(0, state + b":expiry", -1, float("inf"))
    )
    assert main.keys() == held.keys()
    names = {name for name, content in ((state, main), (state + b":expiry", index)) if content}
    bounds = {}
    for key, text in main.items():
        if text.startswith(b"spread"):
            bounds[key] = _check_spread(sessions, state, key, text, held[key], thresholds, names)
        else:
            stored = _packed(kind, text) if kind in ("list", "map") else [text]
            assert sorted(stored) == sorted(map(_text, held[key]))
            assert len(stored) < thresholds.high or kind not in ("list", "map")
            bounds[key] = min((e.ms for e in held[key] if e.ms is not None), default=None)
    stamped = {key: ms for key, ms in bounds.items() if ms is not None}
    # A score may be older than what the key holds now: clean-up sets it right when it is due.
    assert dict(index).keys() == stamped.keys()
    assert all(score <= stamped[key] for key, score in index)
    return names


def _packed(kind: str, text: bytes) -> list[bytes]:
    """The elements of a packed collection; where all have stamps, the oldest is stored once."""
    first, *lines = text.split(b"\n")
    elements = [line.partition(b"\t")[2] if kind == "map" else line for line in lines]
    _, version, *numbers = first.split(b"\t")
    assert int(numbers[0]) == len(elements)
    if version == b"3":
        assert any(not each.startswith(b"@") for each in elements)
        return elements
    _, _, oldest, own = numbers
    assert int(own) == sum(each.startswith(b"@") for each in elements) < len(elements)
    stamps = [int(each[1:].split(b" ")[0]) for each in elements if each.startswith(b"@")]
    assert all(each > int(oldest) for each in stamps)
    return [each if each.startswith(b"@") else b"@%b %b" % (oldest, each) for each in elements]


def _check_spread(
    sessions: SessionStand,
    state: bytes,
    key: bytes,
    header: bytes,
    held: list[Stamped],
    thresholds: Thresholds,
    names: set[bytes],
) -> int | None:
    """Check a spread collection; the bound that the index must have."""
    rows_name, stamps_name = (b"%b:%b:%b" % (state, key, each) for each in (b"rows", b"stamps"))
    rows, stamps = sessions.fetch(
        HashScan(0, rows_name), SortedRange(0, stamps_name, -1, float("inf"))
    )
    _, _, size, _, oldest = header.split(b"\t")
    assert int(size) == len(rows) == len(held) > thresholds.low
    assert sorted(rows.values()) == sorted(map(_text, held))
    stamped_rows = {field: text for field, text in rows.items() if text.startswith(b"@")}
    assert dict(stamps) == {f: float(text[1:].split(b" ")[0]) for f, text in stamped_rows.items()}
    names |= {rows_name, stamps_name} if stamps else {rows_name}
    if oldest == b"-":
        assert not stamps
        return None
    assert not stamps or int(oldest) <= stamps[0][1]
    return int(oldest)


def _text(element: Stamped) -> bytes:
    json = JSON.encode(element.value)
    return json if element.ms is None else b"@%d %b" % (element.ms, json)


def _copied(models: dict[str, Any], ttl: ModelTtl) -> dict[str, Any]:
    """The models with what they hold, apart from it."""
    copies = _models(ttl)
    for kind, each in models.items():
        copies[kind].held = copy.deepcopy(each.held)
    return copies
