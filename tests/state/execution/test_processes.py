"""Processes in blocks: kept as data before their first request is executed, resumed elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import FormatVersionMismatch, OperatorFailed, StateCorrupt
from state.execution.engine import RecordOrder
from state.execution.limits import ControllerLimits
from state.execution.processes import (
    DeclaredProcess,
    KeptRecord,
    Position,
    declare_process,
    kept_from_text,
    kept_to_text,
)
from tests.state.execution.rigs import Rig
from tests.state.execution.timers import HeapTimers

if TYPE_CHECKING:
    from collections.abc import Sequence


def counting(rig: Rig) -> DeclaredProcess:
    """The scenario tables' user code, in two blocks."""

    async def read(record: str, variables: dict[str, Any]) -> str:
        variables["seen"] = await rig.cells.get()
        return "write"

    async def write(record: str, variables: dict[str, Any]) -> None:
        value = (variables["seen"] or 0) + 1
        await rig.cells.put(value)
        rig.output.append((record, value))

    return declare_process("count", read=read, write=write)


def moved(rig: Rig, **options: Any) -> Rig:
    """What was in flight in another controller, through text, over the same state."""
    text = kept_to_text(rig.controller.keep(), str)
    rig.assert_nothing_left()
    other = Rig(rig.process, **options)
    other.cells.values = rig.cells.values
    other.output.extend(rig.output)
    other.controller.resume(kept_from_text(text, str))
    return other


def test_blocks_run_one_after_the_other() -> None:
    rig = Rig(counting)

    rig.submit("k:1", "k:2", "j:3")
    rig.controller.drain()

    assert sorted(rig.output) == [("j:3", 1), ("k:1", 1), ("k:2", 2)]


def test_what_has_not_run_is_kept_and_goes_on_in_another_controller() -> None:
    rig = Rig(counting)
    rig.submit("k:1", "j:2", "k:3")
    rig.flush()  # both reads were executed: the next block waits for its write

    restored = moved(rig)
    restored.submit("k:4")
    restored.controller.drain()

    assert rig.output == []
    assert sorted(restored.output) == [("j:2", 1), ("k:1", 1), ("k:3", 2), ("k:4", 3)]


def test_kept_records_say_where_they_are() -> None:
    rig = Rig(counting)
    rig.submit("k:1", "j:2", "k:3")
    rig.flush()

    kept = rig.controller.keep()

    assert kept == [
        KeptRecord("k:1", b"k", 0, None, Position("count", "write", {"seen": None})),
        KeptRecord("k:3", b"k", 0, None, None),
        KeptRecord("j:2", b"j", 0, None, Position("count", "write", {"seen": None})),
    ]


def test_a_request_under_way_is_waited_for_and_not_run_again() -> None:
    rig = Rig(counting, manual=lambda count: range(count))
    rig.submit("k:1", "j:2")
    rig.flush()
    assert rig.controller.statistics().executing == 2

    kept = rig.controller.keep()

    assert [each.position and each.position.block for each in kept] == ["write", "write"]
    rig.assert_nothing_left()


def test_a_plain_process_that_has_begun_is_run_to_its_end() -> None:
    rig = Rig()
    rig.submit("k:1", "k:2", "j:3")

    kept = rig.controller.keep()

    assert sorted(rig.output) == [1, 1]
    assert kept == [KeptRecord("k:2", b"k", 0)]


def test_a_record_is_not_kept_if_one_behind_it_cannot_be() -> None:
    """A record that was begun by another one shares variables with it, which are no data."""

    def process(rig: Rig) -> DeclaredProcess:
        count = counting(rig)

        async def fork(record: str, variables: dict[str, Any]) -> None:
            rig.controller.with_key("c:child", b"c", 0, count)

        async def choose(record: str, variables: dict[str, Any]) -> str:
            return "fork" if record == "parent" else "read"

        async def read(record: str, variables: dict[str, Any]) -> None:
            await rig.cells.get()
            rig.output.append(record)

        return declare_process("choose", choose=choose, fork=fork, read=read)

    rig = Rig(process)
    rig.submit("c:1", "parent", "d:2")
    assert rig.gauges == (2, 1, 2, 3)

    kept = rig.controller.keep()

    assert rig.output == ["c:1", ("c:child", 1)]
    assert [each.record for each in kept] == ["d:2"]


def test_variables_changed_before_the_first_request_are_taken_back() -> None:
    def process(rig: Rig) -> DeclaredProcess:
        async def only(record: str, variables: dict[str, Any]) -> None:
            variables["times"] = variables.get("times", 0) + 1
            await rig.cells.get()
            rig.output.append(variables["times"])

        return declare_process("once", only=only)

    rig = Rig(process)
    rig.submit("k")
    restored = moved(rig)
    restored.controller.drain()

    assert restored.output == [1]


def test_turns_of_timers_are_not_kept_since_their_timers_are() -> None:
    rig = Rig(counting)
    timers = HeapTimers([(5, b"k")])

    async def on_timer(timer: object) -> None:
        rig.output.append("timer")

    rig.submit("k:1")
    rig.controller.fire(timers, 5, on_timer)
    kept = rig.controller.keep()

    assert [each.record for each in kept] == ["k:1"]
    assert (len(timers.timers), rig.output) == (1, [])


def test_records_of_first_request_order_cannot_be_kept() -> None:
    rig = Rig(options={"order": RecordOrder.FIRST_REQUEST_ORDER})

    with pytest.raises(ValueError, match="RECORD_ORDER"):
        rig.controller.keep()


@given(
    history=st.lists(st.sampled_from(["a:x", "b:x", "c:x"]), max_size=15),
    limits=st.builds(
        ControllerLimits, in_flight_max=st.integers(1, 6), batch_max=st.integers(1, 3)
    ),
    moves=st.lists(st.integers(0, 15), max_size=3),
    data=st.data(),
)
def test_moving_at_any_place_gives_what_staying_gives(
    history: list[str], limits: ControllerLimits, moves: list[int], data: st.DataObject
) -> None:
    def choose(count: int) -> Sequence[int]:
        return data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))]

    rig = Rig(counting, limits=limits, manual=choose)
    for number, each in enumerate(history):
        if number in moves:
            rig = moved(rig, limits=limits, manual=choose)
        rig.submit(f"{each}{number}")
    rig.controller.drain()

    rig.assert_nothing_left()
    for key in "abc":
        mine = [f"{each}{number}" for number, each in enumerate(history) if each[0] == key]
        assert [each for each in rig.output if each[0][0] == key] == [
            (record, place) for place, record in enumerate(mine, 1)
        ]


def test_kept_records_of_another_version_are_refused() -> None:
    with pytest.raises(FormatVersionMismatch, match="format '2'"):
        kept_from_text("kept 2\n[]", str)


@pytest.mark.parametrize("text", ["", "other", 'kept 1\n["k",0]', "kept 1\n{"])
def test_what_is_not_kept_records_is_refused(text: str) -> None:
    with pytest.raises(StateCorrupt):
        kept_from_text(text, str)


def test_a_block_that_is_gone_is_refused() -> None:
    rig = Rig(counting)

    with pytest.raises(StateCorrupt, match="no block 'gone'"):
        rig.controller.resume([KeptRecord("k", b"k", 0, None, Position("count", "gone", {}))])


def test_a_process_that_is_not_given_is_refused() -> None:
    with pytest.raises(StateCorrupt, match="process 'other', which is not given"):
        Rig(counting).controller.resume(
            [KeptRecord("k", b"k", 0, None, Position("other", "read", {}))]
        )


def test_a_block_that_names_none_fails_the_operator() -> None:
    def process(rig: Rig) -> DeclaredProcess:
        async def only(record: str, variables: dict[str, Any]) -> str:
            return "nowhere"

        return declare_process("lost", only=only)

    with pytest.raises(OperatorFailed) as failed:
        Rig(process).submit("k")
    assert "no block 'nowhere'" in str(failed.value.__cause__)
