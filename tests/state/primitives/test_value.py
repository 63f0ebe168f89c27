"""Value, reducing and aggregating state, beyond Flink's scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashPut, HashScan, SortedRange
from state.descriptors import JSON, ReducingDescriptor
from state.errors import StateCorrupt
from state.execution.sync import run_now
from state.testing.sessions import PACKED
from state.ttl import TtlConfig, UpdateType
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand


def driver(stand: Stand, kind: str, **ttl: Any) -> Driver:
    config = {"ttl": TtlConfig(**ttl)} if ttl else {}
    return Driver(stand, descriptor(kind, **config), PACKED)


def test_what_is_stored_can_be_read_by_a_person(stand: Stand) -> None:
    state = driver(stand, "value", ttl_ms=100)

    state.at(7, lambda s: s.update([1, "a"]))

    assert state.sessions.fetch(
        HashScan(0, b"state"), SortedRange(0, b"state:expiry", 0, 1000)
    ) == [{b'["k"]': b'@7 [1,"a"]'}, [(b'["k"]', 7.0)]]


def test_own_writes_are_read_and_nothing_is_stored_before_the_end(stand: Stand) -> None:
    state = driver(stand, "value")

    assert state.together(0, lambda s: s.update(1), lambda s: s.value()) == [None, 1]
    assert state.together(1, lambda s: s.value(), lambda s: s.clear(), lambda s: s.value()) == [
        1,
        None,
        None,
    ]
    assert state.names() == []


def test_a_value_that_was_given_out_may_be_changed_freely(stand: Stand) -> None:
    state = driver(stand, "value")

    async def change(handle: Any) -> Any:
        await handle.update([1])
        (await handle.value()).append(2)
        return await handle.value()

    assert state.at(0, change) == [1]


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_adding_none_removes(stand: Stand, kind: str) -> None:
    state = driver(stand, kind, ttl_ms=100)
    state.at(0, lambda s: s.add(1))

    state.at(1, lambda s: s.add(None))

    assert state.at(2, lambda s: s.get()) is None
    assert state.names() == []


def test_on_create_an_update_does_not_prolong_a_life(stand: Stand) -> None:
    state = driver(stand, "value", ttl_ms=100, update=UpdateType.ON_CREATE)

    state.at(0, lambda s: s.update(1))
    state.at(50, lambda s: s.update(2))
    assert state.at(99, lambda s: s.value()) == 2
    state.at(100, lambda s: s.update(3))

    assert state.at(199, lambda s: s.value()) == 3
    assert state.at(200, lambda s: s.value()) is None


def test_a_merge_without_sources_changes_nothing(stand: Stand) -> None:
    state = driver(stand, "reducing", ttl_ms=100)
    state.at(0, lambda s: s.add(1), namespace=b"[1]")

    state.at(50, lambda s: s.merge_namespaces(b"[1]", [b"[2]"]))

    assert state.at(99, lambda s: s.get(), namespace=b"[1]") == 1
    assert state.at(100, lambda s: s.get(), namespace=b"[1]") is None


def test_a_merge_keeps_the_order_target_first(stand: Stand) -> None:
    texts = ReducingDescriptor(name="state", codec=JSON, reduce=lambda one, other: one + other)
    state = Driver(stand, texts, PACKED)
    for namespace, text in ((b"[1]", "a"), (b"[2]", "b"), (b"[3]", "c")):
        state.at(0, lambda s, t=text: s.add(t), namespace=namespace)

    state.at(1, lambda s: s.merge_namespaces(b"[2]", [b"[3]", b"[1]"]))

    assert state.at(2, lambda s: s.get(), namespace=b"[2]") == "bca"


@pytest.mark.parametrize("text", [b"@0", b"@0 [1", b"[1", b""])
def test_a_truncated_element_is_refused_and_stays(stand: Stand, text: bytes) -> None:
    state = driver(stand, "value", ttl_ms=100)
    state.store(HashPut(b"state", [b'["k"]', text]))
    session = state.session(1)
    handle = state.handle(session)
    session.set_key(b'["k"]', 0)

    with pytest.raises(StateCorrupt):
        run_now(handle.value(), session)

    assert session.writes() == {}
