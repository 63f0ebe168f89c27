"""Formats of files and of ingress: bytes in, columns and kinds out, refused lines aside.

changelog-json   {"op": "+I", "data": {column: value, ...}} a line; option `changelog-mode`
json             {column: value, ...} a line, inserts only
csv              one line a row, inserts only (`csv_lines`)
parquet          columns by name, inserts only
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.runtime.sources.spec import SourceSpec

LINE_FORMATS = frozenset({"changelog-json", "json", "csv"})
FORMATS = LINE_FORMATS | {"parquet"}

_MODE_NAMES = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}


def allowed_kinds(options: Mapping[str, str]) -> frozenset[RowKind]:
    """The kinds that a source may carry: its option `changelog-mode`, all if it is not given.

    Raises:
        InvalidTableOption: the option names something else than I, UB, UA and D.
    """
    text = options.get("changelog-mode", "I,UB,UA,D")
    names = [each.strip().upper() for each in text.split(",")]
    if not names or any(each not in _MODE_NAMES for each in names):
        raise InvalidTableOption(
            f'changelog-mode "{text}" is not a list of kinds', hint="for example I,UB,UA,D"
        )
    return frozenset(_MODE_NAMES[each] for each in names)


def format_of(options: Mapping[str, str]) -> str:
    """The table's format.

    Raises:
        InvalidTableOption: there is none.
        UnsupportedConnector: it is not one of ours.
    """
    name = options.get("format")
    if name is None:
        raise InvalidTableOption("the table has no format", hint=f"one of {sorted(FORMATS)}")
    if name not in FORMATS:
        raise UnsupportedConnector(
            f'format "{name}" is not supported', hint=f"one of {sorted(FORMATS)}"
        )
    return name


@dataclass(frozen=True, slots=True)
class DecodedLines:
    """What a block of lines holds; line numbers count from 0 within the block."""

    columns: Sequence[pa.Array]
    kinds: np.ndarray
    lines: np.ndarray
    """The line of each row."""
    rejected: Sequence[tuple[int, str]]


class LineDecoder:
    """Decodes blocks of whole JSON lines; kinds that the table may not carry are refused."""

    def __init__(self, spec: SourceSpec, *, with_op: bool) -> None:
        self._codec = RowCodec([parse_type(each) for each in spec.types], spec.names)
        self._with_op = with_op
        allowed = allowed_kinds(spec.options)
        self._mode = spec.options.get("changelog-mode", "")
        self._refused = np.array([each not in allowed for each in sorted(RowKind)])

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block."""
        found = self._codec.decode_json_lines(block, with_op=self._with_op)
        kinds, lines, columns = np.asarray(found.kinds), np.asarray(found.row_index), found.columns
        rejected = list(found.rejected)
        refused = self._refused[kinds]
        if refused.any():
            reason = 'kind {} is not in changelog-mode "{}"'
            rejected += [
                (int(lines[at]), reason.format(RowKind(int(kinds[at])).short, self._mode))
                for at in np.flatnonzero(refused)
            ]
            keep = ~refused
            kinds, lines = kinds[keep], lines[keep]
            columns = [each.filter(pa.array(keep)) for each in columns]
        return DecodedLines(columns, kinds, lines, sorted(rejected))
