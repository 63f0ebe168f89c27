"""A tiny driver that keeps Spark's rules, a tiny operator and sink, and what must come of them.

Spark's rules, as far as the epoch protocol leans on them: an epoch is planned (its input fixed)
before it runs; epoch e + 1 runs only after e was recorded; a task that fails is tried again with
the same input, at most four times; a query that fails is started again, and runs the epoch that was
planned and not recorded once more, with the same input.

The operator counts what it sees of each key, keeps an order by last touch, a journal, in two key
groups a long text, so that one commit of each task is a transaction, the other none, and hashes
that each epoch replaces, below and above what is copied; the sink keeps a table of the counts,
prints each row and counts epochs: structures where doing something twice, or not at all, shows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from state.backends.interface import (
    ApplyStaged,
    CounterAdd,
    EpochCheck,
    EpochStamp,
    HashAdd,
    HashGet,
    HashPut,
    HashReplace,
    HashScan,
    SortedPut,
    SortedTop,
    StreamAppend,
    StreamScan,
)
from state.errors import (
    Fenced,
    IncarnationChanged,
    StagedWritesGone,
    StateUnavailable,
)
from state.testing.faults import ProcessDied

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.backends.interface import EpochTransaction, Ledger, Read, StateBackend, Write

NODE = "1_count"
PARALLELISM = 4
TASKS = {0: (0, 1), 1: (2, 3)}
"""Key groups of each task."""
KEYS = {0: b"ann", 1: b"bob", 2: b"cem", 3: b"dag"}
"""A key in each key group."""
ATTEMPTS_MAX = 4
RUNS_MAX = 12
EPOCHS = 3

TRANSIENT = (StateUnavailable, Fenced, IncarnationChanged, StagedWritesGone, ProcessDied)
"""What fails a task or a query and is answered by another attempt or run."""


@dataclass(frozen=True)
class Work:
    """How attempts go about it."""

    long: tuple[int, ...] = (0, 2)
    """Key groups with so much to write that it does not go through a function's arguments."""
    parts: int = 1
    """Hashes in each of them that are replaced as a whole; beyond 16 they are no parts."""
    sends_ahead: bool = False
    """Whether begins, reads and long commits are sent before they are waited for."""


WORK = Work()
AHEAD = Work(long=(0,), parts=2, sends_ahead=True)
"""One task has a long commit, which is sent ahead, the other a short one, which is not."""


def long_text(now: int) -> bytes:
    """A text that says a count, longer than what is committed by one function call."""
    return b"%06d" % now * 1_000


def latest_names(work: Work) -> list[bytes]:
    """Names of the hashes that each epoch replaces."""
    return [b"latest%d" % number for number in range(work.parts)]


def input_of(epoch: int) -> dict[int, int]:
    """How often each key group's key comes in an epoch; key group 3 misses epoch 2."""
    return {0: epoch, 1: 1, 2: 2 * epoch, 3: 0 if epoch == 2 else 5}


@dataclass
class Checkpoint:
    """What Spark remembers of a query."""

    recorded: int = 0
    """The last epoch that is done with."""


@dataclass
class Run:
    """One run of the query: what its driver and its workers talk to."""

    number: int
    driver: Ledger
    worker: Ledger
    backend: StateBackend
    attempts: int = 0
    work: Work = WORK

    def stamp(self, epoch: int) -> EpochStamp:
        return EpochStamp(epoch, self.number, 1_700_000_000_000 + epoch)


@dataclass
class Spark:
    """Runs the query until so many epochs are recorded."""

    open_run: Callable[[], Run]
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    runs: int = 0
    failures: list[str] = field(default_factory=list)
    """Why attempts and runs ended."""

    def run_until(self, epoch: int) -> None:
        """Record epochs up to this one, through whatever fails.

        Raises:
            StateError: What another run would not mend; or nothing did within the limit.
        """
        while self.checkpoint.recorded < epoch:
            self.runs += 1
            if self.runs > RUNS_MAX:
                raise AssertionError(f"no end after {RUNS_MAX} runs: {self.failures}")
            try:
                self._run_query(epoch)
            except TRANSIENT as error:
                self.failures.append(f"run: {type(error).__name__}")

    def _run_query(self, until: int) -> None:
        run = self.open_run()
        while self.checkpoint.recorded < until:
            epoch = self.checkpoint.recorded + 1
            self.run_epoch(run, epoch)
            self.checkpoint.recorded = epoch

    def run_epoch(self, run: Run, epoch: int) -> None:
        """All of an epoch but the note that it is done."""
        staged = [self._run_task(run, epoch, task) for task in TASKS]
        close(run, epoch, staged)

    def _run_task(self, run: Run, epoch: int, task: int) -> ApplyStaged | None:
        for attempt in range(ATTEMPTS_MAX):
            try:
                return run_attempt(run, epoch, task)
            except TRANSIENT as error:
                self.failures.append(f"task: {type(error).__name__}")
                if attempt == ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("unreachable")


def run_attempt(run: Run, epoch: int, task: int) -> ApplyStaged | None:
    """An attempt of a task: the operator, then the sink's side of it."""
    run.attempts += 1
    name = b"stage:%d:%d:%d:%d" % (epoch, task, run.number, run.attempts)
    if run.worker.check(epoch) is EpochCheck.CLOSED:
        return None
    key_groups = [each for each in TASKS[task] if input_of(epoch)[each]]
    transaction = run.backend.begin(NODE, run.stamp(epoch), key_groups)
    counts, orders = _read(transaction, key_groups, run.work)
    writes: dict[int, list[Write]] = {}
    rows: list[Write] = []
    for number, (count,), order in zip(key_groups, counts, orders, strict=True):
        key, seen = KEYS[number], input_of(epoch)[number]
        now = int(count or 0) + seen
        place = int(order[0][1]) + 1 if order else 1
        writes[number] = [
            HashPut(b"counts", [key, b"%d" % now]),
            SortedPut(b"order", [place, b"%d" % epoch]),
            HashAdd(b"totals", b"seen", seen),
            StreamAppend(b"journal", [[b"n", b"%d" % now]], 100),
        ]
        writes[number].append(HashReplace(b"brief", [b"%d" % epoch, b"%d" % now]))
        if number in run.work.long:
            writes[number].append(HashPut(b"long", [b"short", b"1", b"text", long_text(now)]))
            pairs = [b"%d" % epoch, long_text(now)]
            writes[number] += [HashReplace(name, pairs) for name in latest_names(run.work)]
        rows += [
            HashPut(b"table:counts", [key, b"%d" % now]),
            StreamAppend(b"print", [[key, b"%d" % now]], 100),
        ]
    if run.work.sends_ahead:
        transaction.committing(writes)()
    else:
        transaction.commit(writes)
    return ApplyStaged(name, run.worker.stage(name, rows))


def _read(
    transaction: EpochTransaction, key_groups: list[int], work: Work
) -> tuple[list[Any], list[Any]]:
    """Counts and orders of keys."""
    counts = [HashGet(each, b"counts", [KEYS[each]]) for each in key_groups]
    orders = [SortedTop(each, b"order", 1) for each in key_groups]
    if not work.sends_ahead:
        return transaction.fetch(counts), transaction.fetch(orders)
    transaction.expect([])
    waiting = transaction.expect(counts)
    return waiting(), transaction.expect(orders)()


def close(run: Run, epoch: int, staged: list[ApplyStaged | None]) -> None:
    """The driver's side: close the epoch, then promote."""
    progress = StreamAppend(b"progress", [[b"epoch", b"%d" % epoch]], 100, b"%d-0" % epoch)
    effects = [each for each in staged if each is not None]
    run.driver.close_epoch(
        run.stamp(epoch), {"in": epoch}, [*effects, CounterAdd(b"closed", 1), progress]
    )
    run.driver.promote_all([NODE], PARALLELISM)


def expected(epochs: int = EPOCHS, work: Work = WORK) -> dict[str, Any]:
    """What state and sinks hold after so many epochs, by definition."""
    counts: Counter[int] = Counter()
    journal: dict[int, list[tuple[bytes, list[bytes]]]] = {each: [] for each in KEYS}
    order: dict[int, list[tuple[bytes, float]]] = {each: [] for each in KEYS}
    printed: list[list[bytes]] = []
    lasts: dict[int, int] = {}
    for epoch in range(1, epochs + 1):
        for number, seen in input_of(epoch).items():
            if not seen:
                continue
            counts[number] += seen
            lasts[number] = epoch
            now = b"%d" % counts[number]
            journal[number].append((b"%d-0" % epoch, [b"n", now]))
            order[number].insert(0, (b"%d" % epoch, float(len(order[number]) + 1)))
            printed.append([KEYS[number], now])
    return {
        "counts": {KEYS[each]: b"%d" % counts[each] for each in KEYS if counts[each]},
        "totals": [{b"seen": b"%d" % counts[each]} if counts[each] else {} for each in KEYS],
        "long": [
            {b"short": b"1", b"text": long_text(counts[each])} if counts[each] else {}
            for each in work.long
        ],
        "latest": [
            {b"%d" % epochs: long_text(counts[each])} if epochs else {}
            for each in work.long
            for _ in range(work.parts)
        ],
        "brief": [{b"%d" % last: b"%d" % counts[each]} for each, last in sorted(lasts.items())],
        "journal": list(journal.values()),
        "order": list(order.values()),
        "table": {KEYS[each]: b"%d" % counts[each] for each in KEYS if counts[each]},
        "print": printed,
        "progress": [(b"%d-0" % e, [b"epoch", b"%d" % e]) for e in range(1, epochs + 1)],
        "closed": epochs,
        "marker": (epochs, f'{{"in":{epochs}}}' if epochs else "{}"),
    }


def found(
    fetch: Callable[[list[Any]], list[Any]],
    slot: Callable[[Any], Any],
    closed: int,
    ledger: Ledger,
    work: Work = WORK,
) -> dict[str, Any]:
    """The same, as the backend has it."""
    groups = list(KEYS)
    asked: dict[str, list[Read]] = {
        "counts": [HashScan(each, b"counts") for each in groups],
        "totals": [HashScan(each, b"totals") for each in groups],
        "long": [HashScan(each, b"long") for each in work.long],
        "latest": [HashScan(each, name) for each in work.long for name in latest_names(work)],
        "brief": [HashScan(each, b"brief") for each in groups],
        "journal": [StreamScan(each, b"journal", None, 100) for each in groups],
        "order": [SortedTop(each, b"order", 100) for each in groups],
    }
    replies = iter(fetch([*chain(*asked.values())]))
    state = {name: [next(replies) for _ in reads] for name, reads in asked.items()}
    marker = ledger.marker()
    return {
        **state,
        "counts": {key: value for each in state["counts"] for key, value in each.items()},
        "brief": [each for each in state["brief"] if each],
        "table": slot(HashScan(0, b"table:counts")),
        "print": [fields for _, fields in slot(StreamScan(0, b"print", None, 100))],
        "progress": slot(StreamScan(0, b"progress", None, 100)),
        "closed": closed,
        "marker": (marker.epoch, marker.offsets),
    }
