"""Testing aid: lines of JSON that carry their time in a field (`testing.time-field`).

A line without a time belongs to no epoch that a recorded run had. It goes with the lines before it,
or with the first that has a time, and there it is a dead letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from service.runtime.sources.decoding import DecodedLines

if TYPE_CHECKING:
    from service.runtime.sources.decoding import LineDecoder


def time_in(line: bytes, field: str) -> int | None:
    """The time in ms that a line carries, or None: it is no object, or the field is no integer."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    time = found.get(field) if isinstance(found, dict) else None
    return time if type(time) is int else None


class TimedLineDecoder:
    """Decodes blocks of lines; those without a time are refused."""

    def __init__(self, decoder: LineDecoder, field: str) -> None:
        self._decoder = decoder
        self._field = field

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block."""
        found = self._decoder.decode(block)
        lines = block.split(b"\n")
        keep = np.array([time_in(lines[n], self._field) is not None for n in found.lines], bool)
        reason = f'"{self._field}" must be a time in ms'
        refused = [(int(each), reason) for each in found.lines[~keep]]
        return DecodedLines(
            [each.filter(pa.array(keep)) for each in found.columns],
            found.kinds[keep],
            found.lines[keep],
            sorted([*found.rejected, *refused]),
        )
