"""Items in which writer tasks leave rows: none larger than Redis and the commit can take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from service.runtime.sinks.items import ROWS_PER_ITEM, rows_of, stage_rows
from service.runtime.sinks.spec import SinkSpec
from tests.service.runtime.sinks.kafka.stand import APPEND, KafkaPipeline, Place

if TYPE_CHECKING:
    from pathlib import Path

    import redis


def test_large_rows_come_in_items_of_fewer(redis_client: redis.Redis, tmp_path: Path) -> None:
    pipeline = KafkaPipeline(Place(str(tmp_path)), redis_client)
    spec = SinkSpec(1, "s", "kafka", ("v",), ("STRING",), (), "append", APPEND)
    writer = pipeline.writer()
    for size, rows, items in ((1 << 20, 10, 4), (1, 3 * ROWS_PER_ITEM, 3)):
        column = pa.array([b"%d" % at * size for at in range(rows)], pa.large_binary())
        part = stage_rows(writer, spec, (1, 0, f"{size}"), [], [column])
        found = list(rows_of(writer, part))
        assert pa.concat_tables(found).column(0).to_pylist() == column.to_pylist()
        assert max(each.num_rows for each in found) <= ROWS_PER_ITEM
        assert max(each.nbytes for each in found) <= 5 << 20
        assert len(found) == items
