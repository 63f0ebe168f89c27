"""What tests of the controller drive by hand: time, and in which order requests are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.execution.record_context import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.execution.record_context import RecordContext
    from state.execution.requests import Request, StateExecutor


class ManualClock:
    """Milliseconds that move when they are told to."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """The time."""
        return self.now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self.now_ms += by_ms


class ManualChannel:
    """A channel that executes requests when, and in the order in which, it is told to.

    Args:
        executor: Executes them.
        choose: Asked whenever the controller waits: given how many requests are under way, it
            returns which of them to answer (positions), in this order; nothing is a timeout.
            Without it a wait times out at once.
    """

    def __init__(
        self,
        executor: StateExecutor,
        choose: Callable[[int], Sequence[int]] | None = None,
    ) -> None:
        self._executor = executor
        self._choose = choose
        self._answered: list[RecordContext] = []
        self.under_way: list[RecordContext] = []
        self.sent: list[RecordContext] = []
        """Whose requests were sent; a record is here as often as it waited."""
        self.batches: list[int] = []
        """Sizes of what was sent."""
        self.in_batches_of_one_key: list[bytes] = []
        """Keys that were sent while another request of the same key was under way: none, ever."""

    def send(self, batch: Sequence[RecordContext]) -> None:
        """Take a batch and do nothing with it yet."""
        self.batches.append(len(batch))
        busy = {context.key for context in self.under_way}
        self.in_batches_of_one_key += [each.key for each in batch if each.key in busy]
        self.under_way += batch
        self.sent += batch

    def answer(self, *positions: int) -> None:
        """Execute requests by their position among those under way; without any, all of them."""
        chosen = [self.under_way[i] for i in positions or range(len(self.under_way))]
        self.under_way = [each for each in self.under_way if each not in chosen]
        if chosen:
            self._executor.execute([context.request for context in chosen])
        self._answered += chosen

    def check_over(self) -> None:
        """Assert that no key had two requests under way, and that every record was ended."""
        assert self.in_batches_of_one_key == []
        assert self.under_way == []
        assert all(each.phase is Phase.DISPOSED for each in self.sent)

    def receive(self, wait_ms: int) -> Sequence[RecordContext]:
        """What was answered; a controller that waits has `choose` decide."""
        if wait_ms and not self._answered and self._choose is not None:
            positions = self._choose(len(self.under_way))
            if positions:
                self.answer(*positions)
        answered, self._answered = self._answered, []
        return answered


class CountingExecutor:
    """Wraps an executor: how many round trips, and of how many requests each."""

    def __init__(self, executor: StateExecutor) -> None:
        self._executor = executor
        self.batches: list[int] = []

    def execute(self, requests: Sequence[Request]) -> None:
        """Count, then execute."""
        self.batches.append(len(requests))
        self._executor.execute(requests)


class KeyedCells:
    """State for tests without a backend: a value for each key, of which every access is a request.

    It is a key context and an executor in one, and checks what a controller must keep to: an
    access is about the key that is current.
    """

    def __init__(self) -> None:
        self.values: dict[bytes, Any] = {}
        self.context: tuple[bytes, int, int | None] = (b"", -1, None)

    def set_key(self, key: bytes, key_group: int, *, event_ms: int | None = None) -> None:
        """Make a key current."""
        self.context = (key, key_group, event_ms)

    def set_namespace(self, namespace: bytes) -> None:
        """Make a namespace current: it is part of the key."""
        key, key_group, event_ms = self.context
        key = key.partition(b"\t")[0]
        named = key + b"\t" + namespace if namespace else key
        self.context = (named, key_group, event_ms)

    @property
    def key(self) -> bytes:
        """The current key, with its namespace."""
        key: bytes = self.context[0]
        return key

    def execute(self, requests: Sequence[Any]) -> None:
        """Carry out accesses in place."""
        for request in requests:
            request.run()

    def get(self) -> Access:
        """A request for the current key's value: `value = await cells.get()`."""
        return Access(self, self.key)

    def put(self, value: object) -> Access:
        """A request that sets it."""
        return Access(self, self.key, (value,))


class Access:
    """One access of `KeyedCells`; awaited, it gives the value that was read, or None."""

    reads = ()

    def __init__(self, cells: KeyedCells, key: bytes, written: tuple[Any, ...] = ()) -> None:
        self._cells = cells
        self._key = key
        self._written = written
        self._result: object = None
        self.runs = 0

    def run(self) -> None:
        """Carry it out."""
        self.runs += 1
        if self._written:
            (self._cells.values[self._key],) = self._written
        else:
            self._result = self._cells.values.get(self._key)

    def take(self, replies: Sequence[Any]) -> None:
        """For executors that read by themselves: there is nothing to take."""

    def __await__(self) -> Any:
        """Suspend until it was carried out."""
        yield self
        assert self.runs == 1, "an access went on that was not executed once"
        return self._result
