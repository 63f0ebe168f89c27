"""Lines of JSON as columns and kinds, refused lines aside.

Apart from the names of formats, so that helpers of Spark's, which decode nothing, need not import
the codec.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from operators.unavailable import PLACEHOLDER
from service.runtime.sources.capture import canal_includes, debezium_types, is_in_payload
from service.runtime.sources.formats import (
    CANAL,
    CAPTURE_FORMATS,
    DEBEZIUM,
    MAXWELL,
    OGG,
    SCHEMA_INCLUDE,
    UNAVAILABLE,
    allowed_kinds,
)
from service.runtime.sources.key_moves import ChangeRows, KeyMoves
from service.runtime.sources.toast import Toast
from state import json_lines
from state.line_shapes import (
    CHANGES,
    PLAIN,
    CanalLines,
    DebeziumLines,
    MaxwellLines,
    OggLines,
)
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.sources.spec import SourceSpec
    from state.line_shapes import LineShape


@dataclass(frozen=True, slots=True)
class DecodedLines:
    """What a block of lines holds; line numbers count from 0 within the block."""

    columns: Sequence[pa.Array]
    kinds: np.ndarray
    lines: np.ndarray
    """The line of each row, growing."""
    rejected: Sequence[tuple[int, str]]

    @property
    def places(self) -> np.ndarray:
        """Of each row its place in its line, from 0."""
        at = np.arange(self.lines.size)
        is_first = np.diff(self.lines, prepend=-1) != 0
        return at - np.maximum.accumulate(np.where(is_first, at, 0))


class LineDecoder:
    """Decodes blocks of whole JSON lines; kinds that the table may not carry are refused."""

    def __init__(self, spec: SourceSpec, form: str) -> None:
        """Decode lines of one of our formats of JSON, by its name."""
        allowed = allowed_kinds(spec.options)
        # Where the key is not read, nobody behind may take a row's key for known.
        key = spec.primary_key if set(spec.primary_key) <= set(spec.names) else ()
        shape = _shape(form, spec, allowed, key)
        self.rows_max = shape.rows_max
        types = [parse_type(each) for each in spec.types]
        self._lines = json_lines.LineDecoder(types, spec.names, shape)
        self._moves = KeyMoves(
            [spec.names.index(each) for each in key],
            with_before=RowKind.UPDATE_BEFORE in allowed or form not in CAPTURE_FORMATS,
        )
        self._toast = None
        if form == DEBEZIUM:
            placeholder = spec.options.get(UNAVAILABLE, PLACEHOLDER)
            self._toast = Toast(placeholder, types, spec.names, is_left=spec.is_normalized)
        self._mode = spec.options.get("changelog-mode", "")
        self._refused = np.array([each not in allowed for each in sorted(RowKind)])

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block."""
        found = self._lines.decode(block)
        rows = ChangeRows(found.kinds, found.row_index, found.columns)
        rejected = list(found.rejected)
        if self._toast is not None:
            rows, unavailable = self._toast.settled(block, rows)
            rejected += unavailable
        rows = self._moves.settled(rows)
        kinds, lines, columns = rows.kinds, rows.lines, rows.columns
        refused = self._refused[kinds]
        if refused.any():
            reason = 'kind {} is not in changelog-mode "{}"'
            # A line is one dead letter, however many rows it has.
            said, first = np.unique(lines[refused], return_index=True)
            rejected += [
                (int(line), reason.format(RowKind(int(kind)).short, self._mode))
                for line, kind in zip(said, kinds[refused][first], strict=True)
            ]
            keep = ~refused
            kinds, lines = kinds[keep], lines[keep]
            columns = [each.filter(pa.array(keep)) for each in columns]
        return DecodedLines(columns, kinds, lines, sorted(rejected))


def _shape(
    form: str, spec: SourceSpec, allowed: frozenset[RowKind], key: Sequence[str]
) -> LineShape:
    with_before = RowKind.UPDATE_BEFORE in allowed
    if form == DEBEZIUM:
        in_payload = is_in_payload(spec.options.get(SCHEMA_INCLUDE))
        return DebeziumLines(
            with_before=with_before,
            key=key,
            in_payload=in_payload,
            columns=dict(zip(spec.names, map(parse_type, spec.types), strict=True)),
            types=debezium_types(spec.options),
        )
    if form == MAXWELL:
        return MaxwellLines(with_before=with_before, key=key)
    if form == CANAL:
        included = canal_includes(spec.options)
        return CanalLines(with_before=with_before, key=key, included=included)
    if form == OGG:
        return OggLines(with_before=with_before, key=key)
    return CHANGES if form == "changelog-json" else PLAIN
