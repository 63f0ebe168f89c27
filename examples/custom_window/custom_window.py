"""A window of one's own: for each row, the sum of a column over the time before it.

FLIP-220's motive. Such a window begins anew at every row, so no window table function has it. Kept
as a map by time, each row would mean to read all of them; in a sorted map it is one range.

    SELECT * FROM CustomWindow(TABLE payments PARTITION BY account, 'amount', 60000, DESCRIPTOR(ts))

gives account, total and row time, when the watermark reaches a row's time. Late rows are dropped.
The same as `SUM(amount) OVER (PARTITION BY account ORDER BY ts RANGE INTERVAL '60' SECOND
PRECEDING)`, which it is tested against.
"""

from __future__ import annotations

from operators.changelog import RowKind
from operators.errors import InvalidSpec
from operators.process_function import (
    FunctionChange,
    FunctionEpoch,
    FunctionSetting,
    FunctionTimer,
    ProcessFunction,
)
from operators.spec import RowSpec
from state.descriptors import JSON
from state.lexicographic import lexicographic_codec
from state.types import INTEGER_BITS, parse_type


class CustomWindow(ProcessFunction):
    """Sums a column of whole numbers over the last `size_ms` up to each row's time."""

    arguments = ("column", "size_ms")

    @classmethod
    def result(cls, setting: FunctionSetting) -> RowSpec:
        """One total a row."""
        cls._column(setting)
        return RowSpec(types=(parse_type("BIGINT"),), names=("total",))

    @staticmethod
    def _column(setting: FunctionSetting) -> int:
        table, name = setting.inputs[0], setting.arguments["column"]
        if name not in table.names:
            raise InvalidSpec(f"CustomWindow: the table has no column {name}")
        column = table.names.index(name)
        if table.types[column].root not in INTEGER_BITS:
            raise InvalidSpec(f"CustomWindow: {name} is no column of whole numbers")
        return column

    def __init__(self, setting: FunctionSetting) -> None:
        self._at = self._column(setting)
        self._size_ms = int(setting.arguments["size_ms"])
        times = lexicographic_codec([parse_type("BIGINT NOT NULL")])
        self._amounts = setting.sorted_map("amounts", times, JSON)
        self.states = (self._amounts,)

    def open(self, epoch: FunctionEpoch) -> None:
        """Take the handle."""
        self._by_time = epoch.session.sorted_map(self._amounts)
        self._timers = epoch.event_timers
        self._watermark_ms = epoch.times.watermark_ms

    async def process(self, change: FunctionChange) -> None:
        """Keep a row's amount until the watermark reaches its time."""
        if change.time_ms is None or change.time_ms <= self._watermark_ms:
            change.late()
            return
        await self._by_time.add((change.time_ms,), change.row[self._at] or 0)
        self._timers.register(change.time_ms)
        # The last row lets go of itself once no later one can have it in its window.
        self._timers.register(change.time_ms + self._size_ms + 1)

    async def on_event_timer(self, timer: FunctionTimer) -> None:
        """Emit a total for each row of this time; forget what no later window has."""
        start = timer.time_ms - self._size_ms
        await self._by_time.clear_range_until((start,))
        window = await self._by_time.read_range((start,), (timer.time_ms,), inclusive_to=True)
        if window and window[-1][0] == (timer.time_ms,):
            total = sum(amount for _, amounts in window for amount in amounts)
            for _ in window[-1][1]:
                timer.emit(RowKind.INSERT, (total,))
