"""Rows as bytes: what is known of a change's row is what would have been encoded."""

from __future__ import annotations

from operators.changelog import RowKind
from operators.keyed import InputChange, RowTexts
from operators.spec import RowSpec
from operators.stored_rows import StoredRows
from state.types import parse_type

ROW = RowSpec(types=(parse_type("BIGINT"), parse_type("STRING")), names=("a", "b"))


def change(*row: object) -> InputChange:
    """A change whose text says that it was taken from the batch."""
    texts = RowTexts(lambda columns, length: [b"of the batch"] * length, (), 1)
    return InputChange(lambda _: None, 0, 0, RowKind.INSERT, row, (), b"[]", 0, texts, 0)


def test_the_row_of_the_last_known_change_is_not_encoded_again() -> None:
    codec, first, second = StoredRows(ROW), change(1, "a"), change(2, "b")

    codec.know(first)
    codec.know(second)

    assert codec.encode(second.row) == b"of the batch"
    assert codec.encode(first.row) == b'[1,"a"]'
    assert codec.encode((2, "b")) == b'[2,"b"]'
