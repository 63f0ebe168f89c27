"""What inspection shows of states in namespaces, on windows that the real operator made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from operators.event_time import from_ms
from operators.spec import InputSpec, RowSpec
from operators.stored_rows import StoredRows
from operators.testing.operator_harness import Of, OperatorHarness, insert
from operators.windows.shapes import Tumbling
from operators.windows.window_rank import OrderColumn, WindowRankSpec
from service.runtime.inspection import OperatorInspector
from service.runtime.inspection_errors import KeyNotFound, StateNotFound
from service.runtime.state_inspection import StateInspector
from service.runtime.table_reader import SlotReader
from state.descriptors import SortedMapDescriptor
from state.reader import CommittedReader
from state.types import parse_type
from tests.service.prepared import MAX_PARALLELISM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

    from state.descriptors import StateDescriptor

NODE = "4_window-rank"
TIME = parse_type("TIMESTAMP(3)")
ROWS = RowSpec(types=("STRING", "INT", TIME), names=("tail", "delay", "end"))
SPEC = WindowRankSpec.build(
    inputs=(InputSpec(types=ROWS.types, names=ROWS.names, key=(0,)),),
    output=ROWS,
    shape=Tumbling(size_ms=10),
    order=(OrderColumn(column=1, descending=True),),
    last=2,
    end_column=2,
)


class Look:
    """A window rank with rows of two windows of one key, and its inspectors."""

    def __init__(self, client: redis.Redis) -> None:
        self.harness = OperatorHarness.on_redis(
            SPEC, client, pipeline="p", node=NODE, max_parallelism=MAX_PARALLELISM
        )
        self.reader = CommittedReader(client, "p")
        states = SPEC.operator().states
        self.operator = OperatorInspector(
            self.reader, NODE, SPEC, MAX_PARALLELISM, descriptors=states
        )
        self._slot = SlotReader(client, "p")
        self.readings = 0
        """How often the clock was looked at."""
        self.states = self.inspector_of(states)
        rows = [("N1", delay, from_ms(end, TIME)) for end in (10, 20) for delay in (3, 7)]
        self.harness.run_epoch([Of(0, insert(*each)) for each in rows])

    def inspector_of(self, states: Sequence[StateDescriptor]) -> StateInspector:
        """Looks into the states with what these know of them."""
        keys = self.operator.keys
        return StateInspector(
            self.reader,
            self._slot,
            NODE,
            keys,
            MAX_PARALLELISM,
            descriptors=states,
            clock=self._read_clock,
        )

    def _read_clock(self) -> int:
        self.readings += 1
        return 1_000 * self.readings


@pytest.fixture
def look(redis_client: redis.Redis) -> Iterator[Look]:
    made = Look(redis_client)
    yield made
    made.reader.close()
    made.harness.close()


@pytest.mark.parametrize("limit", [1, 2])
def test_a_key_is_listed_with_each_of_its_namespaces(look: Look, limit: int) -> None:
    found = []
    for list_keys in (
        lambda *page: look.states.list_keys(None, *page),
        lambda *page: look.states.list_keys("rows", *page),
        lambda *page: look.states.list_keys("event_timers", *page),
    ):
        part = list_keys("", None, limit)
        items = list(part.items)
        while part.position is not None:
            part = list_keys("", part.position, limit)
            items += part.items
        found.append([(each.key, each.namespace) for each in items])

    assert found == [[(["N1"], "10"), (["N1"], "20")]] * 3
    assert look.operator.counts().keys == 2


def test_a_namespace_has_states_of_its_own_and_timers_tell_of_all(look: Look) -> None:
    shown = look.states.read_all(("N1",), namespace="20", limit=10)
    without = look.states.read_all(("N1",), namespace="", limit=10)

    (rows, buffer), (timers, due) = shown.states
    assert (rows.name, timers.name) == ("rows", "event_timers")
    assert [(each.key, each.value["delay"]) for each in buffer.elements] == [([7], 7), ([3], 3)]
    assert [each.key for each in due.elements] == ["10", "20"]
    assert [state.name for state, _ in without.states] == ["event_timers"]


def test_one_request_has_one_time(look: Look) -> None:
    states = SPEC.operator().states

    look.states.read_all(("N1",), namespace="20", limit=10)
    assert look.readings == 1
    look.states.compare(("N1",), states, namespace="20", limit=10)
    assert look.readings == 2


def test_what_is_not_there_is_told_apart(look: Look) -> None:
    with pytest.raises(KeyNotFound):
        look.states.read_all(("N2",), namespace="", limit=10)
    with pytest.raises(KeyNotFound):
        look.states.read("rows", ("N1",), namespace="30", after="", limit=10)
    with pytest.raises(StateNotFound):
        look.states.list_keys("none", "", None, 10)


def test_a_state_of_another_form_is_shown_as_it_is_stored(look: Look) -> None:
    """A plan may have changed since; its rows would be given the names of other columns."""
    (rows, *_) = SPEC.operator().states
    assert isinstance(rows, SortedMapDescriptor)
    changed = replace(rows, codec=StoredRows(ROWS.part((0, 1))))
    inspector = look.inspector_of([changed])

    content = inspector.read("rows", ("N1",), namespace="10", after="", limit=1).content

    assert content.elements[0].value == ["N1", 7, "1970-01-01T00:00:00.01"]
    assert content.next_after is not None
