"""`datagen`: made-up inserts at a steady rate, the same at every reading.

Each value is a function of the row's position alone, so that a replay, or another cut of the same
epoch, gives the same rows. Options are those of Flink's datagen connector:

    rows-per-second        default 10000
    number-of-rows         default: without end, unless a sequence ends
    fields.<f>.kind        random (default) or sequence
    fields.<f>.start .end  of a sequence; without end it goes on (Flink asks for one)
    fields.<f>.min .max    of random numbers; default 0 to 2^31-1, or the type's greatest if smaller
    fields.<f>.length      of random strings and bytes, default 100
    fields.<f>.null-rate   0 to 1, default 0
    fields.<f>.max-past    of random times: at most this long before the start (ms or a duration)
"""

from __future__ import annotations

import itertools
import math
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from service.runtime.sources.base import ChangeReader, Chunk, Offset
from state.types import LogicalType, TypeRoot, arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.runtime.sources.spec import SourceSpec

_ROWS_PER_SECOND = 10_000
_ROWS_PER_CUT = 65_536
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_INTEGERS = {
    TypeRoot.TINYINT: 127,
    TypeRoot.SMALLINT: 32_767,
    TypeRoot.INTEGER: 2**31 - 1,
    TypeRoot.BIGINT: 2**31 - 1,
}
_REALS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL})
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_TIMES = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DATE})


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How the values of one column are made."""

    name: str
    kind: LogicalType
    is_sequence: bool
    minimum: float
    maximum: float
    length: int
    null_rate: float
    past_ms: int

    def column(self, positions: np.ndarray, base_ms: int) -> pa.Array:
        """The values at these row positions."""
        dice = _scatter(positions, zlib.crc32(self.name.encode()))
        values = self._values(positions, dice, base_ms)
        if not self.null_rate:
            return values
        missing = _unit(_scatter(positions, zlib.crc32(self.name.encode()) + 1)) < self.null_rate
        return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values)

    def _values(self, positions: np.ndarray, dice: np.ndarray, base_ms: int) -> pa.Array:
        target = arrow_type(self.kind)
        if self.is_sequence:
            return pa.array(positions + int(self.minimum)).cast(target)
        if self.kind.root in _INTEGERS:
            span = np.uint64(int(self.maximum) - int(self.minimum) + 1)
            return pa.array((dice % span).astype(np.int64) + int(self.minimum)).cast(target)
        if self.kind.root in _REALS:
            reals = self.minimum + _unit(dice) * (self.maximum - self.minimum)
            if self.kind.root is TypeRoot.DECIMAL:
                return pc.round(pa.array(reals), self.kind.scale or 0).cast(target, safe=False)
            return pa.array(reals).cast(target)
        if self.kind.root is TypeRoot.BOOLEAN:
            return pa.array((dice & np.uint64(1)).astype(bool))
        if self.kind.root in _TEXTS:
            return _hexadecimal(dice, self.length).cast(target)
        return self._times(dice, base_ms).cast(target, safe=False)

    def _times(self, dice: np.ndarray, base_ms: int) -> pa.Array:
        past = (dice % np.uint64(self.past_ms + 1)).astype(np.int64)
        return pa.array((base_ms - past) * 1000).cast(pa.timestamp("us"))


def field_rules(spec: SourceSpec) -> list[FieldRule]:
    """The rules of the columns asked for.

    Raises:
        InvalidTableOption: an option cannot be read or is out of range.
        UnsupportedConnector: a column's type cannot be generated.
    """
    pairs = zip(spec.names, spec.types, strict=True)
    return [_rule(name, parse_type(text), spec.options) for name, text in pairs]


def rows_total(options: Mapping[str, str]) -> int | None:
    """How many rows there will ever be, or None: the stated number or the shortest sequence."""
    limits = [int(options["number-of-rows"])] if "number-of-rows" in options else []
    for key, value in options.items():
        if key.startswith("fields.") and key.endswith(".end"):
            start = int(options.get(f"{key.removesuffix('.end')}.start", "0"))
            limits.append(int(value) - start + 1)
    return min(limits) if limits else None


class DatagenReader(ChangeReader[tuple[int, int, int, int]]):
    """Inserts by the clock: as many as are due since the pipeline's start, up to the limit."""

    def first_offset(self) -> Offset:
        """No row yet; the rate counts from now."""
        return {"rows": 0, "base": int(time.time() * 1000)}

    def advance(self, start: Offset, rows_max: int | None) -> Offset:
        """As many rows as are due by now."""
        rate = int(self.spec.options.get("rows-per-second", _ROWS_PER_SECOND))
        due = (int(time.time() * 1000) - start["base"]) * rate // 1000
        total = rows_total(self.spec.options)
        due = due if total is None else min(due, total)
        due = due if rows_max is None else min(due, start["rows"] + rows_max)
        return {"rows": max(due, start["rows"]), "base": start["base"]}

    def is_last(self, end: Offset) -> bool:
        """Whether all rows that were asked for have come."""
        total = rows_total(self.spec.options)
        return total is not None and end["rows"] >= total

    def cuts(self, start: Offset, end: Offset) -> list[list[tuple[int, int, int, int]]]:
        """Equal runs of positions, one a task, each in pieces of a batch's size."""
        first, last = start["rows"], end["rows"]
        tasks = min(self.spec.partitions, -(-(last - first) // _ROWS_PER_CUT))
        if not tasks:
            return []
        bounds = [first + (last - first) * each // tasks for each in range(tasks + 1)]
        return [
            [
                (low, min(low + _ROWS_PER_CUT, high), first, end["base"])
                for low in range(left, high, _ROWS_PER_CUT)
            ]
            for left, high in itertools.pairwise(bounds)
        ]

    def read_cut(self, cut: tuple[int, int, int, int]) -> Iterator[Chunk]:
        """The rows of a run of positions."""
        low, high, first, base_ms = cut
        positions = np.arange(low, high, dtype=np.int64)
        columns = [rule.column(positions, base_ms) for rule in field_rules(self.spec)]
        yield Chunk(columns, np.zeros(high - low, np.int8), positions - first)


def _rule(name: str, kind: LogicalType, options: Mapping[str, str]) -> FieldRule:
    def option(what: str, default: str) -> str:
        return options.get(f"fields.{name}.{what}", default)

    if kind.root not in _INTEGERS.keys() | _REALS | _TEXTS | _TIMES | {TypeRoot.BOOLEAN}:
        raise UnsupportedConnector(f'datagen cannot make column "{name}" of type {kind.root.name}')
    form = option("kind", "random")
    if form not in ("random", "sequence"):
        raise InvalidTableOption(f'fields.{name}.kind is "{form}"', hint="random or sequence")
    is_sequence = form == "sequence"
    greatest = _INTEGERS.get(kind.root, 2**31 - 1)
    if kind.root is TypeRoot.DECIMAL:
        greatest = min(greatest, 10 ** ((kind.precision or 10) - (kind.scale or 0)) - 1)
    try:
        rule = FieldRule(
            name=name,
            kind=kind,
            is_sequence=is_sequence,
            minimum=float(option("start" if is_sequence else "min", "0")),
            maximum=float(option("end" if is_sequence else "max", str(greatest))),
            length=int(option("length", str(min(kind.length or 100, 100)))),
            null_rate=float(option("null-rate", "0")),
            past_ms=_past_ms(option("max-past", "")),
        )
    except ValueError as error:
        raise InvalidTableOption(f'an option of datagen column "{name}" is not a number') from error
    if not all(map(math.isfinite, (rule.minimum, rule.maximum))):
        raise InvalidTableOption(f'a limit of datagen column "{name}" is not finite')
    if rule.maximum < rule.minimum or rule.length < 1 or not 0 <= rule.null_rate <= 1:
        raise InvalidTableOption(f'an option of datagen column "{name}" is out of range')
    return rule


def _past_ms(text: str) -> int:
    if not text:
        return 0
    # Brings all of `service.plan` along, which each start of a query would pay for.
    from service.plan.durations import parse_duration_ms

    return parse_duration_ms(text)


def _scatter(positions: np.ndarray, seed: int) -> np.ndarray:
    """64 well-mixed bits for each position (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = positions.astype(np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def _unit(bits: np.ndarray) -> np.ndarray:
    """Bits as numbers from 0 up to 1."""
    return (bits >> np.uint64(11)).astype(np.float64) / float(2**53)


def _hexadecimal(dice: np.ndarray, length: int) -> pa.Array:
    """A string of hexadecimal digits a row, built as one buffer."""
    rows, words = len(dice), -(-length // 16)
    mixed = np.stack([_scatter(dice.astype(np.int64), each + 1) for each in range(words)], axis=1)
    octets = mixed.view(np.uint8).reshape(rows, words * 8)
    digits = np.empty((rows, words * 16), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[octets >> 4], _HEX[octets & 15]
    text = np.ascontiguousarray(digits[:, :length])
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
