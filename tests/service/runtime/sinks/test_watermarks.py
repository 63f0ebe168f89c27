"""How watermarks go from the tasks of one epoch to the operators of the next: by the marker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from operators.keyed import WATERMARK_MAX, WATERMARK_MIN, EpochTimes
from operators.wire import ENDED, NoteSum, SourceNote, WatermarkNote, to_note
from operators.worker import epoch_times
from service.runtime.sinks.commit import reached

if TYPE_CHECKING:
    from collections.abc import Sequence

ASSIGNERS = {"2": ("left",), "5": ("right",)}
INPUTS = ((("2", 0),), (("5", 0),))


def closed(known: dict[str, Any], *notes: WatermarkNote | SourceNote) -> dict[str, Any]:
    """What the marker holds after an epoch with these notes."""
    found = NoteSum()
    found.add([to_note(each) for each in notes])
    return reached(ASSIGNERS, known, found)


def times(held: dict[str, Any], inputs: Sequence[Sequence[tuple[str, int]]]) -> EpochTimes:
    return epoch_times(7, orjson.dumps(held).decode(), inputs)


def test_a_watermark_takes_part_behind_the_changes_of_the_next_epoch() -> None:
    first = closed({}, WatermarkNote("2", 0, 40), WatermarkNote("2", 1, 60))
    second = closed(first, WatermarkNote("2", 0, 50))

    assert times({}, INPUTS[:1]) == EpochTimes(7, WATERMARK_MIN, WATERMARK_MIN)
    assert times(first, INPUTS[:1]) == EpochTimes(7, WATERMARK_MIN, 60)
    assert times(second, INPUTS[:1]) == EpochTimes(7, 60, 60)


def test_an_operator_has_the_least_watermark_of_its_inputs() -> None:
    first = closed({}, WatermarkNote("2", 0, 60))
    second = closed(first, WatermarkNote("5", 0, 30))

    assert times(first, INPUTS) == EpochTimes(7, WATERMARK_MIN, WATERMARK_MIN)
    assert times(second, INPUTS) == EpochTimes(7, WATERMARK_MIN, 30)
    assert times(second, [[("2", 45)], [("5", 0)]]) == EpochTimes(7, WATERMARK_MIN, 15)


def test_a_source_that_has_ended_holds_nothing_back() -> None:
    held = closed(
        {},
        WatermarkNote("2", 0, 60),
        WatermarkNote("5", 0, 30),
        SourceNote("right", 0, 1, end={}, is_last=True),
    )

    assert times(held, INPUTS) == EpochTimes(7, WATERMARK_MIN, 60)
    assert times(held, INPUTS[1:]) == EpochTimes(7, WATERMARK_MIN, WATERMARK_MAX)


def test_a_source_that_goes_on_after_its_end_holds_back_again() -> None:
    """A file grew while the pipeline was down; what the end has let go is not taken back."""
    ended = closed({}, WatermarkNote("5", 0, 30), SourceNote("right", 0, 1, end={}, is_last=True))
    resting = closed(ended, SourceNote("left", 0, 1, end={}), WatermarkNote("2", 0, 60))
    resumed = closed(resting, SourceNote("right", 0, 1, end={}), WatermarkNote("5", 0, 40))

    # A source that tells nothing rests as it was; the other one never held anything back.
    assert resting[ENDED] == ["right"]
    assert times(resting, INPUTS[1:]) == EpochTimes(7, WATERMARK_MAX, WATERMARK_MAX)
    assert resumed[ENDED] == []
    assert times(resumed, INPUTS[1:]) == EpochTimes(7, WATERMARK_MIN, 40)
    assert times(resumed, INPUTS) == EpochTimes(7, WATERMARK_MIN, 40)


def test_a_source_that_resumes_and_ends_in_one_epoch_has_ended() -> None:
    ended = closed({}, SourceNote("right", 0, 1, end={}, is_last=True))
    again = closed(
        ended,
        SourceNote("right", 0, 1, end={}),
        SourceNote("right", 1, 1, end={}, is_last=True),
        WatermarkNote("5", 0, 40),
    )

    assert again[ENDED] == ["right"]
    assert times(again, INPUTS[1:]) == EpochTimes(7, WATERMARK_MAX, WATERMARK_MAX)
