"""Codes, and rows side by side, are equal exactly where canonical rows are."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import codes as codes_module
from operators.codes import dense, is_ascending
from operators.columnar import Columns
from state.arrow_values import to_column
from state.codec import RowCodec
from state.types import parse_type

START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
VALUES = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-3, 3),
    "BIGINT": st.sampled_from([-(2**63), 2**63 - 1, 0, 1, 2]),
    "DOUBLE": st.sampled_from([float("nan"), 0.0, -0.0, float("inf"), 1.5]),
    "FLOAT": st.sampled_from([float("nan"), 0.0, -0.0, 1.5]),
    "VARCHAR(2147483647)": st.sampled_from(["", "a", "aa", "b" * 30]),
    "VARBINARY(2147483647)": st.sampled_from([b"", b"\x00", b"\xff"]),
    "DECIMAL(10, 2)": st.decimals(-1, 1, places=2),
    "DATE": st.dates(),
    "TIMESTAMP(6)": st.datetimes(),
    "TIMESTAMP(3)": st.integers(-1001, 1001).map(
        lambda us: (START + dt.timedelta(microseconds=us)).replace(tzinfo=None)
    ),
    "TIME(0)": st.sampled_from([dt.time(1, 0, 0, n) for n in (0, 1000, 999_000)]),
    "ARRAY<INT>": st.lists(st.integers(0, 2), max_size=2),
    "ROW<`a` INT, `b` INT>": st.tuples(st.integers(0, 1), st.none()),
}


@settings(deadline=None)
@given(st.data())
def test_codes_are_equal_exactly_where_canonical_rows_are(data: st.DataObject):
    texts = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    row = st.tuples(*(st.one_of(st.none(), VALUES[text]) for text in texts))
    rows = data.draw(st.lists(row, max_size=12))
    types = [parse_type(text) for text in texts]
    arrays = [to_column(each, [row[at] for row in rows]) for at, each in enumerate(types)]
    codec = RowCodec(types, [f"c{at}" for at in range(len(types))])
    offset = data.draw(st.integers(0, len(rows)))
    columns = Columns([array.slice(offset) for array in arrays], types)

    codes = columns.codes(range(len(types)))

    encoded = [codec.encode(each) for each in rows[offset:]]
    values = codes.values.tolist()
    assert all(0 <= value < codes.bound for value in values)
    assert [[one == other for one in values] for other in values] == [
        [one == other for one in encoded] for other in encoded
    ]
    every = np.arange(len(encoded))
    one, other = every.repeat(every.size), np.tile(every, every.size)
    assert columns.are_equal(one, other, range(len(types))).tolist() == [
        encoded[left] == encoded[right] for left in every for right in every
    ]
    narrow = dense(codes).values
    assert (narrow.argsort(kind="stable") == codes.values.argsort(kind="stable")).all()


@settings(deadline=None)
@given(st.data())
def test_numbers_stand_for_rows_of_which_one_column_varies(data: st.DataObject):
    others = st.sampled_from(["INT", "BOOLEAN", "VARCHAR(2147483647)", "DECIMAL(10, 2)", "BIGINT"])
    texts = data.draw(st.lists(others, max_size=3))
    place = data.draw(st.integers(0, len(texts)))
    count = data.draw(st.integers(2, 5))
    same = [data.draw(st.one_of(st.none(), VALUES[text])) for text in texts]
    numbers = data.draw(st.lists(VALUES["BIGINT"], min_size=count, max_size=count))
    texts.insert(place, "BIGINT")
    rows = [(*same[:place], number, *same[place:]) for number in numbers]
    types = [parse_type(text) for text in texts]
    arrays = [to_column(each, [row[at] for row in rows]) for at, each in enumerate(types)]
    codec = RowCodec(types, [f"c{at}" for at in range(len(types))])
    columns = Columns(arrays, types)
    is_short = data.draw(st.booleans())

    found = columns.numbered(codec, range(len(types)), is_short=is_short)

    if found is not None:
        assert found.values.tolist() == numbers
        written = columns.shortened if is_short else columns.encoded
        assert written(codec, np.arange(count), range(len(types))) == [
            found.before + b"%d" % number + found.behind for number in numbers
        ]
    # Arrow does not tell of these types that they repeat one value.
    elif not {"BOOLEAN", "DECIMAL(10, 2)"}.intersection(texts) and None not in same:
        assert len(set(numbers)) == 1


def test_times_are_equal_by_the_digits_that_their_type_has():
    types = [parse_type("TIMESTAMP(3)"), parse_type("TIME(0)")]
    instants = pa.array([-1, -1000, 0, 999, 1000], pa.timestamp("us"))
    clocks = pa.array([0, 999, 1000, 1999, 2000], pa.int32())
    columns = Columns([instants, clocks], types)
    assert dense(columns.codes((0,))).values.tolist() == [0, 0, 1, 1, 2]
    assert dense(columns.codes((1,))).values.tolist() == [0, 0, 1, 1, 2]
    one, other = np.arange(4), np.arange(1, 5)
    for at in (0, 1):
        assert columns.are_equal(one, other, (at,)).tolist() == [True, False, True, False]


@settings(deadline=None)
@given(st.data())
def test_rows_are_written_as_the_codec_writes_them(data: st.DataObject):
    texts = ["BIGINT", "VARCHAR(2147483647)", "DOUBLE"]
    row = st.tuples(*(st.one_of(st.none(), VALUES[text]) for text in texts))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    if data.draw(st.booleans()):
        rows = [(each[0], 'constant "payload"\t', each[2]) for each in rows]
    types = [parse_type(text) for text in texts]
    codec = RowCodec(types, ["a", "b", "c"])
    columns = Columns([to_column(t, [r[at] for r in rows]) for at, t in enumerate(types)], types)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)), np.int64)
    numbers = [str(each) for each in chosen.tolist()]

    plain = columns.encode(codec, chosen, range(3)).to_pylist()
    before = ["<", pa.array(numbers, pa.string()), "> "]
    marked = columns.encode(codec, chosen, range(3), before).to_pylist()
    pieces = ["<", [each.encode() for each in numbers], "> "]

    assert columns.pieces(codec, chosen, range(3), pieces).texts() == marked
    assert plain == [codec.encode(rows[at]) for at in chosen]
    assert columns.encoded(codec, chosen, range(3)) == plain
    assert marked == [b"<%d> %b" % (at, text) for at, text in zip(chosen, plain, strict=True)]


def test_codes_too_wide_to_combine_are_made_dense(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codes_module, "_CODES_MAX", 4)
    types = [parse_type("INT")] * 3
    arrays = [pa.array([1, 900, 1, 1], pa.int32())] * 2 + [pa.array([5, 5, 5, 6], pa.int32())]

    codes = Columns(arrays, types).codes([0, 1, 2])

    assert (codes.values[:, None] == codes.values).sum() == 4 + 2


@pytest.mark.parametrize(
    ("array", "constant"),
    [
        (pa.array(["ab"] * 3), True),
        (pa.array(["ab", "ab", "ac"]), False),
        (pa.array(["ab", "a", "abc"]), False),
        (pa.array(["", ""]), True),
        (pa.array(["ab", None]), False),
        (pa.array(["x", "ab", "ab"]).slice(1), True),
        (pa.array([1, 1]), True),
        (pa.array([1, 2]), False),
        (pa.array([1.0, 1.0]), False),
        (pa.array([], pa.string()), False),
    ],
)
def test_a_constant_column_is_known_by_its_bytes(array: pa.Array, constant: bool):
    assert Columns([array], [parse_type("STRING")]).is_constant(0) is constant


def test_ascending_allows_repeats():
    assert is_ascending(np.array([1, 1, 2]))
    assert not is_ascending(np.array([2, 1]))
