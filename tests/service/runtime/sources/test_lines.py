"""Files of lines are cut between lines, whatever the cuts."""

from __future__ import annotations

import io
import itertools

from hypothesis import given
from hypothesis import strategies as st

from service.runtime.sources.lines import (
    blocks_of_lines,
    line_starts,
    next_line_start,
    skip_lines,
)

LINES = st.lists(st.binary(max_size=6).map(lambda each: each.replace(b"\n", b"-")), min_size=1)


def file_of(lines: list[bytes], *, closed: bool) -> bytes:
    return b"\n".join(lines) + (b"\n" if closed else b"")


@given(LINES, st.booleans(), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 7))
def test_cuts_give_every_line_once(
    lines: list[bytes], closed: bool, cuts: list[int], block_bytes: int
) -> None:
    content = file_of(lines, closed=closed)
    bounds = sorted({0, len(content), *(min(each, len(content)) for each in cuts)})
    file, found = io.BytesIO(content), []

    for low, high in itertools.pairwise(bounds):
        start, end = (next_line_start(file, each, len(content)) for each in (low, high))
        for at, block in blocks_of_lines(file, start, end, block_bytes):
            assert content[at : at + len(block)] == block
            found += [block[each:].split(b"\n")[0] for each in line_starts(block).tolist()]

    assert b"\n".join(found) == content.removesuffix(b"\n")


@given(LINES, st.booleans(), st.integers(1, 12))
def test_skipping_lines_stops_behind_the_last_one_allowed(
    lines: list[bytes], closed: bool, lines_max: int
) -> None:
    content = file_of(lines, closed=closed)
    whole = content.splitlines(keepends=True) if b"\r" not in content else None

    at, count = skip_lines(io.BytesIO(content), 0, len(content), lines_max)

    assert count <= lines_max
    assert at == len(content) or content[at - 1 : at] == b"\n"
    assert content[:at].count(b"\n") + (not content[:at].endswith(b"\n") and at > 0) == count
    if whole is not None and count < lines_max:
        assert at == len(content)


def test_without_a_limit_everything_is_taken_uncounted() -> None:
    assert skip_lines(io.BytesIO(b"a\nb\n"), 0, 4, None) == (4, 0)


def test_a_recorded_size_hides_what_was_appended_later() -> None:
    file = io.BytesIO(b"one\ntwo\nthree\n")

    assert list(blocks_of_lines(file, 0, 8, 100)) == [(0, b"one\ntwo\n")]
    assert next_line_start(file, 9, 8) == 8
