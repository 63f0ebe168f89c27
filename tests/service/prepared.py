"""State and effects as a query leaves them: the real materializer and ledger, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from operators.batch import ChangeBatch
from operators.changelog import RowKind
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from service.runtime.sinks.commit import record_effects
from service.runtime.slot_keys import DEAD_COUNT_NAME, DEAD_NAME, table_name
from state.backends.interface import CounterAdd, EpochStamp, HashDelete, HashPut, StreamAppend
from state.backends.redis import RedisBackend
from state.codec import RowCodec
from state.epochs import EpochLedger
from state.key_groups import key_groups_of_columns
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from state.backends.interface import Effect

MAX_PARALLELISM = 8
KINDS = {kind.short: kind for kind in RowKind}
Change = tuple[str, tuple[Any, ...]]


def spec_of(
    columns: dict[str, str], key: Sequence[str], upsert_key: Sequence[str] = (), **more: Any
) -> MaterializerSpec:
    """A materializer over columns given as name and type."""
    names = tuple(columns)
    return MaterializerSpec(
        types=tuple(parse_type(each) for each in columns.values()),
        names=names,
        key=tuple(names.index(each) for each in key),
        upsert_key=tuple(names.index(each) for each in upsert_key) or None,
        **more,
    )


class PreparedPipeline:
    """A pipeline whose epochs a test runs by hand."""

    def __init__(
        self,
        client: redis.Redis,
        name: str,
        spec: MaterializerSpec,
        node: str = "3_sink-materializer",
        table: str | None = None,
    ) -> None:
        self.name = name
        self.node = node
        self._spec = spec
        self._table = table
        self._backend = RedisBackend(client, name)
        self._ledger = EpochLedger(client, name)
        self._run = self._ledger.open_run([node], MAX_PARALLELISM)
        self.epoch = self._ledger.marker().epoch

    def run_epoch(
        self,
        changes: Sequence[Change],
        *,
        time_ms: int = 1_000,
        offsets: dict[str, Any] | None = None,
        dead: Sequence[dict[str, Any]] = (),
        close: bool = True,
    ) -> None:
        """Run an epoch through operator and table, and close it."""
        stamp = EpochStamp(self.epoch + 1, self._run, time_ms)
        codec = RowCodec(self._spec.types, self._spec.names)
        rows = [codec.encode(row) for _, row in changes]
        columns = codec.decode_columns(rows)
        keys = [columns[each] for each in self._spec.key]
        key_types = [self._spec.types[each] for each in self._spec.key]
        groups = key_groups_of_columns(key_types, keys, MAX_PARALLELISM)
        batch = ChangeBatch.of(columns, [KINDS[op] for op, _ in changes], key_groups=groups)
        everywhere = range(MAX_PARALLELISM)
        transaction = self._backend.begin(self.node, stamp, everywhere)
        output = UpsertMaterializer(self._spec).run_epoch(
            batch, transaction, time_ms=time_ms, key_groups=everywhere
        )
        if not close:
            return
        effects = [
            *self._table_effects(output.batch),
            *self._slot_effects(stamp, len(changes), output.statistics, dead),
        ]
        self._ledger.close_epoch(stamp, offsets or {}, effects)
        self._ledger.promote_all([self.node], MAX_PARALLELISM)
        self.epoch += 1

    def _table_effects(self, batch: ChangeBatch) -> list[Effect]:
        if self._table is None:
            return []
        name = table_name(self._table).encode()
        spec = self._spec
        key_codec = RowCodec(
            [spec.types[each] for each in spec.key], [spec.names[each] for each in spec.key]
        )
        fields = key_codec.encode_columns([batch.columns[each] for each in spec.key]).to_pylist()
        lines = RowCodec(spec.types, spec.names).encode_json_lines(None, list(batch.columns))
        effects: list[Effect] = []
        for kind, field, line in zip(batch.kinds.tolist(), fields, lines, strict=True):
            if kind == RowKind.DELETE:
                effects.append(HashDelete(name, [field]))
            else:
                effects.append(HashPut(name, [field, bytes(line)]))
        return effects

    def _slot_effects(
        self,
        stamp: EpochStamp,
        rows_in: int,
        statistics: dict[str, int],
        dead: Sequence[dict[str, Any]],
    ) -> list[Effect]:
        nodes = {self.node: {**statistics, "commit_ms": 1.5}}
        record = {
            "epoch": stamp.epoch,
            "run": stamp.run,
            "time_ms": stamp.time_ms,
            "rows_in": rows_in,
            "rows_out": statistics["rows_out"],
            "dead": len(dead),
            "nodes": nodes,
            "offsets": {},
        }
        effects = record_effects(record, 1_000)
        if dead:
            letters = [[b"letter", orjson.dumps(each)] for each in dead]
            effects.append(StreamAppend(DEAD_NAME.encode(), letters, 1_000))
            effects.append(CounterAdd(DEAD_COUNT_NAME.encode(), len(dead)))
        return effects
