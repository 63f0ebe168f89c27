"""The rows of a batch as columns: identity, comparing and encoding without a loop over rows.

Equality is that of the canonical form: NaN is NaN, 0.0 is not -0.0, null is null. A column becomes
*codes* (`operators/codes.py`); codes of several columns are combined into one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from operators.arrow_columns import offsets_of, plain_array, plain_numbers
from operators.codes import Codes, codes_of, combine, units_cut
from state.arrow_values import python_values
from state.columns import Texts, texts_of
from state.joined_rows import join_rows, number_texts
from state.multiset.numbered import Numbered
from state.multiset.spread import TEXT_BYTES_MAX, digest
from state.row_pieces import Piece, RowPieces, bytes_of_texts, integer_texts, row_texts
from state.types import INTEGER_BITS
from state.values import canonical_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.codec import RowCodec
    from state.types import LogicalType

_FEW_ROWS = 4
"""Up to so many rows are written one by one: starting Arrow's kernels would take longer."""


class Columns:
    """The columns of a batch with what was found out about them."""

    __slots__ = ("_constant", "_digests", "_numbers", "_texts", "arrays", "count", "types")

    def __init__(self, arrays: Sequence[pa.Array], types: Sequence[LogicalType]) -> None:
        self.arrays = tuple(plain_array(array) for array in arrays)
        self.types = tuple(types)
        self.count = len(self.arrays[0]) if self.arrays else 0
        self._constant: dict[int, bool] = {}
        self._texts: dict[int, str] = {}
        self._digests: dict[int, str] = {}
        self._numbers: dict[int, tuple[NDArray[np.int64], list[bytes]]] = {}
        """Of columns of whole numbers: the rows that were asked for last, and their texts."""

    def is_constant(self, column: int) -> bool:
        """Whether all rows of a column are known to be the same; cheap if they are not."""
        known = self._constant.get(column)
        if known is None:
            known = self._constant[column] = _is_constant(self.arrays[column])
        return known

    def codes(self, columns: Sequence[int]) -> Codes:
        """Codes of rows by some of the columns."""
        combined = Codes(np.zeros(self.count, np.int64), 1)
        for column in columns:
            if not self.is_constant(column):
                codes = codes_of(self.arrays[column], self.types[column])
                combined = codes if combined.bound == 1 else combine(combined, codes)
        return combined

    def telling(self, columns: Sequence[int], but: Sequence[int]) -> int | None:
        """A column that varies and whose values Arrow compares as we do; None if there is none."""
        for column in columns:
            exact = _is_exact(self.types[column], self.arrays[column].type)
            if exact and column not in but and not self.is_constant(column):
                return column
        return None

    def take(self, rows: NDArray[np.int64], columns: Sequence[int] | None = None) -> list[pa.Array]:
        """The rows at these positions, in this order."""
        chosen = range(len(self.arrays)) if columns is None else columns
        if is_all_in_place(rows, self.count):
            return [self.arrays[column] for column in chosen]
        return [
            self.arrays[column].slice(0, len(rows))
            if len(rows) <= self.count and self.is_constant(column)
            else _taken(self.arrays[column], rows)
            for column in chosen
        ]

    def are_equal(
        self, one: NDArray[np.int64], other: NDArray[np.int64], columns: Sequence[int]
    ) -> NDArray[np.bool_]:
        """Whether the rows at these positions are equal to those beside them, in some columns.

        Columns that are cheap to compare go first: mostly one of them tells all pairs apart.
        """
        left = np.arange(one.size)
        for column in sorted(columns, key=self._cost_of_comparing):
            if not left.size:
                break
            if not self.is_constant(column):
                array, logical = self.arrays[column], self.types[column]
                pair = (array.take(pa.array(each[left])) for each in (one, other))
                left = left[_are_same(logical, *pair)]
        equal = np.zeros(one.size, np.bool_)
        equal[left] = True
        return equal

    def _cost_of_comparing(self, column: int) -> int:
        kind = self.arrays[column].type
        return 0 if pa.types.is_integer(kind) else 1 if pa.types.is_string(kind) else 2

    def encode(
        self,
        codec: RowCodec,
        rows: NDArray[np.int64],
        columns: Sequence[int],
        before: Sequence[str | pa.Array] = (),
    ) -> pa.BinaryArray:
        """Canonical form of some columns of the rows at these positions.

        A column that repeats one value is written once.

        Args:
            codec: Of these columns.
            rows: Positions.
            columns: Which columns.
            before: Texts to write before each row, the same for all or one for each.
        """
        if rows.size <= _FEW_ROWS:
            pieces = [each if isinstance(each, str) else bytes_of_texts(each) for each in before]
            return pa.array(self._encode_few(codec, rows, columns, pieces), pa.binary())
        varying = [column for column in columns if not self.is_constant(column)]
        taken = dict(zip(varying, self.take(rows, varying), strict=True))
        texts: list[str | pa.Array] = [*before, "["]
        for number, (logical, column) in enumerate(zip(codec.types, columns, strict=True)):
            if number:
                texts.append(",")
            if column not in taken:
                texts.append(self._constant_text(logical, column))
            elif logical.root in INTEGER_BITS and _are_plain_numbers(taken[column]):
                texts.append(number_texts(taken[column]))
            else:
                texts += texts_of(logical, taken[column]).pieces()
        return _joined([*texts, "]"], rows.size)

    def pieces(
        self,
        codec: RowCodec,
        rows: NDArray[np.int64],
        columns: Sequence[int],
        before: Sequence[Piece],
    ) -> RowPieces:
        """As `encode`, in pieces: sooner done where many rows become one text."""
        if rows.size <= _FEW_ROWS:
            return RowPieces.whole(self._encode_few(codec, rows, columns, before))
        return RowPieces.of([*before, *self._row(codec, rows, columns)], rows.size)

    def encoded(
        self, codec: RowCodec, rows: NDArray[np.int64], columns: Sequence[int]
    ) -> list[bytes]:
        """As `encode`, as a list."""
        if rows.size <= _FEW_ROWS:
            return self._encode_few(codec, rows, columns)
        return row_texts(self._row(codec, rows, columns), rows.size)

    def shortened(
        self, codec: RowCodec, rows: NDArray[np.int64], columns: Sequence[int]
    ) -> list[bytes]:
        """As `encoded`, but long texts are given by digests: what histories are indexed by."""
        return row_texts(self._row(codec, rows, columns, is_short=True), rows.size)

    def numbered(
        self, codec: RowCodec, columns: Sequence[int], *, is_short: bool
    ) -> Numbered | None:
        """Canonical form of some columns of all rows, where one varies, and is of whole numbers.

        Args:
            codec: Of these columns.
            columns: Which columns.
            is_short: As `shortened` gives it, or as `encoded` does.
        """
        varying = [place for place, each in enumerate(columns) if not self.is_constant(each)]
        if len(varying) != 1:
            return None
        (place,) = varying
        array = self.arrays[columns[place]]
        if codec.types[place].root not in INTEGER_BITS or not _are_plain_numbers(array):
            return None
        text_of = self._short_constant if is_short else self._constant_text
        texts = [
            "" if number == place else text_of(logical, column)
            for number, (logical, column) in enumerate(zip(codec.types, columns, strict=True))
        ]
        before = "".join(["[", *(text + "," for text in texts[:place])])
        behind = "".join([*("," + text for text in texts[place + 1 :]), "]"])
        numbers = plain_numbers(array, array.type.to_pandas_dtype()).astype(np.int64, copy=False)
        return Numbered(before.encode(), behind.encode(), numbers)

    def _row(
        self,
        codec: RowCodec,
        rows: NDArray[np.int64],
        columns: Sequence[int],
        *,
        is_short: bool = False,
    ) -> list[Piece]:
        """Canonical form of some columns in pieces, with long texts as they are or by digests."""
        pieces: list[Piece] = ["["]
        for number, (logical, column) in enumerate(zip(codec.types, columns, strict=True)):
            if number:
                pieces.append(",")
            if not self.is_constant(column):
                pieces += self._pieces(logical, column, rows, is_short=is_short)
            elif is_short:
                pieces.append(self._short_constant(logical, column))
            else:
                pieces.append(self._constant_text(logical, column))
        return [*pieces, "]"]

    def _pieces(
        self, logical: LogicalType, column: int, rows: NDArray[np.int64], *, is_short: bool
    ) -> list[Piece]:
        """Canonical texts of a column that varies, at these positions."""
        array = self.arrays[column]
        if logical.root in INTEGER_BITS and _are_plain_numbers(array):
            return [self._number_texts(column, rows)]
        texts = texts_of(logical, _taken(array, rows))
        before, values, behind = (_shortened(texts) if is_short else texts).pieces()
        return [before, bytes_of_texts(values), behind]

    def _number_texts(self, column: int, rows: NDArray[np.int64]) -> list[bytes]:
        """Texts of plain numbers; a history's blocks and its index mostly want the same."""
        known = self._numbers.get(column)
        if known is not None and np.array_equal(known[0], rows):
            return known[1]
        array = self.arrays[column]
        texts = integer_texts(plain_numbers(array, array.type.to_pandas_dtype())[rows])
        self._numbers[column] = rows, texts
        return texts

    def _short_constant(self, logical: LogicalType, column: int) -> str:
        text = self._constant_text(logical, column)
        inside = text[1:-1] if text.startswith('"') else text
        if len(inside.encode()) <= TEXT_BYTES_MAX:
            return text
        known = self._digests.get(column)
        if known is None:
            known = self._digests[column] = digest(inside.encode())
        return f'"{known}"'

    def _encode_few(
        self,
        codec: RowCodec,
        rows: NDArray[np.int64],
        columns: Sequence[int],
        before: Sequence[Piece] = (),
    ) -> list[bytes]:
        places = rows.tolist()
        values = [
            [python_values(logical, self.arrays[column].slice(place, 1))[0] for place in places]
            for logical, column in zip(codec.types, columns, strict=True)
        ]
        encoded = [codec.encode(row) for row in zip(*values, strict=True)]
        if not before:
            return encoded
        heads = RowPieces.of(before, len(places)).texts()
        return [head + row for head, row in zip(heads, encoded, strict=True)]

    def _constant_text(self, logical: LogicalType, column: int) -> str:
        """The canonical text of a column that repeats one value."""
        text = self._texts.get(column)
        if text is None:
            value = python_values(logical, self.arrays[column].slice(0, 1))[0]
            text = orjson.dumps(canonical_encoder(logical)(value)).decode()
            self._texts[column] = text
        return text


def _joined(pieces: list[str | pa.Array], count: int) -> pa.BinaryArray:
    """`join_rows`, also where all pieces are the same for every row."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) == len(pieces):
        return pa.array(["".join(texts).encode()] * count, pa.binary())
    return join_rows(pieces)


def _taken(array: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    """The values at these positions; plain numbers without Arrow, whose start takes longer."""
    if _are_plain_numbers(array):
        return pa.array(plain_numbers(array, array.type.to_pandas_dtype())[rows])
    return array.take(pa.array(rows))


def _are_plain_numbers(array: pa.Array) -> bool:
    """Whether all values are there, and are whole numbers."""
    return pa.types.is_integer(array.type) and not array.null_count


def _shortened(texts: Texts) -> Texts:
    """Canonical texts of a column, the long ones by their digest."""
    lengths = np.diff(offsets_of(texts.texts))
    if not lengths.size or int(lengths.max()) <= TEXT_BYTES_MAX:
        return texts
    long = pc.greater(pc.binary_length(texts.texts), TEXT_BYTES_MAX).fill_null(False)
    digests = [digest(each) for each in texts.texts.filter(long).cast(pa.binary()).to_pylist()]
    if not texts.quoted:
        digests = [f'"{each}"' for each in digests]
    short = pc.replace_with_mask(texts.texts, long, pa.array(digests, pa.string()))
    return Texts(short, texts.quoted)


def is_all_in_place(rows: NDArray[np.int64], count: int) -> bool:
    """Whether these are the positions of all of so many rows, in their order."""
    if rows.size != count or not count or rows[0] or rows[-1] != count - 1:
        return False
    return np.array_equal(rows, np.arange(count))


def _is_exact(logical: LogicalType, kind: pa.DataType) -> bool:
    """Whether Arrow compares values of this type as we do."""
    return pa.types.is_string(kind) or (pa.types.is_integer(kind) and units_cut(logical) == 1)


def _are_same(logical: LogicalType, one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Whether two columns of one type have the same canonical values, row by row."""
    if not _is_exact(logical, one.type):
        one, other = (texts_of(logical, each).texts for each in (one, other))
    same = pc.equal(one, other).fill_null(False)
    if one.null_count and other.null_count:
        same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
    found: NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
    return found


def _is_constant(array: pa.Array) -> bool:
    """Whether all rows are the same: equal numbers, or bytes that repeat themselves."""
    kind = array.type
    if array.null_count:
        return False
    if pa.types.is_integer(kind):
        numbers = plain_numbers(array, kind.to_pandas_dtype())
        return bool(numbers.size) and bool((numbers == numbers[0]).all())
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return False
    if len(array) < 2:
        return bool(len(array))
    offsets = offsets_of(array)
    length = int(offsets[1] - offsets[0])
    # Ends are looked at first: columns that are not constant mostly differ in length.
    if int(offsets[-1] - offsets[0]) != length * len(array):
        return False
    if (offsets[1:] - offsets[:-1] != length).any():
        return False
    if not length:
        return True
    data, first = array.buffers()[2], int(offsets[0])
    rest = length * (len(array) - 1)
    return bool(data.slice(first, rest).equals(data.slice(first + length, rest)))
