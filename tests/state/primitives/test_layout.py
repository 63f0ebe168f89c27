"""The stored text of collections, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.interface import HashPut, HashScan
from state.errors import FormatVersionMismatch, StateCorrupt
from state.primitives.layout import (
    Header,
    expired_lines,
    judged_lines,
    own_stamps,
    packed_text,
    read_collection,
    shared,
    shared_text,
    spread_text,
    unstamped_lines,
)
from state.testing.sessions import LAYOUTS
from state.ttl import stamped
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand
    from tests.state.primitives.driver import Operation

LINES = st.lists(
    st.binary(min_size=1).map(lambda b: b.replace(b"\n", b" ")), min_size=1, max_size=5
)


@given(next_number=st.integers(0), lines=LINES)
def test_a_packed_collection_comes_back(next_number: int, lines: list[bytes]) -> None:
    text = packed_text(next_number, lines)

    assert read_collection(text) == (Header(False, next_number, len(lines)), lines)


@given(next_number=st.integers(0), lines=LINES)
def test_a_packed_collection_of_the_version_before_is_read(
    next_number: int, lines: list[bytes]
) -> None:
    text = b"\n".join((b"packed\t1\t%d" % next_number, *lines))

    assert read_collection(text) == (Header(False, next_number), lines)


BEFORE: dict[str, tuple[bytes, bytes, Operation]] = {
    "list": (b"packed\t1\t7\n1\n2", b"packed\t3\t3\t8\n1\n2\n3", lambda s: s.add(3)),
    "map": (
        b'packed\t1\t0\n1\t"a"\n2\t"b"',
        b'packed\t3\t3\t0\n1\t"a"\n2\t"b"\n3\t"c"',
        lambda s: s.put(3, "c"),
    ),
    "sorted_map": (
        b'packed\t1\t0\n0000000000000000001\t"a"',
        b'packed\t3\t2\t0\n0000000000000000001\t"a"\n0000000000000000001\t"b"',
        lambda s: s.add((1,), "b"),
    ),
}
"""Of the version before, and what an operation makes of it."""


@pytest.mark.parametrize("kind", BEFORE)
def test_state_of_the_version_before_is_gone_on_with(stand: Stand, kind: str) -> None:
    state = Driver(stand, descriptor(kind), LAYOUTS["packed"])
    before, after, operation = BEFORE[kind]
    state.store(HashPut(b"state", [b'["k"]', before]))

    state.at(5, operation)

    assert state.sessions.fetch(HashScan(0, b"state")) == [{b'["k"]': after}]


def test_a_packed_collection_that_lost_lines_is_refused() -> None:
    """Cut off behind a line, what is left is lines as they are written."""
    text = packed_text(9, [b"a\t1", b"b\t2", b"c\t3"])

    for cut in (text[: text.rindex(b"\n")], text[: text.index(b"\n") + 4], text + b"\nd\t4"):
        with pytest.raises(StateCorrupt, match="its header says 3"):
            read_collection(cut)
        assert unstamped_lines(cut) is None
        assert judged_lines(cut, b"\t", 9) is None


def test_sorted_maps_of_both_versions_are_read_as_lines() -> None:
    lines = [b"a\t1", b"b\t2"]

    assert unstamped_lines(packed_text(0, lines)) == lines
    assert unstamped_lines(b"packed\t1\t0\na\t1\nb\t2") == lines
    assert unstamped_lines(packed_text(7, lines)) is None


@given(next_number=st.integers(0), stamps=st.lists(st.integers(-9, 9), min_size=1, max_size=5))
def test_elements_with_stamps_come_back_with_theirs(next_number: int, stamps: list[int]) -> None:
    elements = [b"@%d %d" % each for each in zip(stamps, range(len(stamps)), strict=True)]
    packed = shared(elements)
    assert packed is not None

    text = shared_text(
        len(stamps), next_number, packed.oldest_ms, packed.own_count, packed.elements
    )

    header, lines = read_collection(text)
    own_count = sum(each != min(stamps) for each in stamps)
    head = stamped(b"", min(stamps))
    assert header == Header(False, next_number, len(stamps), min(stamps), own_count, head)
    assert own_stamps(header, lines, b"\n") == elements
    # The oldest stamp stands in the header only.
    assert sum(each.startswith(b"@") for each in lines) == own_count


def test_elements_of_which_one_has_no_stamp_share_none() -> None:
    assert shared([b"@1 2", b"3"]) is None
    assert shared([]) is None


@given(size=st.integers(1), next_number=st.integers(0), oldest=st.none() | st.integers())
def test_a_spread_header_comes_back(size: int, next_number: int, oldest: int | None) -> None:
    header, lines = read_collection(spread_text(size, next_number, oldest))

    assert header == Header(True, next_number, size, oldest)
    assert lines == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"packed",
        b"packed\t1",
        b"packed\t1\t2\t3",
        b"packed\t1\t2",
        b"packed\tone\t2",
        b"packed\t2\t2\t7\t5\t0\n1",
        b"packed\t2\t1\t7\t-\t0\n1",
        b"packed\t2\t1\t7\t5\t2\n1",
        b"packed\t2\t1\t7\t5\n1",
        b"packed\t3\t1\n1",
        b"packed\t3\t0\t7\n1",
        b"packed\t3\t-\t7\n1",
        b"heaped\t1\t2",
        b"spread\t1\t5\t7",
        b"spread\t1\t0\t7\t-",
        b"spread\t1\t5\t7\t-\n@1 2",
        b"[1,2]",
    ],
)
def test_a_text_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(StateCorrupt):
        read_collection(text)


@pytest.mark.parametrize("text", [b"packed\t4\t0\n1", b"spread\t9\t1\t1\t-"])
def test_another_version_is_refused_with_both_versions(text: bytes) -> None:
    with pytest.raises(FormatVersionMismatch, match=r"version [49], this version reads 1") as error:
        read_collection(text)

    assert "savepoint" in error.value.hint


COLLECTIONS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([5, 6, 70]), min_size=1, max_size=3), st.sampled_from(["", "cut"])
    ),
    max_size=4,
)


@given(COLLECTIONS)
def test_collections_that_expire_together_are_those_that_expire_alone(
    collections: list[tuple[list[int], str]],
) -> None:
    """Where one is not as all others are, each is looked at by itself."""
    texts: list[bytes] = []
    for stamps, fate in collections:
        packed = shared([b"@%d 1" % each for each in stamps])
        assert packed is not None
        text = shared_text(len(stamps), 0, packed.oldest_ms, packed.own_count, packed.elements)
        texts.append(text[: text.rindex(b"\n")] if fate else text)
    keys = [b"%d" % number for number in range(len(texts))]

    # What has a key without a text beside it is looked at by itself.
    alone = [
        expired_lines([key, b"-"], [text, None], 6, 2)
        for key, text in zip(keys, texts, strict=True)
    ]

    found = {key: text for each, _ in alone for key, text in each.items()}
    assert expired_lines(keys, texts, 6, 2) == (found, sum(count for _, count in alone))
    assert [*found] == [
        key
        for key, (stamps, fate) in zip(keys, collections, strict=True)
        if not fate and len(stamps) <= 2 and {*stamps} in ({5}, {6})
    ]
