"""Rows as operators keep them: canonical bytes in state, values only where they are looked at.

A canonical row is JSON on one line, so that state needs no codec of its own for it: what is stored
is the row's text, `[7,"AA",null]`. An operator encodes each row that comes once and hands bytes
on; equal rows are equal bytes. What it reads it decodes once an epoch, however often it meets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.spec import RowSpec
from state.errors import StateCorrupt
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange
    from state.codec import RowCodec
    from state.types import LogicalType


class StoredRows:
    """Rows of these columns: the canonical row, one UTF-8 JSON array on one line.

    Cost: as `RowCodec.encode`, 1 to 2 microseconds for a short row.
    """

    __slots__ = ("_codec", "_known_row", "_known_text", "name")

    def __init__(self, row: RowSpec) -> None:
        self._codec = row.codec()
        self.name = f"row {', '.join(map(format_type, row.types))}"
        """What the bytes depend on: the types. Names of columns are not stored."""
        self._known_row: Row | None = None
        self._known_text = b""

    def know(self, change: InputChange) -> None:
        """Encode the row of a change, from here on, as the text that was made for its batch."""
        self._known_row, self._known_text = change.row, change.text

    def encode(self, value: Sequence[Any]) -> bytes:
        """A row as its canonical bytes: equal rows have equal ones.

        Raises:
            CodecError: A value is not of its column's type.
        """
        if value is self._known_row:
            return self._known_text
        return self._codec.encode(value)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The row of such bytes.

        Raises:
            CodecError: They are no row of these columns.
        """
        return self._codec.decode(data)

    def shown(self, data: bytes) -> Any:
        """The row by its columns."""
        return self._codec.shown(data)


class StoredValues(StoredRows):
    """Values of these types, which no columns name: arguments of an aggregate function."""

    __slots__ = ()

    def __init__(self, types: Sequence[LogicalType]) -> None:
        super().__init__(RowSpec(types=tuple(types), names=tuple(map(str, range(len(types))))))

    def shown(self, data: bytes) -> list[Any]:
        """The values."""
        return list(self._codec.shown(data).values())


class _RowShown:
    """Canonical rows by their columns, for people; the codec is made when the first is shown."""

    __slots__ = ("_codec", "_row")

    def __init__(self, row: RowSpec) -> None:
        self._row = row
        self._codec: RowCodec | None = None

    def __call__(self, data: bytes) -> dict[str, Any]:
        if self._codec is None:
            self._codec = self._row.codec()
        return self._codec.shown(data)


class CanonicalText:
    """A codec of canonical rows that are bytes already: what is stored is what is given."""

    __slots__ = ("_shown", "name")

    def __init__(self, row: RowSpec) -> None:
        self._shown = _RowShown(row)
        self.name = f"row {', '.join(map(format_type, row.types))}"

    def encode(self, value: bytes) -> bytes:
        """The row's text."""
        return value

    def decode(self, data: bytes) -> bytes:
        """The row's text."""
        return data

    def shown(self, data: bytes) -> dict[str, Any]:
        """The row by its columns."""
        return self._shown(data)


class CountedText:
    """A codec of canonical rows with a number beside each: `[2,[7,"AA"]]`.

    >>> from operators.spec import RowSpec
    >>> codec = CountedText(RowSpec(types=("INT",), names=("a",)))
    >>> codec.encode((2, b"[7]")), codec.decode(b"[2,[7]]")
    (b'[2,[7]]', (2, b'[7]'))
    >>> codec.shown(b"[2,[7]]")
    {'number': 2, 'row': {'a': 7}}

    Args:
        row: The rows' columns.
        counted: What the number is called where people see it.
    """

    __slots__ = ("_counted", "_shown", "name")

    def __init__(self, row: RowSpec, counted: str = "number") -> None:
        self._counted = counted
        self._shown = _RowShown(row)
        self.name = f"number, row {', '.join(map(format_type, row.types))}"

    def encode(self, value: tuple[int, bytes]) -> bytes:
        """The number and the row in one array."""
        return b"[%d,%b]" % value

    def decode(self, data: bytes) -> tuple[int, bytes]:
        """The number and the row.

        Raises:
            StateCorrupt: It is no such array.
        """
        number, _, row = data[1:-1].partition(b",")
        try:
            return int(number), row
        except ValueError:
            raise StateCorrupt("a stored row has no number beside it") from None

    def shown(self, data: bytes) -> dict[str, Any]:
        """The number by its name, and the row by its columns."""
        number, row = self.decode(data)
        return {self._counted: number, "row": self._shown(row)}


class RowText:
    """Rows of these columns to and from canonical bytes; decodes equal bytes once an epoch."""

    def __init__(self, row: RowSpec) -> None:
        self._codec = row.codec()
        self._known: dict[bytes, Row] = {}
        self.encode = self._codec.encode

    def begin(self) -> None:
        """Forget what the epoch before has met."""
        self._known = {}

    def decode(self, data: bytes) -> Row:
        """The values of a canonical row."""
        row = self._known.get(data)
        if row is None:
            row = self._known[data] = self._codec.decode(data)
        return row


class KindText:
    """A codec of canonical rows with their kind: `["+U",["EUR",110]]`.

    >>> from operators.spec import RowSpec
    >>> codec = KindText(RowSpec(types=("INT",), names=("a",)))
    >>> codec.encode(("+U", b"[7]")), codec.decode(b'["+U",[7]]')
    (b'["+U",[7]]', ('+U', b'[7]'))
    """

    __slots__ = ("_shown", "name")

    def __init__(self, row: RowSpec) -> None:
        self._shown = _RowShown(row)
        self.name = f"kind, row {', '.join(map(format_type, row.types))}"

    def encode(self, value: tuple[str, bytes]) -> bytes:
        """The kind and the row in one array."""
        return b'["%b",%b]' % (value[0].encode(), value[1])

    def decode(self, data: bytes) -> tuple[str, bytes]:
        """The kind and the row."""
        return data[2:4].decode(), data[6:-1]

    def shown(self, data: bytes) -> dict[str, Any]:
        """The kind, and the row by its columns."""
        kind, row = self.decode(data)
        return {"op": kind, "row": self._shown(row)}


class WaitingText:
    """A codec of canonical rows with their place in the order of arrival, and their kind.

    >>> from operators.spec import RowSpec
    >>> codec = WaitingText(RowSpec(types=("INT",), names=("a",)))
    >>> codec.encode((3, "-D", b"[7]")), codec.decode(b'[3,"-D",[7]]')
    (b'[3,"-D",[7]]', (3, '-D', b'[7]'))
    """

    __slots__ = ("_shown", "name")

    def __init__(self, row: RowSpec) -> None:
        self._shown = _RowShown(row)
        self.name = f"number, kind, row {', '.join(map(format_type, row.types))}"

    def encode(self, value: tuple[int, str, bytes]) -> bytes:
        """Number, kind and row in one array."""
        number, kind, row = value
        return b'[%d,"%b",%b]' % (number, kind.encode(), row)

    def decode(self, data: bytes) -> tuple[int, str, bytes]:
        """Number, kind and row.

        Raises:
            StateCorrupt: It is no such array.
        """
        number, _, rest = data[1:-1].partition(b",")
        try:
            return int(number), rest[1:3].decode(), rest[5:]
        except ValueError:
            raise StateCorrupt("a row that waits has no number before it") from None

    def shown(self, data: bytes) -> dict[str, Any]:
        """Number and kind, and the row by its columns."""
        number, kind, row = self.decode(data)
        return {"number": number, "op": kind, "row": self._shown(row)}
