"""The stamps of a spread sorted map's expired elements: they leave by one cut, if no others do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import SortedRange
from state.descriptors import JSON, SortedMapDescriptor
from state.testing.sessions import SPREAD
from state.testing.sorted_epochs import GROUP, KEY, Epochs
from state.ttl import Cleanup, TimeCharacteristic, TtlConfig
from tests.state.primitives.driver import ORDERED

if TYPE_CHECKING:
    from state.testing.stand import Stand


@pytest.fixture
def epochs(stand: Stand) -> Epochs:
    return Epochs(stand)


def described(ttl: TtlConfig) -> SortedMapDescriptor[Any, Any]:
    return SortedMapDescriptor(
        name="rows", key_codec=ORDERED, codec=JSON, ttl=ttl, thresholds=SPREAD
    )


@pytest.mark.parametrize(
    ("at_ms", "ms", "left"),
    [
        ([0, 10, 20, 30], 120, [30]),
        ([0, 10, 20, 30], 129, [30]),
        ([30, 20, 10, 0], 110, [20, 30]),
        ([5, 0, 5, 0], 104, [5, 5]),
        ([5, 5, 5, 5], 105, []),
    ],
)
def test_an_epoch_without_a_record(
    epochs: Epochs, at_ms: list[int], ms: int, left: list[int]
) -> None:
    rows = described(TtlConfig(100))
    for number, each in enumerate(at_ms):
        with epochs.epoch(rows, at_ms=each) as state:
            state.add((number,), each)

    with epochs.epoch(rows, at_ms=ms):
        pass

    (stamps,) = epochs.read(SortedRange(GROUP, b'rows:["k"]:stamps', -1, 1e15))
    assert sorted(score for _, score in stamps) == left
    with epochs.epoch(rows, at_ms=ms) as state:
        assert sorted(value for _, values in state.entries() for value in values) == left


@pytest.mark.parametrize("bound", [1, 64, 65, 66, 130])
def test_a_bound_among_equal_stamps_takes_no_others(epochs: Epochs, bound: int) -> None:
    """What is left over of one age is found again, with its stamps."""
    ttl = TtlConfig(100, cleanup=Cleanup(background_keys_max=bound))
    rows = described(ttl)
    with epochs.epoch(rows) as state:
        for number in range(150):
            state.add((number,), number)

    left = 150
    while left:
        with epochs.epoch(rows, at_ms=100):
            pass
        left = max(left - max(bound, 64), 0)
        (stamps,) = epochs.read(SortedRange(GROUP, b'rows:["k"]:stamps', -1, 1e15))
        assert len(stamps) == left

    assert epochs.stored() == set()


def test_what_an_epoch_adds_that_is_old_already_goes_too(epochs: Epochs) -> None:
    ttl = TtlConfig(100, time=TimeCharacteristic.EVENT_BY_PROCESSING)
    rows = described(ttl)
    with epochs.epoch(rows) as state:
        state.add((1,), "old")

    with epochs.epoch(rows, at_ms=150) as state:
        epochs.session.set_key(KEY, GROUP, event_ms=20)
        state.add((2,), "late")

    assert epochs.stored() == set()
