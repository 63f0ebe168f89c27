"""Epochs of state sessions over what fails: attempts and runs follow until all are closed.

What Spark does, as far as state sees it: a task that fails is tried again in its run; a process
that died, or a task that failed too often, ends in another run, which begins with the epoch that
was not recorded, closed or not. An epoch is a pure function of state and time, so whatever happened
on the way, what is stored in the end must be what it is when nothing fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from state.backends.interface import EpochCheck, HashScan, SortedRange
from state.backends.rules import check_epoch
from state.errors import Fenced, StagedWritesGone, StateUnavailable
from state.primitives.session import StateSession
from state.testing.faults import ProcessDied
from state.testing.stand import NODE
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.multiset.strategy import Thresholds
    from state.testing.stand import Stand

ATTEMPTS_MAX = 3
RUNS_MAX = 8
KEY_GROUP = 0
_SORTED = (b"expiry", b"stamps", b"order", b"timers")
"""How names of sorted sets end; all others are hashes."""


class PlannedEpoch(NamedTuple):
    """An epoch as it is planned: its time, and what it does with state."""

    ms: int
    work: Callable[[StateSession], None]


def run_epochs(stand: Stand, thresholds: Thresholds, epochs: Sequence[PlannedEpoch]) -> None:
    """Run epochs through whatever fails, until each is closed.

    Raises:
        AssertionError: They do not come to an end.
        StateError: What another run would not mend.
    """
    recorded = 0
    for _ in range(RUNS_MAX):
        try:
            run = stand.ledger.open_run([NODE], KEY_GROUP + 1)
            while recorded < len(epochs):
                _run_epoch(stand, thresholds, run, recorded + 1, epochs[recorded])
                recorded += 1
        except (StateUnavailable, Fenced, StagedWritesGone, ProcessDied):
            continue
        return
    raise AssertionError(f"no end after {RUNS_MAX} runs")


def stored_content(stand: Stand) -> dict[bytes, Any]:
    """All that is stored of a node in the key group, by name."""
    names = stand.names(NODE, KEY_GROUP)
    reads = [
        SortedRange(KEY_GROUP, name, -float("inf"), float("inf"))
        if name.endswith(_SORTED)
        else HashScan(KEY_GROUP, name)
        for name in names
    ]
    return dict(zip(names, stand.view(NODE).fetch(reads), strict=True))


def _run_epoch(
    stand: Stand, thresholds: Thresholds, run: int, epoch: int, planned: PlannedEpoch
) -> None:
    if check_epoch(stand.ledger.marker(), epoch) is EpochCheck.CLOSED:
        return
    for attempt in range(ATTEMPTS_MAX):
        try:
            _attempt(stand, thresholds, run, epoch, planned)
            break
        except StateUnavailable:
            if attempt == ATTEMPTS_MAX - 1:
                raise
    stand.close(epoch, run=run)


def _attempt(
    stand: Stand, thresholds: Thresholds, run: int, epoch: int, planned: PlannedEpoch
) -> None:
    transaction = stand.backend.begin(NODE, stand.stamp(epoch, run), [KEY_GROUP])
    session = StateSession(transaction, clock=TtlClock(planned.ms), thresholds=thresholds)
    planned.work(session)
    session.clean_up([KEY_GROUP])
    transaction.commit(session.writes())
