"""Control rows and their notes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from operators.wire import (
    DEAD_LETTER,
    TICK,
    ControlRow,
    NoteSum,
    OperatorNote,
    SourceNote,
    WorkerError,
    control_batch,
    dead_letter_note,
    merged_offsets,
    to_note,
    wire_schema,
)


def test_control_rows_have_no_values() -> None:
    schema = wire_schema([pa.int32(), pa.list_(pa.string())])

    batch = control_batch(schema, [ControlRow(TICK, 3), ControlRow(DEAD_LETTER, 7, "x")], 12)

    assert batch.schema == schema
    assert batch.column("f1").null_count == 2
    assert batch.column("_kind").to_pylist() == [4, 5]
    assert batch.column("_order").to_pylist() == [3, 7]
    assert batch.column("_note").to_pylist() == [None, "x"]
    assert batch.column("_time").to_pylist() == [12, 12]


def test_a_note_that_comes_along_two_ways_counts_once() -> None:
    notes = NoteSum()
    source = to_note(SourceNote("s", 0, 5, {"at": 10, "tick": 1}))

    notes.add([source, to_note(SourceNote("s", 1, 7))])
    notes.add([source, to_note(OperatorNote("4_x", 0, {"rows_in": 2, "reads": 1}))])
    notes.add([to_note(OperatorNote("4_x", 1, {"rows_in": 3, "reads": 0}))])

    assert notes.rows_in == 12
    assert notes.offsets == {"s": {"at": 10, "tick": 1}}
    assert notes.nodes() == {"4_x": {"rows_in": 5, "reads": 1}}


@pytest.mark.parametrize(
    "other", [SourceNote("s", 0, 5, {"at": 11}), SourceNote("s", 0, 6, {"at": 10})]
)
def test_a_part_of_a_source_that_was_read_to_two_ends_is_refused(other: SourceNote) -> None:
    notes = NoteSum()
    notes.add([to_note(SourceNote("s", 0, 5, {"at": 10}))])

    with pytest.raises(WorkerError, match=r"^\[tailrace:source-split\] s: "):
        notes.add([to_note(other)])


def test_the_partitions_of_a_source_add_up_to_its_offsets() -> None:
    notes = NoteSum()
    ends = [("a", 0, 7), ("a", 1, 3), ("b", 0, 1)]

    notes.add([to_note(SourceNote("s", 0, 0, {"tick": 4}))])
    notes.add(
        to_note(SourceNote("s", f"{topic}/{part}", 2, {"topics": {topic: {str(part): end}}}))
        for topic, part, end in ends
    )

    assert notes.rows_in == 6
    assert notes.offsets == {"s": {"tick": 4, "topics": {"a": {"0": 7, "1": 3}, "b": {"0": 1}}}}


def test_newer_offsets_move_on_what_they_tell_of_and_nothing_else() -> None:
    known = {"s": {"tick": 1, "topics": {"a": {"0": 7, "1": 3}}}, "t": {"file": 2}}
    news = {"s": {"topics": {"a": {"1": 9}, "b": {"0": 1}}}}

    merged = merged_offsets(known, news)

    topics = {"a": {"0": 7, "1": 9}, "b": {"0": 1}}
    assert merged == {"s": {"tick": 1, "topics": topics}, "t": {"file": 2}}
    assert merged_offsets(merged, news) == merged
    assert known["s"]["topics"] == {"a": {"0": 7, "1": 3}}


def test_a_dead_letter_tells_where_and_why() -> None:
    assert dead_letter_note("s", "in/a:12", "no JSON") == (
        '{"table":"s","position":"in/a:12","reason":"no JSON"}'
    )
