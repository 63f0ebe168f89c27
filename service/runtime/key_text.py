"""Keys as clients write them in addresses, and as answers show them.

One convention, told in OpenAPI too:

    /keys/N14228            a key of one column: its text, percent-encoded; integers as digits,
                            BOOLEAN as true or false, times as rows show them
    /keys/JFK,LAX           a key of several columns: their texts with commas between, where no text
                            holds a comma itself
    /keys/-?key=["a,b",1]   any key: a JSON array with a value for each column, percent-encoded

Lists give each key's own address, in the shortest form that is good for it, so that clients need
not make any. Nulls, nested values, and texts that are empty, `.`, `..` or hold a slash have only
the long form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from service.runtime.inspection_errors import KeyMalformed
from state.codec import CodecError, RowCodec
from state.types import TIMESTAMP_ROOTS, TypeRoot
from state.values import canonical_decoder, shown_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.types import LogicalType

LONG_FORM = "-"
"""What stands in the place of the key where `?key=` gives it."""

_NESTED = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW})
_BARE = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INTEGER,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
    }
)


class ShownRow:
    """Canonical rows as answers show them: typed values by column name.

    Most values look the same in both forms; only those of some types are converted (`state.values`
    has the table). A history has many rows, and this is most of what showing it costs.
    """

    def __init__(self, types: Sequence[LogicalType], names: Sequence[str]) -> None:
        self.codec = RowCodec(types, names)
        converts = [(place, _from_canonical(each)) for place, each in enumerate(types)]
        self._converts = [(place, each) for place, each in converts if each is not None]

    def values(self, canonical: bytes) -> list[Any]:
        """The values in the columns' order.

        Raises:
            CodecError: the bytes are no canonical row of these columns.
        """
        values: list[Any] = orjson.loads(canonical)
        if len(values) != len(self.codec.names):
            raise CodecError(None, f"a row of {len(self.codec.names)} values", "another one")
        for place, convert in self._converts:
            if values[place] is not None:
                values[place] = convert(values[place])
        return values

    def row(self, canonical: bytes) -> dict[str, Any]:
        """The values by column name."""
        return dict(zip(self.codec.names, self.values(canonical), strict=True))


class KeyText:
    """Reads and writes the keys of some columns."""

    def __init__(self, types: Sequence[LogicalType], names: Sequence[str]) -> None:
        self.shown = ShownRow(types, names)
        self._types = tuple(types)

    @property
    def codec(self) -> RowCodec:
        """The canonical form of the keys."""
        return self.shown.codec

    def parse(self, text: str, query: str | None) -> tuple[Any, ...]:
        """The values of a key from the two places of an address.

        Raises:
            KeyMalformed: they are no key of these columns.
        """
        if query is None:
            found: list[Any] = self._from_text(text)
        elif text != LONG_FORM:
            raise KeyMalformed(
                "the address gives the key twice", hint="use /keys/-?key=[...] alone"
            )
        else:
            found = self._from_json(query)
        try:
            return tuple(self.codec.decode_json(found))
        except CodecError as error:
            raise KeyMalformed(str(error)) from error

    def href(self, values: Sequence[Any]) -> str:
        """The last part of a key's address, from values as they are shown."""
        texts = [_text(value) for value in values]
        if None in texts or any(each in _NESTED for each in self._roots()):
            return self._long(values)
        joined = ",".join(each for each in texts if each is not None)
        commas = len(values) > 1 and joined.count(",") != len(values) - 1
        if commas or "/" in joined or joined in ("", ".", "..", LONG_FORM):
            return self._long(values)
        return quote(joined, safe=",")

    def prefix(self, text: str) -> bytes:
        """What canonical keys begin with whose first column begins with this text."""
        root = self._types[0].root if self._types else None
        if root is None or root in _BARE or not text:
            return b"[" + text.encode("utf-8", "replace")
        if root in TIMESTAMP_ROOTS:
            text = text.replace(" ", "T", 1)
        return b"[" + orjson.dumps(text.encode("utf-8", "replace").decode())[:-1]

    def _roots(self) -> list[TypeRoot]:
        return [each.root for each in self._types]

    def _long(self, values: Sequence[Any]) -> str:
        return f"{LONG_FORM}?key={quote(orjson.dumps(list(values)).decode(), safe='')}"

    def _from_json(self, query: str) -> list[Any]:
        try:
            found = orjson.loads(query.encode("utf-8", "surrogatepass"))
        except orjson.JSONDecodeError as error:
            raise KeyMalformed(
                "the parameter key is not JSON", hint=f"an array of {self._columns()}"
            ) from error
        if not isinstance(found, list) or len(found) != len(self._types):
            raise KeyMalformed(f"the parameter key is not an array of {self._columns()}")
        return found

    def _from_text(self, text: str) -> list[Any]:
        parts = [text] if len(self._types) == 1 else text.split(",")
        if len(parts) != len(self._types):
            raise KeyMalformed(
                f"the key in the path has {len(parts)} parts, but the key has {self._columns()}",
                hint="write it as /keys/-?key=[...] if a value has a comma",
            )
        return [_typed(root, part) for root, part in zip(self._roots(), parts, strict=True)]

    def _columns(self) -> str:
        return f"{len(self._types)} columns: {', '.join(self.codec.names)}"


def _from_canonical(logical: LogicalType) -> Callable[[Any], Any] | None:
    """What turns a canonical value that is not null into the shown one; None if they are equal."""
    if logical.root in TIMESTAMP_ROOTS:
        return _with_blank
    if logical.root not in _NESTED:
        return None
    decode, show = canonical_decoder(logical), shown_encoder(logical)
    return lambda value: show(value if decode is None else decode(value))


def _with_blank(text: str) -> str:
    return text.replace("T", " ", 1)


def _typed(root: TypeRoot, text: str) -> Any:
    """A text as the JSON value that the codec takes for a column of this type."""
    if root in _NESTED:
        raise KeyMalformed("a nested key is written as /keys/-?key=[...]")
    if root is TypeRoot.BOOLEAN and text in ("true", "false"):
        return text == "true"
    return text


def _text(value: object) -> str | None:
    """The text of a shown value; None if it has only the long form."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return orjson.dumps(value).decode()
    return None
