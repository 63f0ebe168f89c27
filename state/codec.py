"""Rows as canonical bytes, as Arrow columns, and as JSON lines to and from outside.

A *canonical row* is one UTF-8 JSON array on one line: `[7,"AA",12.5,null]`. Equal rows have equal
bytes and the other way round, for every type; `redis-cli` shows them; they hold no tab or newline,
which the layout of state relies on. `orjson.dumps(orjson.loads(row)) == row` always holds. Keys
are rows of the key's columns. The forms of each type are drawn in `state.values`.

What is hard: a million rows a second. Rows of an epoch are therefore made and read in columns
(`state.columns`), and lines of outside JSON in blocks (`state.json_lines`); properties hold each
of these to the plain way, a value at a time.

Data from outside comes in by `decode_json` and `decode_json_lines` only. They are strict about
types and never put a value into a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from state.columns import Texts, columns_of, joined_bytes, leading_columns_of, texts_of
from state.joined_rows import join_rows
from state.json_lines import Decoded, LineDecoder, decode_object
from state.json_values import json_decoder
from state.line_shapes import CHANGES, KINDS, PLAIN
from state.types import LogicalType, arrow_type
from state.values import (
    CodecError,
    StoredTextCorrupt,
    canonical_decoder,
    canonical_encoder,
    kind_of,
    shown_encoder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["CodecError", "Decoded", "RowCodec"]


class RowCodec:
    """Rows of columns with these types and names.

    NOT NULL is checked on data from outside only: inside, a delete may carry just its key.

    Cost: `encode` 1 to 2 microseconds for a short row; columns a fraction of that per row.
    """

    __slots__ = (
        "_decoders",
        "_encoders",
        "_labels",
        "_lines",
        "_outside",
        "_shown",
        "arrow_types",
        "names",
        "types",
    )

    def __init__(self, types: Sequence[LogicalType], names: Sequence[str]) -> None:
        if len(types) != len(names):
            raise ValueError(f"{len(types)} types for {len(names)} names")
        if len(set(names)) != len(names):
            raise ValueError("names of columns must be unique")
        self.types = tuple(types)
        self.names = tuple(names)
        self.arrow_types: tuple[pa.DataType, ...] = tuple(arrow_type(each) for each in types)
        self._encoders = [canonical_encoder(each) for each in types]
        self._decoders = [canonical_decoder(each) for each in types]
        self._shown = [shown_encoder(each) for each in types]
        self._outside = [json_decoder(each) for each in types]
        self._lines: dict[bool, LineDecoder] = {}
        labels = [orjson.dumps(name).decode() + ":" for name in names]
        self._labels = [f",{label}" if at else label for at, label in enumerate(labels)]

    def encode(self, values: Sequence[object]) -> bytes:
        """The canonical row of Python values (`state.types` says which).

        Raises:
            CodecError: A value is not of its column's type.
        """
        return orjson.dumps(self._converted(self._encoders, values))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The Python values of a canonical row.

        Raises:
            StoredTextCorrupt: The bytes are no canonical row of these columns.
        """
        try:
            found = orjson.loads(data)
            if type(found) is list:
                pairs = zip(self._decoders, found, strict=True)
                return tuple(v if v is None or d is None else d(v) for d, v in pairs)
        except (ValueError, TypeError, ArithmeticError):
            # What it is that cannot be read would be data of the user.
            pass
        raise StoredTextCorrupt(f"a canonical row of {len(self.names)} columns")

    def encode_columns(
        self, columns: Sequence[pa.Array], *, length: int | None = None
    ) -> pa.BinaryArray:
        """The canonical rows of typed columns: byte for byte what `encode` gives for each.

        Args:
            columns: One array a column; chunked ones and other widths of the type are taken too.
            length: The number of rows, only needed where there are no columns.

        Raises:
            CodecError: A value has no canonical form.
        """
        if not self.types:
            return pa.array([b"[]"] * (length or 0), pa.binary())
        pieces: list[str | pa.Array] = ["["]
        for number, texts in enumerate(self._texts(columns)):
            pieces += ["," if number else "", *texts.pieces()]
        return join_rows([*pieces, "]"])

    def decode_columns(self, rows: Sequence[bytes] | pa.Array) -> list[pa.Array]:
        """Canonical rows as typed columns.

        Raises:
            StoredTextCorrupt: The bytes are no canonical rows of these columns.
        """
        return columns_of(self.types, rows)

    def decode_leading(self, rows: Sequence[bytes] | pa.Array, count: int) -> list[pa.Array]:
        """The first columns, so many, of canonical rows; the others are mostly not looked at.

        Raises:
            StoredTextCorrupt: The bytes are no canonical rows of these columns, as far as was
                looked.
        """
        return leading_columns_of(self.types, rows, count)

    def decode_json(self, data: object) -> tuple[Any, ...]:
        """The Python values of parsed JSON from outside, strictly by type (`state.json_values`).

        Args:
            data: An object of columns, where others are ignored and a missing one is null; or an
                array of all values in order.

        Raises:
            CodecError: A value is not of its column's type, or null where it must not be. The
                message never holds the value.
        """
        if isinstance(data, list) and len(data) == len(self.names):
            data = dict(zip(self.names, data, strict=True))
        if not isinstance(data, dict):
            found = f"{len(data)} values" if isinstance(data, list) else kind_of(data)
            raise CodecError(None, f"{len(self.names)} columns", found)
        return decode_object(self.names, self._outside, data)

    def decode_json_lines(self, lines: bytes | Sequence[bytes], *, with_op: bool) -> Decoded:
        """Decode lines of outside JSON; a bad line is told in `Decoded.rejected`, never raised.

        Args:
            lines: A block of lines, or the lines. Blank ones are passed over.
            with_op: Each line is `{"op":"+I","data":{...}}`; else it is the row itself, a +I.
        """
        decoder = self._lines.get(with_op)
        if decoder is None:
            shape = CHANGES if with_op else PLAIN
            decoder = self._lines[with_op] = LineDecoder(self.types, self.names, shape)
        return decoder.decode(lines)

    def to_json(self, values: Sequence[object]) -> dict[str, Any]:
        """A row of Python values as the object that sinks and the API show (`state.values`)."""
        return dict(zip(self.names, self._converted(self._shown, values), strict=True))

    def shown(self, data: bytes) -> dict[str, Any]:
        """A canonical row as the object that the API shows.

        Raises:
            StoredTextCorrupt: The bytes are no canonical row of these columns.
        """
        return self.to_json(self.decode(data))

    def encode_json_lines(
        self, kinds: NDArray[np.int8] | Sequence[int] | None, columns: Sequence[pa.Array]
    ) -> list[bytes]:
        """Shown JSON of each row, without a line end.

        Args:
            kinds: The `RowKind` of each row, for `{"op":"+I","data":{...}}`; None: the row alone.
            columns: One array a column, at least one.

        Raises:
            CodecError: A value has no form in JSON.
        """
        rows: list[bytes] = self._json_rows(kinds, columns).to_pylist()
        return rows

    def encode_json_block(
        self, kinds: NDArray[np.int8] | Sequence[int] | None, columns: Sequence[pa.Array]
    ) -> bytes:
        """The same as one block, a newline after each line: what a file holds."""
        joined = join_rows([self._json_rows(kinds, columns).view(pa.string()), "\n"])
        return joined_bytes(joined)

    def _json_rows(
        self, kinds: NDArray[np.int8] | Sequence[int] | None, columns: Sequence[pa.Array]
    ) -> pa.BinaryArray:
        pieces: list[str | pa.Array] = ["{"]
        if kinds is not None:
            starts = pa.array([f'{{"op":"{each}","data":{{' for each in KINDS])
            pieces = [starts.take(pa.array(np.asarray(kinds, np.int8)))]
        for name, texts in zip(self._labels, self._texts(columns, shown=True), strict=True):
            pieces += [name, *texts.pieces()]
        return join_rows([*pieces, "}" if kinds is None else "}}"])

    def _texts(self, columns: Sequence[pa.Array], *, shown: bool = False) -> Iterator[Texts]:
        for name, logical, column in zip(self.names, self.types, columns, strict=True):
            try:
                yield texts_of(logical, column, shown=shown)
            except CodecError as error:
                raise error.in_column(name) from None

    def _converted(self, converts: Sequence[Any], values: Sequence[object]) -> list[Any]:
        try:
            pairs = zip(converts, values, strict=True)
            return [None if value is None else convert(value) for convert, value in pairs]
        except CodecError:
            self._blame(converts, values)
            raise
        except ValueError:
            expected, found = f"a row of {len(self.names)} values", f"{len(values)} values"
            raise CodecError(None, expected, found) from None

    def _blame(self, converts: Sequence[Any], values: Sequence[object]) -> None:
        """Convert again, column by column, to say which one is wrong."""
        for name, convert, value in zip(self.names, converts, values, strict=False):
            try:
                if value is not None:
                    convert(value)
            except CodecError as error:
                raise error.in_column(name) from None
