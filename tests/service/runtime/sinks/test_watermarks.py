"""How watermarks go from the tasks of one epoch to the operators of the next: by the marker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from operators.keyed import WATERMARK_MAX, WATERMARK_MIN, EpochTimes
from operators.wire import ENDED, WATERMARKS, NoteSum, SourceNote, WatermarkNote, to_note
from operators.worker import epoch_times
from service.runtime.sinks.commit import least, reached
from service.runtime.sinks.spec import WriterSpec

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


def idle_epochs(timeout_ms: int, *epochs: tuple[int, dict[str, int]]) -> list[EpochTimes]:
    """What an operator of both sources is told after epochs at a time, with these watermarks."""
    spec = WriterSpec(
        pipeline="p",
        run=1,
        redis_url="",
        incarnation=None,
        files_root="",
        sinks=(),
        assigners=ASSIGNERS,
        idle_timeouts_ms={"2": timeout_ms, "5": timeout_ms},
        together=((("2", 0), ("5", 0)), (("5", 0),)),
    )
    spec = WriterSpec.from_json(spec.to_json())
    held: dict[str, Any] = {}
    told = []
    for time_ms, watermarks in epochs:
        notes = NoteSum()
        notes.add([to_note(WatermarkNote(name, 0, ms)) for name, ms in watermarks.items()])
        news = reached(ASSIGNERS, held, notes)
        held = {**held, **news, **least(spec, held, news[WATERMARKS], notes, time_ms)}
        told.append(times(held, INPUTS))
    return told


def test_an_idle_source_holds_nothing_back_until_it_has_rows_again() -> None:
    told = idle_epochs(
        100,
        (0, {"2": 10, "5": 20}),
        (50, {"2": 60}),
        (120, {"2": 70}),
        (130, {"2": 80, "5": 30}),
        (140, {"2": 90, "5": 85}),
    )

    assert [each.next_watermark_ms for each in told] == [10, 20, 70, 70, 85]
    assert [each.watermark_ms for each in told[1:]] == [10, 20, 70, 70]


def test_a_source_that_never_had_rows_becomes_idle_as_well() -> None:
    told = idle_epochs(100, (0, {"2": 10}), (99, {"2": 20}), (100, {"2": 30}))

    assert [each.next_watermark_ms for each in told] == [WATERMARK_MIN, WATERMARK_MIN, 30]


def test_of_sources_that_are_all_idle_the_greatest_counts() -> None:
    told = idle_epochs(100, (0, {"2": 10, "5": 20}), (99, {}), (100, {}), (101, {"2": 11}))

    assert [each.next_watermark_ms for each in told] == [10, 10, 20, 20]


def test_without_a_timeout_a_source_holds_others_back_for_ever() -> None:
    told = idle_epochs(0, (0, {"2": 10, "5": 20}), (10**9, {"2": 50}))

    assert [each.next_watermark_ms for each in told] == [10, 20]
