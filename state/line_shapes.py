"""Where a line of outside JSON has its rows, and what kinds of change they are.

    PLAIN       {column: value, ...}                            the row, +I
    CHANGES     {"op": "+I", "data": {...}}                     a row of that kind
    Debezium    {"op": "u", "before": {...}, "after": {...}}    what a database says of a change
    OGG         {"op_type": "U", "before": {...}, "after": {...}}    the same
    Maxwell     {"type": "update", "data": {...}, "old": {...}}    the row, and what it was where
                                                                   that differs
    Canal       {"type": "UPDATE", "data": [{...}, ...], "old": [{...}, ...]}    likewise, of all
                                                                   rows that a statement changed

Each shape is written down twice: for one parsed line, and for the columns that Arrow reads of a
block of lines. The second may give up; the first then says what is wrong with which line. Canal's
is written down once: it has numbers as texts, which Arrow does not read.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.debezium_types import may_name_types, named_types
from state.values import CodecError, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from state.debezium_types import DebeziumType
    from state.types import LogicalType

KINDS = ("+I", "-U", "+U", "-D")
"""The `op` of a change, at the index that is its `RowKind`."""
_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = range(4)
_KIND_CODES = {name: code for code, name in enumerate(KINDS)}


class BadLine(Exception):
    """A line that is no change at all, whatever the columns are."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ShapedRows:
    """The rows of a block, in columns."""

    kinds: NDArray[np.int8]
    columns: Sequence[pa.Array]
    lines: NDArray[np.int64]
    """The line of each row; those of one line stand together."""


class LineShape(ABC):
    """A shape of lines."""

    rows_max: int = 1
    """Rows of a line at most."""

    def is_columnar(self, block: bytes) -> bool:
        """Whether columns tell all that the lines of a block do; null and missing are one there."""
        return True

    @abstractmethod
    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """What Arrow is to read of a line, where the row's columns are these."""

    @abstractmethod
    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """The rows of a block, out of the columns read; None if a line may be no change."""

    @abstractmethod
    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """Kind and row of each change of a parsed line; none where it is of no concern.

        Raises:
            BadLine: it is no change.
        """


class _Plain(LineShape):
    """The line is the row."""

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        return list(row)

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        count = len(columns[0])
        return ShapedRows(np.zeros(count, np.int8), columns, np.arange(count))

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        return [(_INSERT, document)]


class _Changes(LineShape):
    """Each line says its kind."""

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        return [pa.field("op", pa.string()), pa.field("data", pa.struct(list(row)))]

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        op, data = columns
        codes = pc.index_in(op, pa.array(KINDS))
        if codes.null_count or data.null_count:
            return None
        kinds = codes.to_numpy().astype(np.int8)
        return ShapedRows(kinds, data.flatten(), np.arange(kinds.size))

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        op = document.get("op")
        kind = _KIND_CODES.get(op) if isinstance(op, str) else None
        if kind is None:
            raise BadLine('"op" must be one of +I -U +U -D')
        return [(kind, _object_in(document, "data"))]


class _ImageLines(LineShape):
    """Lines with the row before a change and the row after it, of which an update has both."""

    rows_max = 2
    _member: str
    """What says the kind of change."""
    _inserts: tuple[str, ...]
    _update: str
    _delete: str

    def __init__(self, *, with_before: bool = True, key: Sequence[str] = ()) -> None:
        """Say how the lines are to be read.

        Args:
            with_before: Whether each update gives its -U; else only one that moves its row to
                another key, and of others nobody asks what the row was.
            key: The primary key; empty where nobody asks for it.
        """
        self._with_before = with_before
        self._key = () if with_before else tuple(key)
        self._words = (*self._inserts, self._update, self._delete)

    def _rows(
        self, word: pa.Array, before: pa.Array, after: pa.Array, was: pa.Array | None = None
    ) -> ShapedRows | None:
        """The rows of a block, out of its words and both rows of each line.

        Args:
            word: What kind of change each line is.
            before: The row before it.
            after: The row after it.
            was: What tells the key before an update, unless it is `before`.
        """
        codes = pc.index_in(word, pa.array(self._words))
        if codes.null_count:
            return None
        code = codes.to_numpy()
        is_update, is_delete = (code == self._words.index(w) for w in (self._update, self._delete))
        if (is_update & self._may_move(before if was is None else was, after)).any():
            return None
        given = np.column_stack((is_delete | (is_update & self._with_before), ~is_delete))
        kinds = np.column_stack(
            (
                np.where(is_delete, _DELETE, _UPDATE_BEFORE),
                np.where(is_update, _UPDATE_AFTER, _INSERT),
            )
        )
        images = np.arange(given.size).reshape(2, -1).T[given]
        rows = pa.concat_arrays([before, after]).take(pa.array(images))
        if rows.null_count:
            return None
        return ShapedRows(kinds[given].astype(np.int8), rows.flatten(), np.nonzero(given)[0])

    def _may_move(self, before: pa.Array, after: pa.Array) -> NDArray[np.bool_]:
        """Whether the lines name other keys before than after; not where all have their -U."""
        found = np.zeros(len(after), np.bool_)
        for name in self._key:
            at = after.type.get_field_index(name)
            differ = pc.not_equal(before.flatten()[at], after.flatten()[at])
            found |= pc.fill_null(differ, fill_value=False).to_numpy(zero_copy_only=False)
        return found

    def _kind_in(self, event: dict[str, Any]) -> int:
        """The kind of a line's change; an update counts as its +U."""
        word = event.get(self._member)
        if word == self._update:
            return _UPDATE_AFTER
        if word == self._delete:
            return _DELETE
        if word in self._inserts:
            return _INSERT
        raise BadLine(f'"{self._member}" must be one of {" ".join(self._words)}')


class _EventLines(_ImageLines):
    """Both rows are members of the line, `before` and `after`."""

    _without_before: str
    """What to do about a line that lacks the row before."""
    _without_after = ""
    """What to do about a line that lacks the row after."""

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """See `LineShape`."""
        image = pa.struct(list(row))
        return [pa.field(self._member, pa.string())] + [
            pa.field(each, image) for each in ("before", "after")
        ]

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """See `LineShape`."""
        return self._rows(*columns)

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """See `LineShape`."""
        kind = self._kind_in(document)
        found = []
        gives_before = self._with_before or _moves(self._key, document, "before", "after")
        if kind == _DELETE or (kind == _UPDATE_AFTER and gives_before):
            of = "a delete" if kind == _DELETE else "an update"
            before = self._image(document, "before", of, self._without_before)
            found.append((_DELETE if kind == _DELETE else _UPDATE_BEFORE, before))
        if kind != _DELETE:
            of = "an update" if kind == _UPDATE_AFTER else "an insert"
            found.append((kind, self._image(document, "after", of, self._without_after)))
        return found

    def _image(self, event: dict[str, Any], name: str, of: str, advice: str) -> dict[str, Any]:
        """A row of an event, of which the kind says that it must be there."""
        found = event.get(name)
        if isinstance(found, dict):
            return found
        if found is None:
            missing = "is null" if name in event else "is missing"
            raise BadLine(f'"{name}" {missing}, and {of} needs it{advice}')
        raise BadLine(f'"{name}" must be an object, found {kind_of(found)}')


class DebeziumLines(_EventLines):
    """Events of Debezium's connectors: `c` and `r` are a +I, `u` a -U and a +U, `d` a -D.

    What else an event has (its source, transaction and times) is passed over. Values that do not
    say what they are become what their columns take (`debezium_types`), by the schema beside the
    event or by what the table says of a column.

    Source: Debezium's "change event structure"; Flink `DebeziumJsonDeserializationSchema`.
    """

    _member = "op"
    _inserts = ("c", "r")
    _update = "u"
    _delete = "d"
    _without_before = (
        "; PostgreSQL sends it whole with REPLICA IDENTITY FULL, "
        'and changelog-mode "I,UA,D" asks for the key of deletes alone'
    )

    def __init__(
        self,
        *,
        with_before: bool = True,
        key: Sequence[str] = (),
        in_payload: bool = False,
        columns: Mapping[str, LogicalType] | None = None,
        types: Mapping[str, DebeziumType] | None = None,
    ) -> None:
        """Say how the lines are to be read.

        Args:
            with_before: See `OggLines`.
            key: See `OggLines`.
            in_payload: Whether the event is the member `payload` of the line, beside its schema.
            columns: The table's columns.
            types: What some of them are, where no schema says it.
        """
        super().__init__(with_before=with_before, key=key)
        self._in_payload = in_payload
        self._columns = columns or {}
        self._types = types or {}

    def is_columnar(self, block: bytes) -> bool:
        """See `LineShape`."""
        return not self._types and not (self._in_payload and may_name_types(block))

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """See `LineShape`."""
        event = super().fields(row)
        return [pa.field("payload", pa.struct(event))] if self._in_payload else event

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """See `LineShape`."""
        return super().rows(columns[0].flatten() if self._in_payload else columns)

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """See `LineShape`."""
        event = self._event(document)
        schema = document.get("schema") if self._in_payload else None
        return [
            (
                kind,
                self._converted(row, schema, "before" if row is event.get("before") else "after"),
            )
            for kind, row in super().changes(event)
        ]

    def _converted(self, row: dict[str, Any], schema: object, member: str) -> dict[str, Any]:
        """The row, with what columns take in place of values that do not say what they are."""
        types: dict[str, tuple[DebeziumType, int | None]]
        types = {name: (each, None) for name, each in self._types.items()}
        types |= named_types(schema, member)
        found = row
        for name, (each, scale) in types.items():
            logical = self._columns.get(name)
            if logical is None or name not in row:
                continue
            try:
                value = each.value(row[name], logical, scale)
            except CodecError as error:
                raise BadLine(str(error.in_column(name))) from None
            if found is row:
                found = dict(row)
            found[name] = value
        return found

    def _event(self, document: dict[str, Any]) -> dict[str, Any]:
        """The event of a line; says so where it is none, or is not where options say."""
        if not self._in_payload:
            if "op" not in document and {"schema", "payload"} <= document.keys():
                raise BadLine(
                    'the event is in "payload", beside its "schema"; set option '
                    "debezium-json.schema-include to true, or the converter's schemas.enable to "
                    "false"
                )
            self._check_op(document)
            return document
        if "payload" not in document:
            bare = ", as the line is the event itself" if "op" in document else ""
            raise BadLine(
                f'"payload" is missing; set option debezium-json.schema-include to false{bare}'
            )
        if document["payload"] is None:
            raise BadLine('"payload" is null: a tombstone, which is no change')
        event = _object_in(document, "payload")
        self._check_op(event)
        return event

    def _check_op(self, event: dict[str, Any]) -> None:
        if "op" in event:
            return
        if not {"before", "after"} & event.keys():
            raise BadLine(
                '"op" is missing, and so are "before" and "after": it is no event of Debezium\'s, '
                "or one that a transform has unwrapped (ExtractNewRecordState)"
            )
        raise BadLine('"op" is missing')


class OggLines(_EventLines):
    """Changes as Oracle GoldenGate writes them: `I` is a +I, `U` a -U and a +U, `D` a -D.

    Source: GoldenGate's "JSON formatter", operation by row; Flink `OggJsonDeserializationSchema`.
    """

    _member = "op_type"
    _inserts = ("I",)
    _update = "U"
    _delete = "D"
    _without_before = '; changelog-mode "I,UA,D" asks for the key of deletes alone'


class MaxwellLines(_ImageLines):
    """Changes as Maxwell writes them: `insert`, `update` and `delete`, with the row in `data`.

    An update has in `old` what the row was before in the columns that it changed, so its -U is
    `data` with them. A column that was null before is there as null.

    Source: Maxwell's "data format"; Flink `MaxwellJsonDeserializationSchema`, which takes a column
    for changed wherever below `old` its name stands.
    """

    _member = "type"
    _inserts = ("insert",)
    _update = "update"
    _delete = "delete"
    _OLD_WITH_NULL = re.compile(rb'^(?>[^\n]*?"old")[^\n]*null', re.MULTILINE)
    """A line that may have an old value that is null."""

    def is_columnar(self, block: bytes) -> bool:
        """See `LineShape`."""
        # An escape may be part of a name.
        has_old_nulls = b"\\u" in block or self._OLD_WITH_NULL.search(block)
        return not (self._with_before and has_old_nulls)

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """See `LineShape`."""
        image = pa.struct(list(row))
        return [pa.field(self._member, pa.string())] + [
            pa.field(each, image) for each in ("data", "old")
        ]

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """See `LineShape`."""
        word, data, old = columns
        if not self._with_before:
            return self._rows(word, data, data, old)
        is_update = pc.fill_null(pc.equal(word, self._update), fill_value=False)
        if pc.any(pc.and_(is_update, pc.is_null(old))).as_py():
            return None
        was = [
            pc.if_else(pc.and_(is_update, pc.is_valid(before)), before, after)
            for before, after in zip(old.flatten(), data.flatten(), strict=True)
        ]
        before = pa.StructArray.from_arrays(was, fields=list(data.type), mask=pc.is_null(data))
        return self._rows(word, before, data)

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """See `LineShape`."""
        kind, data = self._kind_in(document), _object_in(document, "data")
        gives_before = self._with_before or _moves(self._key, document, "old", "data")
        if kind != _UPDATE_AFTER or not gives_before:
            return [(kind, data)]
        return [(_UPDATE_BEFORE, {**data, **_object_in(document, "old")}), (_UPDATE_AFTER, data)]


class CanalLines(LineShape):
    """Changes as Canal writes them: INSERT, UPDATE and DELETE, of all rows in `data`.

    An UPDATE has in `old`, for each row, what it was before in the columns that it changed. CREATE
    tells of a table's definition, and is passed over.

    Source: Canal's flat messages; Flink `CanalJsonDeserializationSchema`, which takes a column for
    changed wherever below `old` its name stands.
    """

    rows_max = 4_096
    """As many as an event of MySQL's binary log has, and more; it has at most 8 KiB by default."""
    _KINDS: ClassVar = {"INSERT": _INSERT, "UPDATE": _UPDATE_AFTER, "DELETE": _DELETE}

    def __init__(
        self,
        *,
        with_before: bool = True,
        key: Sequence[str] = (),
        included: Mapping[str, re.Pattern[str]] | None = None,
    ) -> None:
        """Say how the lines are to be read.

        Args:
            with_before: See `OggLines`.
            key: See `OggLines`.
            included: What members `database` and `table` must match; others are passed over.
        """
        self._with_before = with_before
        self._key = () if with_before else tuple(key)
        self._included = included or {}

    def is_columnar(self, block: bytes) -> bool:
        """See `LineShape`."""
        return False

    def fields(self, row: Sequence[pa.Field]) -> list[pa.Field]:
        """See `LineShape`."""
        return []

    def rows(self, columns: Sequence[pa.Array]) -> ShapedRows | None:
        """See `LineShape`."""
        return None

    def changes(self, document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
        """See `LineShape`."""
        for member, pattern in self._included.items():
            if member not in document:
                raise BadLine(f'"{member}" is missing')
            # As Flink names it.
            name = "null" if document[member] is None else document[member]
            if not isinstance(name, str):
                raise BadLine(f'"{member}" must be a string, found {kind_of(name)}')
            if pattern.fullmatch(name) is None:
                return []
        word = document.get("type")
        if word == "CREATE":
            return []
        kind = self._KINDS.get(word) if isinstance(word, str) else None
        if kind is None:
            raise BadLine(f'"type" must be one of {" ".join(self._KINDS)} CREATE')
        data = _objects_in(document, "data")
        if kind != _UPDATE_AFTER or not (self._with_before or self._key):
            return self._checked([(kind, row) for row in data])
        is_told = self._with_before or isinstance(document.get("old"), list)
        old = _objects_in(document, "old") if is_told else []
        if len(old) < len(data) and self._with_before:
            raise BadLine(f'"old" has {len(old)} rows, and "data" {len(data)}')
        found = []
        unsaid: list[dict[str, Any]] = [{}] * (len(data) - len(old))
        for row, was in zip(data, old + unsaid, strict=False):
            if self._with_before or _differ(self._key, was, row):
                found.append((_UPDATE_BEFORE, {**row, **was}))
            found.append((_UPDATE_AFTER, row))
        return self._checked(found)

    def _checked(self, found: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
        if len(found) > self.rows_max:
            raise BadLine(f"{len(found)} changes in one line; {self.rows_max} are allowed")
        return found


PLAIN: LineShape = _Plain()
CHANGES: LineShape = _Changes()


def _object_in(document: dict[str, Any], name: str, advice: str = "") -> dict[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise BadLine(f'"{name}" must be an object, found {kind_of(found)}{advice}')
    return found


def _moves(key: Sequence[str], document: dict[str, Any], before: str, after: str) -> bool:
    """Whether the members of a line for the row before and after name different keys."""
    was, row = document.get(before), document.get(after)
    return isinstance(was, dict) and isinstance(row, dict) and _differ(key, was, row)


def _differ(key: Sequence[str], was: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a row had another key; what is not said of the row before has not changed."""
    return any(was.get(name) not in (None, row.get(name)) for name in key)


def _objects_in(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = document.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadLine(f'"{name}" must be an array of objects')
    return found
