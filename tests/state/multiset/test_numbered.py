"""Match columns as numbers: read from texts, and found among others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from state.multiset.numbered import Numbered, find_numbers

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


def numbered(before: bytes, behind: bytes, values: list[int]) -> Numbered:
    return Numbered(before, behind, np.array(values, np.int64))


@given(st.lists(NUMBERS), st.sampled_from([b"[", b'["a",']), st.sampled_from([b"]", b",0]"]))
def test_texts_of_its_kind_are_read(values: list[int], before: bytes, behind: bytes) -> None:
    texts = [before + b"%d" % value + behind for value in values]
    found = numbered(before, behind, []).read(texts)
    assert found is not None
    assert found.tolist() == values


def test_other_texts_are_not() -> None:
    kind = numbered(b"[", b",0]", [])
    for text in (b"[7]", b"[7,1]", b"[,0]", b"[null,0]", b"[-,0]", b'["7",0]', b"[7,8,0]", b"7,0]"):
        assert kind.read([b"[1,0]", text]) is None, text


def test_kinds_differ_by_what_stands_around() -> None:
    kind = numbered(b"[", b",0]", [1])
    assert kind.is_like(numbered(b"[", b",0]", [2]))
    assert not kind.is_like(numbered(b"[", b",1]", [1]))
    assert not kind.is_like(numbered(b"[0,", b",0]", [1]))


@given(st.lists(NUMBERS, unique=True, max_size=20), st.lists(NUMBERS, max_size=40))
def test_numbers_are_found_where_they_are(wanted: list[int], others: list[int]) -> None:
    held = [*wanted[::2], *others, *wanted[::-2]]
    found = find_numbers(np.array(wanted, np.int64), np.array(held, np.int64))
    places = {value: place for place, value in enumerate(wanted)}
    assert found.tolist() == [places.get(value, -1) for value in held]
