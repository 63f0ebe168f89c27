"""Values that a change does not carry, as they did not change: PostgreSQL's TOAST columns.

A database that logs what an update changed leaves long values out that it did not change. Debezium
writes a placeholder in their place, in the form of the column's type:

    STRING, CHAR, VARCHAR    the text                 ARRAY of texts, bytes    with it alone
    BYTES                    its bytes                ARRAY of integers        its bytes as numbers
    MAP of texts             {text: text}

Source: Debezium `unavailable.value.placeholder`, `UnchangedToastedPlaceholder`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from state.arrow_values import python_values, to_column
from state.types import INTEGER_BITS, STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row

PLACEHOLDER: Final = "__debezium_unavailable_value"
"""Debezium's default."""
_HEX: Final = "hex:"
_BYTES_ROOTS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


class Unavailable:
    """Finds the placeholders in rows.

    Args:
        placeholder: As Debezium's option has it: a text, or `hex:` and digits.
        types: Of the rows' columns.
        key: Columns that always have their value.

    Raises:
        ValueError: The placeholder is empty, or its digits are none.
    """

    def __init__(
        self, placeholder: str, types: Sequence[LogicalType], key: Sequence[int] = ()
    ) -> None:
        self._raw = raw_placeholder(placeholder)
        self._columns: dict[int, pa.Array] = {}
        for at, each in enumerate(types):
            value = None if at in key else _value(each, self._raw)
            if value is not None:
                self._columns[at] = to_column(each, [value])
        self._values = {
            at: python_values(types[at], column)[0] for at, column in self._columns.items()
        }

    def is_in(self, block: bytes) -> bool:
        """Whether a block of lines of JSON may have one."""
        needles = (self._raw, base64.b64encode(self._raw), b",".join(b"%d" % n for n in self._raw))
        return any(each in block for each in needles)

    def in_columns(self, columns: Sequence[pa.Array]) -> dict[int, pa.Array]:
        """By column that has any: which rows have the placeholder in it."""
        found = {}
        for at, wanted in self._columns.items():
            column = columns[at]
            if pa.types.is_nested(column.type):
                (value,) = wanted.to_pylist()
                mask = pa.array([each == value for each in column.to_pylist()], pa.bool_())
            else:
                mask = pc.fill_null(pc.equal(column, wanted[0]), fill_value=False)
            if pc.any(mask, min_count=0).as_py():
                found[at] = mask
        return found

    def in_row(self, row: Row) -> list[int]:
        """The columns of a row that have the placeholder."""
        return [at for at, value in self._values.items() if row[at] == value]


def raw_placeholder(placeholder: str) -> bytes:
    """The bytes of a placeholder.

    Raises:
        ValueError: It is empty, or its digits are none.
    """
    is_hex = placeholder.startswith(_HEX)
    raw = bytes.fromhex(placeholder.removeprefix(_HEX)) if is_hex else placeholder.encode()
    raw.decode()
    if not raw:
        raise ValueError("a placeholder cannot be empty")
    return raw


def unavailable_reason(names: Iterable[str]) -> str:
    """Why a change is set aside, by the columns that it does not carry."""
    columns = ", ".join(f'"{each}"' for each in names)
    return (
        f"column {columns} is not in the change, as it was not updated (TOAST), and no row is kept "
        "that has it; REPLICA IDENTITY FULL sends it"
    )


def filled(row: Row, columns: Sequence[int], old: Row) -> Row:
    """The row with these columns as they were."""
    return tuple(old[at] if at in columns else value for at, value in enumerate(row))


def _value(logical: LogicalType, raw: bytes) -> Any:
    """The placeholder of a type; None: columns of it are never left out."""
    if logical.root in STRING_ROOTS:
        return raw.decode()
    if logical.root in _BYTES_ROOTS:
        return raw
    if logical.root is TypeRoot.ARRAY:
        (element,) = logical.children
        if element.root in INTEGER_BITS:
            return [*raw]
        value = _value(element, raw)
        return None if value is None or element.children else [value]
    if logical.root is TypeRoot.MAP:
        parts = [_value(each, raw) for each in logical.children]
        return None if any(not isinstance(each, str) for each in parts) else [tuple(parts)]
    return None
