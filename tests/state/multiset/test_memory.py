"""What is remembered of long histories is bounded."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from state.backends.interface import StateVersion
from state.multiset import memory as memories
from state.multiset.index import LINE_BYTES
from state.multiset.known_index import KnownIndex
from state.multiset.memory import NO_BLOCKS, HistoryMemory, Remembered
from state.multiset.text import Header


def remembered(entries: int, place: str = "here", epoch: int = 1) -> Remembered:
    numbers = np.arange(1, entries + 1)
    lines = np.zeros((entries, LINE_BYTES), np.uint8)
    index = KnownIndex([0], lines, np.zeros_like(numbers), numbers)
    return Remembered(StateVersion(place, 1, epoch), Header(entries + 1, size=entries), index)


def test_the_one_that_was_written_first_is_forgotten_first() -> None:
    room = 3 * (remembered(100).bytes + len(b"k"))
    memory = HistoryMemory(room)
    for number in range(3):
        memory.keep(b"%d" % number, remembered(100))
    memory.keep(b"0", remembered(100, epoch=2))
    memory.keep(b"3", remembered(100))

    assert sorted(memory.of("here")) == [b"0", b"2", b"3"]
    assert len(memory) == 3


def test_a_history_that_is_too_long_is_not_remembered() -> None:
    memory = HistoryMemory(remembered(100).bytes + len(b"k"))
    memory.keep(b"k", remembered(100))
    memory.keep(b"k", remembered(101))
    assert len(memory) == 0
    memory.keep(b"k", remembered(100))
    assert b"k" in memory.of("here")


def test_equal_keys_of_two_places_are_two_histories() -> None:
    memory = HistoryMemory()
    memory.keep(b"k", remembered(1, "here"))
    memory.keep(b"k", remembered(2, "there"))
    memory.forget("here", b"k")
    memory.forget("elsewhere", b"k")

    assert not memory.of("here")
    assert memory.of("there")[b"k"].header.size == 2


def test_blocks_are_those_that_were_written_last_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memories, "BLOCK_BYTES_MAX", 10)
    blocks = NO_BLOCKS.after({1: b"one", 2: b"two", 3: b"three"}, [])
    assert (dict(blocks.texts), blocks.length) == ({2: b"two", 3: b"three"}, 8)

    blocks = blocks.after({3: b"3", 7: b"7"}, [2, 5])
    assert (dict(blocks.texts), blocks.length) == ({3: b"3", 7: b"7"}, 2)
    assert dict(NO_BLOCKS.texts) == {}


@pytest.mark.parametrize(("entries", "blocks"), [(64, 0), (64, 4), (1_000, 63)])
def test_what_is_counted_is_what_python_takes_within_a_tenth(entries: int, blocks: int) -> None:
    memory, count = HistoryMemory(), 50
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            held = remembered(entries)
            texts = {1_000 + each: bytes(300) for each in range(blocks)}
            held = replace(held, blocks=NO_BLOCKS.after(texts, []))
            memory.keep(b'["customer%06d"]' % number, held)
        del held, texts
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert len(memory) == count
    assert 0.9 < taken / memory.bytes_held < 1.1


def test_an_index_that_learns_more_is_counted_as_it_was_kept() -> None:
    memory, held = HistoryMemory(), remembered(1)
    memory.keep(b"k", held)
    assert held.index is not None
    held.index.learn([1], [None])
    memory.forget("here", b"k")

    assert memory.bytes_held == 0
