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
from service.runtime.sources.formats import allowed_kinds
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.sources.spec import SourceSpec


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
