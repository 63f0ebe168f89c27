"""The packed layout: what is written is what is read, for little text and for much."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.joined_rows import join_rows
from state.multiset import text
from state.multiset.text import (
    GONE,
    NEWEST,
    Header,
    before_rows,
    is_spread,
    packed_headers,
    parse_header,
    parse_packed,
    pieces_before_rows,
    write_packed,
)
from state.row_pieces import RowPieces

rows = st.binary(max_size=12).map(lambda row: b"[%b]" % row.replace(b"\n", b"").replace(b"\t", b""))
numbers = st.integers(1, 2**50)
histories = st.lists(
    st.tuples(
        numbers,
        st.one_of(st.none(), st.integers(-(10**6), 10**13)),
        st.one_of(st.just(NEWEST), st.just(GONE), numbers),
        st.lists(st.tuples(numbers, st.integers(-(10**6), 10**13), rows), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


def as_values(given_: list) -> list[bytes]:
    """The layout as its doc draws it, by hand."""
    values = []
    for following, written_ms, shown, entries in given_:
        lines = [Header(following, written_ms, shown).format()]
        lines += [b"%d\t%d\t%b" % entry for entry in entries]
        values.append(b"\n".join(lines))
    return values


@given(histories, st.booleans())
def test_parsing_gives_what_was_drawn(given_: list, much: bool):
    values = as_values(given_)
    with pytest.MonkeyPatch.context() as patch:
        if much:
            patch.setattr(text, "_SHORT_BYTES", -1)
            patch.setattr(text, "FEW", -1)
        packed = parse_packed(values)
        found_rows = packed.rows(np.arange(packed.owner.size)).to_pylist()

    flat = [(at, *entry) for at, each in enumerate(given_) for entry in each[3]]
    assert packed.owner.tolist() == [each[0] for each in flat]
    assert packed.sequence.tolist() == [each[1] for each in flat]
    assert packed.written_ms.tolist() == [each[2] for each in flat]
    assert found_rows == [each[3] for each in flat]
    assert packed.following.tolist() == [each[0] for each in given_]
    assert packed.shown.tolist() == [each[2] for each in given_]
    stated = [-1 if each[1] is None else each[1] for each in given_]
    assert packed.list_written_ms.tolist() == stated


@given(histories)
def test_lines_are_written_back_as_they_were(given_: list):
    values = as_values(given_)
    packed = parse_packed(values)

    headers = [Header(*each[:3]).format() for each in given_]

    everything = np.arange(packed.owner.size)
    lines, pieces = packed.lines(everything), packed.pieces(everything)
    limits = packed.owner.searchsorted(np.arange(len(values) + 1)).tolist()

    assert write_packed(headers, packed.owner, lines) == values
    assert pieces.joined(headers, limits) == values


def test_a_new_line_is_a_prefix_and_a_row():
    pieces = RowPieces.of([*pieces_before_rows(np.array([7, 8]), 1000), [b"[1]", b"[2]"]], 2)
    joined = join_rows([*before_rows(np.array([7, 8]), 1000), pa.array(["[1]", "[2]"])])

    assert pieces.texts() == [b"\n7\t1000\t[1]", b"\n8\t1000\t[2]"]
    assert joined.to_pylist() == pieces.texts()


def test_headers_say_what_is_shown_only_where_it_is_not_the_newest():
    headers = packed_headers(
        np.array([5, 6, 7]), 99, shown=np.array([4, 2, 0]), newest=np.array([4, 5, 6])
    )

    assert headers == [b"5\t99", b"6\t99\t=2", b"7\t99\t!"]


def test_a_spread_header_is_told_from_a_packed_one():
    header = Header(following=12, shown=3, size=500, buckets=16)

    assert header.format() == b"spread\t500\t12\t16\t=3"
    assert is_spread(header.format())
    assert parse_header(header.format()) == header
    assert not is_spread(b"12\n1\t0\t[1]")


def test_rows_of_no_entries_are_none():
    packed = parse_packed([b"2\n1\t5\t[1]"])

    assert packed.rows(np.array([], np.int64)).equals(pa.array([], pa.binary()))
