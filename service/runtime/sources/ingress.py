"""`ingress`: changes that came over HTTP and wait in a Redis stream.

The API appends entries `{"n": line count, "d": NDJSON lines}`. An epoch takes whole entries, so one
request's changes are never torn apart; an entry with more rows than the limit is an epoch by
itself. Entries are deleted once Spark has recorded the epoch that read them and the marker says
that it is closed: a Redis that came back with less than Spark knows of needs them still. Offsets
also count the rows, which shows on a replay whether the stream still holds what it held.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from service.runtime.connections import redis_of
from service.runtime.dataflow_errors import SourceChanged
from service.runtime.slot_keys import ingress_key
from service.runtime.sources.base import (
    ChangeReader,
    Chunk,
    Offset,
    Rejected,
    closed_end,
    redis_errors,
)
from service.runtime.sources.formats import ingress_format
from state.backends.byte_client import byte_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sources.decoding import LineDecoder

_START = "0-0"
_ROWS_PER_TASK_MIN = 2_000
_ENTRIES_PER_READ = 256


@dataclass(frozen=True, slots=True)
class StreamCut:
    """Entries behind one id up to another, and how many rows of the epoch come before them."""

    behind: str
    last: str
    rows_before: int
    rows: int


class IngressReader(ChangeReader[StreamCut]):
    """Changes from the table's stream, in the order of their acceptance."""

    def first_offset(self) -> Offset:
        """Everything in the stream: changes may have come before the first start."""
        return {"id": _START, "rows": 0}

    def advance(self, start: Offset, rows_max: int | None) -> Offset:
        """The last entry that the limit allows."""
        runs = self._runs(start["id"], "+", -1 if rows_max is None else rows_max, 1 << 53)
        if not runs:
            return {"id": start["id"], "rows": start["rows"]}
        return {"id": runs[-1][0], "rows": start["rows"] + sum(count for _, count in runs)}

    def cuts(self, start: Offset, end: Offset) -> list[list[StreamCut]]:
        """Runs of entries, one a task."""
        due = end["rows"] - start["rows"]
        if end["id"] == start["id"]:
            return []
        per_task = max(_ROWS_PER_TASK_MIN, -(-due // self.spec.partitions))
        work: list[list[StreamCut]] = []
        behind, before = start["id"], 0
        for last, count in self._runs(behind, end["id"], -1, per_task):
            work.append([StreamCut(behind, last, before, count)])
            behind, before = last, before + count
        if before != due:
            raise SourceChanged(f"{self.spec.table}: the stream holds {before} of {due} rows")
        return work

    def read_cut(self, cut: StreamCut) -> Iterator[Chunk]:
        """The lines of a run, some hundred entries at a time."""
        # Helpers of Spark's read nothing: what decodes is imported by the call that does it.
        from service.runtime.sources.decoding import LineDecoder

        client = byte_client(redis_of(self.spec))
        key = ingress_key(self.spec.pipeline, self.spec.table)
        decoder = LineDecoder(self.spec, ingress_format(self.spec.options))
        behind, before, seen = cut.behind, cut.rows_before, 0
        while entries := client.xrange(key, f"({behind}", cut.last, _ENTRIES_PER_READ):
            counts = [int(fields[b"n"]) for _, fields in entries]
            ids = [identity.decode() for identity, _ in entries]
            yield self._chunk(decoder, ids, counts, [each[b"d"] for _, each in entries], before)
            behind, before, seen = ids[-1], before + sum(counts), seen + sum(counts)
        if seen != cut.rows:
            raise SourceChanged(f"{self.spec.table}: the stream holds {seen} of {cut.rows} rows")

    def closed(self) -> Offset:
        """As the marker has it."""
        return closed_end(self.spec)

    def commit(self, end: Offset) -> None:
        """Delete what Spark has recorded as done, and Redis as closed.

        Raises:
            SourceUnavailable: Redis does not answer.
        """
        client = byte_client(redis_of(self.spec))
        with redis_errors():
            closed = self.closed().get("id", _START)
            milliseconds, sequence = min(_numbers(end["id"]), _numbers(closed))
            key = ingress_key(self.spec.pipeline, self.spec.table)
            client.xtrim(key, minid=f"{milliseconds}-{sequence + 1}", approximate=False)

    def _chunk(
        self,
        decoder: LineDecoder,
        ids: list[str],
        counts: list[int],
        data: list[bytes],
        before: int,
    ) -> Chunk:
        block = b"\n".join(each.rstrip(b"\n") for each in data)
        decoded = decoder.decode(block)
        firsts = np.cumsum([0, *counts])

        def position(line: int) -> str:
            entry = int(np.searchsorted(firsts, line, side="right")) - 1
            return f"{ids[min(entry, len(ids) - 1)]}:{line - int(firsts[entry])}"

        each = decoder.rows_max
        rejected = [Rejected(each * (before + n), position(n), why) for n, why in decoded.rejected]
        order = each * (before + decoded.lines) + decoded.places
        return Chunk(decoded.columns, decoded.kinds, order, rejected)

    def _runs(self, behind: str, last: str, rows_max: int, per_run: int) -> list[tuple[str, int]]:
        key = ingress_key(self.spec.pipeline, self.spec.table)
        client = redis_of(self.spec)
        reply = client.eval(_script(), 1, key, behind, last, rows_max, per_run)
        return [(reply[at].decode(), int(reply[at + 1])) for at in range(0, len(reply), 2)]


def _numbers(entry: str) -> tuple[int, int]:
    """The id of an entry as ids sort."""
    milliseconds, _, sequence = entry.partition("-")
    return int(milliseconds), int(sequence)


@cache
def _script() -> str:
    return Path(__file__).with_name("ingress_admit.lua").read_text(encoding="utf-8")
