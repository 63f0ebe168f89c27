"""What a pipeline remembers of its states, on both backends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from state.backends.interface import HashScan
from state.descriptors import JSON, ListDescriptor, MapDescriptor, TimersDescriptor, ValueDescriptor
from state.errors import CodecMismatch, FormatVersionMismatch, InvalidTtl, StateCorrupt
from state.multiset.registered import HistoryDescriptor
from state.registry import extend_ttl, extension_ms, register_states, registered_states
from state.testing.stand import NODE
from state.ttl import DISABLED, Cleanup, TimeCharacteristic, TtlClock, TtlConfig, UpdateType
from tests.state.primitives.conftest import stand

if TYPE_CHECKING:
    from state.testing.stand import Stand

__all__ = ["stand"]

VALUE = ValueDescriptor(name="v", codec=JSON)
MAP = MapDescriptor(name="m", key_codec=JSON, codec=JSON, ttl=TtlConfig(100))


class OtherCodec:
    name = "other"
    encode = JSON.encode
    decode = JSON.decode


def test_states_are_kept_as_json_in_the_slot(stand: Stand) -> None:
    register_states(stand.ledger, NODE, [VALUE, MAP, TimersDescriptor(name="t")], TtlClock(5))

    held = stand.slot(HashScan(0, b"registry"))

    assert sorted(held) == [b"1_materializer/m", b"1_materializer/t", b"1_materializer/v"]
    assert orjson.loads(held[b"1_materializer/m"]) == {
        "version": 1,
        "kind": "map",
        "codecs": ["json", "json"],
        "ttl": {
            "ttl_ms": 100,
            "update": "OnCreateAndWrite",
            "visibility": "NeverReturnExpired",
            "time": "ProcessingTime",
        },
        "enabled_ms": None,
        "is_stamped": True,
    }
    assert [each.name for each in registered_states(stand.ledger)] == ["m", "t", "v"]


def test_timers_of_keys_that_are_there_are_registered_as_if_their_ttl_was_switched_on(
    stand: Stand,
) -> None:
    """An earlier version registered none where there was no TTL."""
    timers = TimersDescriptor(name="t", ttl=TtlConfig(100), forgets=("w", "v"))

    assert register_states(stand.ledger, NODE, [timers, VALUE], TtlClock(5))[0].enabled_ms is None

    other = "2_other"
    register_states(stand.ledger, other, [VALUE], TtlClock(5))
    for _ in range(2):
        (known,) = register_states(stand.ledger, other, [timers], TtlClock(7))
        assert known.enabled_ms == 7


@pytest.mark.parametrize(
    "other",
    [
        ListDescriptor(name="m", codec=JSON),
        MapDescriptor(name="m", key_codec=OtherCodec(), codec=JSON),
        MapDescriptor(name="m", key_codec=JSON, codec=OtherCodec()),
    ],
)
def test_another_kind_or_codec_is_refused_and_nothing_changes(
    stand: Stand, other: ListDescriptor[int] | MapDescriptor[int, int]
) -> None:
    register_states(stand.ledger, NODE, [MAP], TtlClock(0))
    before = stand.slot(HashScan(0, b"registry"))

    with pytest.raises(CodecMismatch, match="stored as map of json, json") as error:
        register_states(stand.ledger, NODE, [VALUE, other], TtlClock(0))

    assert error.value.hint
    assert stand.slot(HashScan(0, b"registry")) == before


def test_the_same_name_in_another_node_is_another_state(stand: Stand) -> None:
    register_states(stand.ledger, NODE, [MAP], TtlClock(0))

    register_states(stand.ledger, "2_other", [replace(VALUE, name="m")], TtlClock(0))

    assert len(registered_states(stand.ledger)) == 2


def test_switching_ttl_on_is_remembered_until_it_is_switched_on_again(stand: Stand) -> None:
    def run(ttl: TtlConfig, ms: int) -> tuple[int | None, bool]:
        (state,) = register_states(stand.ledger, NODE, [replace(VALUE, ttl=ttl)], TtlClock(ms))
        return state.enabled_ms, state.is_stamped

    assert run(DISABLED, 0) == (None, False)
    assert run(TtlConfig(100), 10) == (10, True)
    assert run(TtlConfig(50, UpdateType.ON_READ_AND_WRITE), 20) == (10, True)
    assert run(DISABLED, 30) == (10, True)
    assert run(TtlConfig(70), 40) == (40, True)


def test_a_state_that_was_born_with_ttl_has_no_such_time(stand: Stand) -> None:
    for ms in (0, 10):
        (state,) = register_states(stand.ledger, NODE, [MAP], TtlClock(ms))
        assert (state.enabled_ms, state.is_stamped) == (None, True)


def test_a_run_that_told_nobody_of_expiry_is_remembered(stand: Stand) -> None:
    """So is it of a state that an earlier version registered, which did not say."""

    def run(ttl: TtlConfig, *, emits: bool, whole: bool = False) -> bool:
        history = HistoryDescriptor(
            name="h", row="INT", key=(0,), match=(), ttl=ttl, emits_expired=emits, is_whole=whole
        )
        (state,) = register_states(stand.ledger, NODE, [history], TtlClock(0))
        return state.is_silent

    assert not run(DISABLED, emits=False)
    assert not run(TtlConfig(100), emits=True, whole=True)
    field = f"{NODE}/h".encode()
    told = orjson.loads(stand.slot(HashScan(0, b"registry"))[field])
    assert (told.pop("is_silent"), told.pop("is_whole")) == (False, True)
    stand.ledger.register({field: orjson.dumps(told)})
    assert run(DISABLED, emits=True)


def test_the_time_is_that_which_the_ttl_counts(stand: Stand) -> None:
    register_states(stand.ledger, NODE, [VALUE, replace(VALUE, name="w")], TtlClock(0))
    by_watermark = TtlConfig(100, time=TimeCharacteristic.EVENT_BY_WATERMARK)

    states = register_states(
        stand.ledger,
        NODE,
        [replace(VALUE, ttl=TtlConfig(100)), replace(VALUE, name="w", ttl=by_watermark)],
        TtlClock(1000, watermark_ms=600, extension_ms=50),
    )

    assert [each.enabled_ms for each in states] == [950, 600]


EVENT, BY_PROCESSING = (
    TtlConfig(100, time=TimeCharacteristic.EVENT_BY_WATERMARK),
    TtlConfig(100, time=TimeCharacteristic.EVENT_BY_PROCESSING),
)


@pytest.mark.parametrize(
    ("runs", "stored"),
    [
        ((TtlConfig(100), EVENT), "ProcessingTime"),
        ((TtlConfig(100), DISABLED, EVENT), "ProcessingTime"),
        ((EVENT, TtlConfig(50)), "EventTimeByWatermark"),
        ((EVENT, DISABLED, DISABLED, TtlConfig(100)), "EventTimeByWatermark"),
    ],
)
def test_a_ttl_that_counts_other_times_than_are_stored_is_refused_and_nothing_changes(
    stand: Stand, runs: tuple[TtlConfig, ...], stored: str
) -> None:
    """Stamps of rows from 2013 would all be past their life at once, by the clock."""
    *before, other = runs
    for ttl in before:
        register_states(stand.ledger, NODE, [replace(VALUE, ttl=ttl)], TtlClock(0, 0))
    held = stand.slot(HashScan(0, b"registry"))

    with pytest.raises(CodecMismatch, match=f"stored with times of {stored}") as error:
        register_states(stand.ledger, NODE, [MAP, replace(VALUE, ttl=other)], TtlClock(0, 0))

    assert error.value.hint
    assert stand.slot(HashScan(0, b"registry")) == held


@pytest.mark.parametrize(
    "runs",
    [
        (DISABLED, EVENT, BY_PROCESSING, DISABLED, EVENT),
        (TtlConfig(1), BY_PROCESSING, DISABLED, TtlConfig(9)),
    ],
)
def test_a_ttl_that_counts_the_times_that_are_stored_is_taken(
    stand: Stand, runs: tuple[TtlConfig, ...]
) -> None:
    for ttl in runs:
        (state,) = register_states(stand.ledger, NODE, [replace(VALUE, ttl=ttl)], TtlClock(0, 0))
        assert state.ttl == ttl
        assert state.is_stamped or ttl is DISABLED


def test_switched_on_before_the_first_watermark_it_counts_from_the_epochs_time(
    stand: Stand,
) -> None:
    """Else all that was there would expire with the first watermark."""
    register_states(stand.ledger, NODE, [VALUE], TtlClock(0))
    by_watermark = TtlConfig(100, time=TimeCharacteristic.EVENT_BY_WATERMARK)

    (state,) = register_states(
        stand.ledger, NODE, [replace(VALUE, ttl=by_watermark)], TtlClock(1000, extension_ms=50)
    )

    assert state.enabled_ms == 1000


def test_how_it_is_cleaned_up_is_not_remembered(stand: Stand) -> None:
    cleanup = Cleanup(by_timer=True)
    (state,) = register_states(
        stand.ledger, NODE, [replace(MAP, ttl=TtlConfig(100, cleanup=cleanup))], TtlClock(0)
    )
    before = stand.slot(HashScan(0, b"registry"))

    register_states(stand.ledger, NODE, [MAP], TtlClock(9))

    assert state.ttl.cleanup == cleanup
    assert stand.slot(HashScan(0, b"registry")) == before


def test_extending_adds_up_and_is_no_state(stand: Stand) -> None:
    assert extension_ms(stand.ledger) == 0

    assert extend_ttl(stand.ledger, 100) == 100
    assert extend_ttl(stand.ledger, 50) == 150

    assert extension_ms(stand.ledger) == 150
    assert registered_states(stand.ledger) == []
    with pytest.raises(InvalidTtl):
        extend_ttl(stand.ledger, -1)


def test_another_version_is_refused(stand: Stand) -> None:
    stand.ledger.register({b"n/s": b'{"version": 2}'})

    with pytest.raises(FormatVersionMismatch, match="version 2"):
        registered_states(stand.ledger)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"version": 1, "kind": "map"}'])
def test_what_is_no_entry_is_refused(stand: Stand, text: bytes) -> None:
    stand.ledger.register({b"n/s": text})

    with pytest.raises(StateCorrupt):
        registered_states(stand.ledger)


def test_it_goes_with_the_pipeline(stand: Stand) -> None:
    register_states(stand.ledger, NODE, [MAP], TtlClock(0))
    extend_ttl(stand.ledger, 5)

    stand.ledger.drop()

    assert stand.ledger.registered() == {}
