"""The stored text of collections, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import FormatVersionMismatch, StateCorrupt
from state.primitives.layout import (
    Header,
    own_stamps,
    packed_text,
    read_collection,
    shared,
    shared_text,
    spread_text,
)
from state.ttl import stamped

LINES = st.lists(
    st.binary(min_size=1).map(lambda b: b.replace(b"\n", b" ")), min_size=1, max_size=5
)


@given(next_number=st.integers(0), lines=LINES)
def test_a_packed_collection_comes_back(next_number: int, lines: list[bytes]) -> None:
    text = packed_text(next_number, lines)

    assert read_collection(text) == (Header(is_spread=False, next_number=next_number), lines)


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


@pytest.mark.parametrize("text", [b"packed\t3\t0\n1", b"spread\t9\t1\t1\t-"])
def test_another_version_is_refused_with_both_versions(text: bytes) -> None:
    with pytest.raises(FormatVersionMismatch, match=r"version [39], this version reads 1") as error:
        read_collection(text)

    assert "savepoint" in error.value.hint
