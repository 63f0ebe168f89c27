"""An epoch is one prefix of each table: what Spark's records of it may say, and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.runtime.dataflow_errors import SourceSplit, SourceUnavailable
from service.runtime.planned_offsets import check_checkpoint, check_epoch_read
from state.errors import StateLost

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = {"id": "7-0", "rows": 7}
PAYMENTS = {"id": "5-0", "rows": 9}
STREAMS = ("orders", "payments", "orders")


def planned(folder: Path, epoch: int, *ends: dict[str, Any] | None) -> None:
    lines = [b"-" if each is None else orjson.dumps({**each, "tick": 3}) for each in ends]
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(epoch - 1)).write_bytes(b"\n".join([b"v1", b"{}", *lines]))


def check_start(folder: Path, epoch: int, **closed: Any) -> None:
    check_checkpoint(folder, STREAMS, ("topic",), closed_epoch=epoch, closed_offsets=closed)


def check_close(folder: Path, epoch: int, **offsets: Any) -> None:
    check_epoch_read(folder, epoch, STREAMS, (), offsets)


# at the close of an epoch


def test_an_epoch_that_read_each_table_to_its_planned_end_is_closed(tmp_path: Path) -> None:
    planned(tmp_path, 4, ORDERS, PAYMENTS, ORDERS)

    check_close(tmp_path, 4, orders=ORDERS, payments=PAYMENTS, **{"@time": 5})


@pytest.mark.parametrize(
    ("ends", "read"),
    [
        ((ORDERS, PAYMENTS, {**ORDERS, "rows": 8}), {"orders": ORDERS, "payments": PAYMENTS}),
        ((ORDERS, PAYMENTS, None), {"orders": ORDERS, "payments": PAYMENTS}),
        ((ORDERS, PAYMENTS), {"orders": ORDERS, "payments": PAYMENTS}),
        ((ORDERS, PAYMENTS, ORDERS, ORDERS), {"orders": ORDERS, "payments": PAYMENTS}),
        ((ORDERS, PAYMENTS, ORDERS), {"orders": {**ORDERS, "rows": 6}, "payments": PAYMENTS}),
        ((ORDERS, PAYMENTS, ORDERS), {"orders": ORDERS}),
    ],
    ids=["two ends", "no end", "a line less", "a line more", "read elsewhere", "not read"],
)
def test_an_epoch_that_is_not_one_prefix_of_each_table_is_not_closed(
    tmp_path: Path, ends: Any, read: dict[str, Any]
) -> None:
    planned(tmp_path, 4, *ends)

    with pytest.raises(SourceSplit):
        check_close(tmp_path, 4, **read)


def test_what_spark_counts_of_a_topic_is_not_compared_but_has_one_end(tmp_path: Path) -> None:
    streams = ("topic", "topic-ticks", "topic", "topic-ticks")
    ahead, behind = {"t": {"0": 9}}, {"t": {"0": 8}}
    read = {"topic": {"topics": {"t": {"0": 7}}}}
    planned(tmp_path, 1, ahead, {}, ahead, {})
    planned(tmp_path, 2, ahead, {}, behind, {})

    check_epoch_read(tmp_path, 1, streams, ("topic",), read)
    with pytest.raises(SourceSplit, match="topic: "):
        check_epoch_read(tmp_path, 2, streams, ("topic",), read)


def test_an_epoch_whose_record_cannot_be_read_is_not_closed(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable):
        check_close(tmp_path, 4)


# at a start


def test_a_query_goes_on_from_where_its_state_stands(tmp_path: Path) -> None:
    check_start(tmp_path, 0)
    planned(tmp_path, 3, ORDERS, PAYMENTS, ORDERS)
    check_start(tmp_path, 2)  # planned, not closed; what came before is gone
    check_start(tmp_path, 3, orders=ORDERS, payments=PAYMENTS)
    planned(tmp_path, 4, {**ORDERS, "rows": 9}, PAYMENTS, {**ORDERS, "rows": 9})
    check_start(tmp_path, 3, orders=ORDERS, payments=PAYMENTS)


@pytest.mark.parametrize("epoch", [3, 4], ids=["closed", "planned"])
@pytest.mark.parametrize("lines", [(ORDERS, PAYMENTS, PAYMENTS), (ORDERS, PAYMENTS)])
def test_a_record_of_two_ends_or_of_other_sources_is_refused_before_the_query_starts(
    tmp_path: Path, epoch: int, lines: Any
) -> None:
    planned(tmp_path, 3, ORDERS, PAYMENTS, ORDERS)
    planned(tmp_path, epoch, *lines)

    with pytest.raises(SourceSplit):
        check_start(tmp_path, 3, orders=ORDERS, payments=PAYMENTS)


def test_sources_that_would_go_on_from_each_others_places_are_refused(tmp_path: Path) -> None:
    planned(tmp_path, 3, PAYMENTS, ORDERS, PAYMENTS)

    with pytest.raises(StateLost):
        check_start(tmp_path, 3, orders=ORDERS, payments=PAYMENTS)
