"""Rows of a partition come together in their order, whatever order their batches came in."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from operators.gathering import gather
from operators.wire import DEAD_LETTER, KIND, ORDER, TICK


def batch(orders: list[int], kinds: list[int] | None = None) -> pa.RecordBatch:
    """Rows whose only column is ten times their order number."""
    return pa.record_batch(
        {
            "f0": pa.array([10 * each for each in orders], pa.int64()),
            KIND: pa.array(kinds or [0] * len(orders), pa.int8()),
            ORDER: pa.array(orders, pa.int64()),
        }
    )


def orders_of(*batches: pa.RecordBatch) -> list[int]:
    """The order numbers of gathered changes, each still with its row."""
    gathered = gather(batches)
    assert gathered is not None
    orders: list[int] = gathered.changes[ORDER].to_pylist()
    assert gathered.changes["f0"].to_pylist() == [10 * each for each in orders]
    return orders


def test_control_rows_are_set_apart() -> None:
    gathered = gather(
        [batch([7, 0, 8], [0, TICK, 3]), batch([]), batch([3], [DEAD_LETTER]), batch([9, 10])]
    )

    assert gathered is not None
    assert gathered.changes[ORDER].to_pylist() == [7, 8, 9, 10]
    assert gathered.changes[KIND].to_pylist() == [0, 3, 0, 0]
    assert gathered.control[KIND].to_pylist() == [TICK, DEAD_LETTER]
    assert all(column.num_chunks == 1 for column in gathered.changes.columns)


def test_without_rows_there_is_nothing() -> None:
    assert gather([]) is None
    assert gather([batch([]), batch([])]) is None


def test_control_rows_alone_leave_no_changes() -> None:
    gathered = gather([batch([0, 1], [TICK, TICK])])

    assert gathered is not None
    assert (gathered.changes.num_rows, gathered.control.num_rows) == (0, 2)
    assert np.asarray(gathered.changes[ORDER]).tolist() == []


def test_runs_of_two_tasks_are_put_in_their_order() -> None:
    # The second batch has the end of one task's rows and the beginning of the other's.
    assert orders_of(batch([50, 51, 53]), batch([54, 58, 1, 4]), batch([5, 9, 49])) == [
        *[1, 4, 5, 9, 49],
        *[50, 51, 53, 54, 58],
    ]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_batches_gives_the_same(seed: int) -> None:
    chance = random.Random(seed)
    orders = sorted(chance.sample(range(1_000), 200))
    cuts = [0, *sorted(chance.sample(range(1, 200), 12)), 200]
    batches = [batch(orders[low:high]) for low, high in pairwise(cuts)]
    chance.shuffle(batches)

    assert orders_of(*batches) == orders


def test_rows_of_tasks_that_read_in_turns_stay_as_they_came() -> None:
    assert orders_of(batch([1, 5, 9]), batch([2, 6])) == [1, 5, 9, 2, 6]
    assert orders_of(batch([1, 5]), batch([5, 6])) == [1, 5, 5, 6]


def test_rows_in_no_order_stay_as_they_came() -> None:
    orders = [9, 8, 7, 6, 5, 4, 3]

    assert orders_of(batch(orders), batch([1, 2])) == [*orders, 1, 2]
