"""Stretches finish in order, when their records are done; Flink's `EpochManagerTest`."""

from __future__ import annotations

import pytest

from state.errors import InvariantViolation, OperatorFailed
from state.execution.stretches import Stretches, StretchPhase


def test_a_stretch_ends_when_its_records_are_done() -> None:
    stretches = Stretches(rounds_max=5)
    ran: list[str] = []
    first = stretches.joined
    assert stretches.joined is first
    first.ongoing += 2

    stretches.close(None, lambda: ran.append("watermark"))
    stretches.advance()
    assert (stretches.closed_count, first.phase, ran) == (1, StretchPhase.CLOSED, [])
    third = stretches.joined
    assert third is not first
    third.ongoing += 1
    for stretch in (third, first, first):
        stretches.leave(stretch)
        stretches.advance()

    assert (stretches.closed_count, first.phase, ran) == (0, StretchPhase.FINISHED, ["watermark"])
    assert (stretches.active.ongoing, stretches.active.phase) == (0, StretchPhase.OPEN)


def test_a_later_stretch_does_not_finish_before_an_earlier_one() -> None:
    stretches = Stretches(rounds_max=5)
    ran: list[int] = []
    first = stretches.active
    first.ongoing += 1
    for number in (1, 2):
        stretches.close(None, lambda number=number: ran.append(number))

    stretches.advance()
    assert ran == []
    stretches.leave(first)
    stretches.advance()

    assert ran == [1, 2]


def test_what_a_trigger_action_begins_belongs_to_the_stretch_that_finishes() -> None:
    stretches = Stretches(rounds_max=5)
    log: list[str] = []
    ended = stretches.active

    def trigger() -> int:
        log.append("trigger")
        if len(log) > 1:
            return 0
        assert stretches.joined is ended
        ended.ongoing += 1
        return 1

    stretches.close(trigger, lambda: log.append("final"))
    stretches.advance()
    assert (log, ended.phase) == (["trigger"], StretchPhase.FINISHING)
    assert stretches.joined is not ended
    stretches.leave(ended)
    stretches.advance()

    assert log == ["trigger", "trigger", "final"]


def test_timers_that_never_end_are_given_up() -> None:
    stretches = Stretches(rounds_max=3)
    stretches.close(lambda: 1, lambda: None)

    with pytest.raises(OperatorFailed, match="after 3 rounds"):
        stretches.advance()


def test_a_stretch_cannot_complete_what_it_has_not() -> None:
    stretches = Stretches(rounds_max=1)

    with pytest.raises(InvariantViolation, match="stretch 0"):
        stretches.leave(stretches.active)
