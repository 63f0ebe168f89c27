"""Turn an out-of-order changelog into one that a sink with a primary key can apply.

Changes of one primary key may reach the sink in another order than they happened, since before the
sink they were keyed by something else. So the operator keeps every live row of a key, and shows the
newest:

    change   the key's history                   emitted
    +I +U    empty                               +I the row
    +I +U    not empty, no match, or no upsert key: appended         +U the row
    +I +U    matches an entry by upsert key: takes its place         +U the row
    -U -D    nothing matches                     nothing; the retraction is an orphan
    -U -D    matches the only entry: emptied     -D the retraction's row
    -U -D    matches the newest entry: removed   +U the row that is the newest now
    -U -D    matches another entry: removed      nothing

Equality is that of canonical rows, in upsert keys too: NaN is NaN, 0.0 is not -0.0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, assert_never

import numpy as np
import orjson

from operators.batch import ChangeBatch, EpochOutput
from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.keyed_epoch import KeyedEpoch, KeyedInput
from operators.net_changes import net_changes
from operators.orphans import orphan_writes
from state.errors import InvalidThresholds
from state.multiset.changes import Report
from state.multiset.epoch_result import EpochResult
from state.multiset.interface import NotFound, RemovedAll, RemovedLast, RemovedOther
from state.multiset.kernel import apply_changes
from state.multiset.loading import HistoryLoader
from state.multiset.memory import HistoryMemory
from state.multiset.registered import HistoryDescriptor
from state.multiset.strategy import HistoryPolicy, Strategy, Thresholds
from state.multiset.writing import HistoryWriter
from state.ttl import DISABLED, TtlConfig
from state.types import format_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from state.backends.interface import EpochTransaction, Write
    from state.multiset.changes import Outcome
    from state.multiset.histories import Histories
    from state.multiset.interface import SequencedMultiSet
    from state.types import LogicalType

_KIND_OF_REPORT = np.array(
    [RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.UPDATE_AFTER, RowKind.DELETE], np.int8
)
"""What is emitted for the first four reports; the others emit nothing."""
_MANY_CHANGES = 4096
"""Sorting more of them takes longer than sending the begin of an epoch apart from its reads."""


@dataclass(frozen=True, slots=True)
class MaterializerSpec:
    """What one upsert materializer is to do.

    Raises:
        InvalidSpec: If columns are missing or repeated, or thresholds leave no gap.
    """

    KIND: ClassVar[str] = "sink-materializer"

    types: tuple[LogicalType, ...]
    names: tuple[str, ...]
    key: tuple[int, ...]
    """Columns of the sink's primary key."""
    upsert_key: tuple[int, ...] | None
    """Columns that say which entry a change is about; None or empty: the whole row does."""
    strategy: Strategy = Strategy.ADAPTIVE
    high: int | None = None
    """ADAPTIVE: a packed history of so many entries is spread; None: the backend's default."""
    low: int | None = None
    """ADAPTIVE: a spread history of so few entries is packed; None: the backend's default."""
    ttl_ms: int = 0
    ttl_extension_ms: int = 0
    """By how much all lives were extended: the time of TTL stands that far behind the epoch's."""
    ttl_enabled_ms: int | None = None
    """When TTL was switched on for state that was there already: `state.registry` knows."""
    is_stamped: bool = False
    """Whether some run had a TTL: `state.registry` knows this, too."""
    is_silent: bool = False
    """Whether some run had one and emitted nothing of what expired: `state.registry` knows."""
    due_keys_max: int = 1000
    """Keys of one key group that an epoch cleans beside those that it touches."""
    emit_expired: bool = False
    """Expiry of the row that the sink shows emits what that means: -D, or +U of what remains."""
    net_changes: bool = False
    """Emit at most one change for a key and epoch: what is different at its end."""
    orphans_max: int = 1000
    """Orphans that are kept for each key group; the count goes on."""
    backend: str = "redis"
    """Whose default thresholds count: "redis" or "heap"."""

    def __post_init__(self) -> None:
        columns = range(len(self.types))
        if len(self.names) != len(self.types):
            raise InvalidSpec(f"{len(self.names)} names for {len(self.types)} columns")
        for what, chosen in (("key", self.key), ("upsert key", self.upsert_key or ())):
            if len(set(chosen)) != len(chosen) or not all(each in columns for each in chosen):
                raise InvalidSpec(f"{what} {list(chosen)} does not name columns of the input")
        if not self.key:
            raise InvalidSpec("an upsert materializer needs a primary key")
        if min(self.ttl_ms, self.ttl_extension_ms, self.orphans_max) < 0 or self.due_keys_max < 1:
            raise InvalidSpec("ttl, its extension and orphans_max begin at 0, due_keys_max at 1")
        try:
            Thresholds.of(self.backend, self.high, self.low)
        except InvalidThresholds as cause:
            raise InvalidSpec(cause.message) from cause

    @property
    def replaces(self) -> bool:
        """Whether an addition takes the place of the entry that it matches."""
        return bool(self.upsert_key)

    @property
    def policy(self) -> HistoryPolicy:
        """How the histories are kept."""
        thresholds = Thresholds.of(self.backend, self.high, self.low)
        return HistoryPolicy(
            self.strategy,
            thresholds,
            self.ttl_ms,
            self.due_keys_max,
            self.ttl_enabled_ms,
            self.emit_expired,
            self.is_stamped,
        )

    @property
    def descriptor(self) -> HistoryDescriptor:
        """The state, as the pipeline remembers it."""
        return HistoryDescriptor(
            name="history",
            row=", ".join(map(format_type, self.types)),
            key=self.key,
            match=self.upsert_key or (),
            ttl=TtlConfig(self.ttl_ms) if self.ttl_ms else DISABLED,
            emits_expired=self.emit_expired,
            is_whole=self.strategy is Strategy.LEGACY,
        )

    @property
    def input(self) -> KeyedInput:
        """The input and its codecs; made anew at each call."""
        return KeyedInput.of(self.types, self.names, self.key, self.upsert_key)

    def to_json(self) -> str:
        """As it travels to workers."""
        return orjson.dumps(
            {
                "kind": self.KIND,
                "types": [format_type(each) for each in self.types],
                "names": self.names,
                "key": self.key,
                "upsert_key": self.upsert_key,
                "strategy": self.strategy.value,
                "high": self.high,
                "low": self.low,
                "ttl_ms": self.ttl_ms,
                "ttl_extension_ms": self.ttl_extension_ms,
                "ttl_enabled_ms": self.ttl_enabled_ms,
                "is_stamped": self.is_stamped,
                "is_silent": self.is_silent,
                "due_keys_max": self.due_keys_max,
                "emit_expired": self.emit_expired,
                "net_changes": self.net_changes,
                "orphans_max": self.orphans_max,
                "backend": self.backend,
            }
        ).decode()

    @classmethod
    def from_json(cls, text: str) -> MaterializerSpec:
        """The spec that `to_json` wrote."""
        fields: dict[str, Any] = orjson.loads(text)
        upsert_key = fields["upsert_key"]
        return cls(
            types=tuple(parse_type(each, is_ours=True) for each in fields["types"]),
            names=tuple(fields["names"]),
            key=tuple(fields["key"]),
            upsert_key=None if upsert_key is None else tuple(upsert_key),
            strategy=Strategy(fields["strategy"]),
            high=fields["high"],
            low=fields["low"],
            ttl_ms=fields["ttl_ms"],
            ttl_extension_ms=fields["ttl_extension_ms"],
            ttl_enabled_ms=fields["ttl_enabled_ms"],
            is_stamped=fields["is_stamped"],
            is_silent=fields["is_silent"],
            due_keys_max=fields["due_keys_max"],
            emit_expired=fields["emit_expired"],
            net_changes=fields["net_changes"],
            orphans_max=fields["orphans_max"],
            backend=fields["backend"],
        )


class _CarriedOut(NamedTuple):
    """What an epoch does, not committed yet."""

    histories: Histories
    outcome: Outcome
    loaded: NDArray[np.int64]
    """Loaded entries whose rows are emitted, ascending."""
    rows: pa.BinaryArray
    """Their canonical rows."""
    writer: HistoryWriter
    writes: dict[int, list[Write]]
    """By key group."""


class UpsertMaterializer:
    """Keep the live rows of each primary key and emit an upsert changelog of the newest.

    Characteristics:
        input       +I -U +U -D, keyed by primary key, in any order of rows
        output      +I +U -D, upsert key = primary key; at most one for each change, or with
                    `net_changes` for each key and epoch
        state       history of each key (`state.multiset`); nothing once all rows are retracted
        state cost  1 round trip (packed) to 3 (spread) and a commit for an epoch, whatever its
                    size; 1 (spread) where a large epoch follows another one in the same worker
        memory      indexes and blocks of long histories that it wrote: a cache, at most 16 MiB
        time        epoch time for TTL, nothing else; expiry emits nothing unless `emit_expired`
        unseen -D   counted in `orphans`, listed in a bounded stream

    Where `upsert_key` is given, rows of a change may differ from the stored row in other columns:
    nothing but the upsert key is compared, and -D shows the retraction's columns.

    Source: Flink SinkUpsertMaterializer and SinkUpsertMaterializerV2 (FLIP-544, FLINK-38461), with
    FLINK-39740; VALUE, MAP and ADAPTIVE honour TTL, entry by entry.
    """

    def __init__(self, spec: MaterializerSpec) -> None:
        self.spec = spec
        self._policy = spec.policy
        self._forgets = spec.is_silent or spec.descriptor.expires_silently
        self._input = spec.input
        self._memory = HistoryMemory()
        """Spread histories as this process wrote them last: a cache."""

    def process(self, change: Change, history: SequencedMultiSet, now_ms: int) -> Change | None:
        """What one change emits, one key's history at a time: the meaning of `run_epoch`."""
        row = self._input.row_codec.encode(change.row)
        match = self._input.match_codec.encode([change.row[i] for i in self._input.match])
        if not change.kind.is_retraction:
            put = history.add if self.spec.replaces else history.append
            added = put(match, row, now_ms)
            return change.with_kind(RowKind.INSERT if added.was_empty else RowKind.UPDATE_AFTER)
        removal = history.remove(match, now_ms)
        match removal:
            case NotFound() | RemovedOther():
                return None
            case RemovedAll():
                return change.with_kind(RowKind.DELETE)
            case RemovedLast(now_last=entry):
                return Change(RowKind.UPDATE_AFTER, self._input.row_codec.decode(entry.row))
            case _:
                assert_never(removal)

    def _expiry_of(self, histories: Histories) -> ChangeBatch:
        """What the sink is to know of rows that expired: before the epoch's own changes."""
        key, count = histories.vanished, histories.vanished.size
        newest = histories.entries.key.searchsorted(key, side="right") - 1
        remains = newest >= 0
        remains[remains] = histories.entries.key[newest[remains]] == key[remains]
        place = histories.vanished_place.copy()
        place[remains] = histories.packed_entry[newest[remains]]
        return ChangeBatch(
            columns=tuple(self._input.row_codec.decode_columns(histories.packed.rows(place))),
            kinds=np.where(remains, RowKind.UPDATE_AFTER, RowKind.DELETE).astype(np.int8),
            order=np.arange(-count, 0),
            key_groups=histories.key_groups[key].astype(np.int32),
        )

    def _carry_out(
        self,
        epoch: KeyedEpoch,
        loader: HistoryLoader,
        histories: Histories,
        transaction: EpochTransaction,
        now_ms: int,
    ) -> _CarriedOut:
        """What the epoch does to histories that were loaded; it loads more where that is needed."""
        replace = self.spec.replaces
        outcome = apply_changes(epoch.changes, epoch.groups, histories.entries, replace=replace)
        while (settled := loader.settle(outcome)) is not None:
            histories = settled
            outcome = apply_changes(epoch.changes, epoch.groups, histories.entries, replace=replace)
        writer = HistoryWriter(
            EpochResult(
                policy=self._policy,
                histories=histories,
                changes=epoch.changes,
                groups=epoch.groups,
                outcome=outcome,
                replace=replace,
                now_ms=now_ms,
            )
        )
        source = outcome.source[outcome.seen]
        old = source[source < 0]
        loaded = np.unique(-1 - old) if old.size else old
        rows = writer.fetch(transaction, epoch, loaded)
        return _CarriedOut(histories, outcome, loaded, rows, writer, writer.writes(epoch, epoch))

    def run_epoch(
        self,
        batch: ChangeBatch,
        transaction: EpochTransaction,
        *,
        time_ms: int,
        key_groups: Sequence[int],
    ) -> EpochOutput:
        """Apply an epoch's changes to the state and commit it.

        Args:
            batch: The changes, in any order of rows.
            transaction: The open epoch of this operator, for all of `key_groups`.
            time_ms: The epoch's time.
            key_groups: Key groups that this call is responsible for; expiry is looked for in them.

        Raises:
            StateError: As the backend raises.
        """
        started_ns = time.perf_counter_ns()
        if self._memory or len(batch) > _MANY_CHANGES:
            # What the epoch before left is carried out while changes are sorted.
            transaction.expect([])
        epoch = KeyedEpoch(self._input, batch.in_order())
        now_ms = time_ms - self.spec.ttl_extension_ms
        loader = HistoryLoader(
            self._policy, transaction, epoch.touched, epoch, now_ms, self._memory
        )
        done = self._carry_out(epoch, loader, loader.load(key_groups), transaction, now_ms)
        while (confirmed := loader.confirm()) is not None:
            done = self._carry_out(epoch, loader, confirmed, transaction, now_ms)
        histories, outcome, writes = done.histories, done.outcome, done.writes
        missed = (outcome.report == int(Report.MISSED)).nonzero()[0]
        for key_group, write in orphan_writes(epoch, missed, time_ms, self.spec.orphans_max):
            writes.setdefault(key_group, []).append(write)
        # What is emitted is put together while the backend stores; it leaves when that is done.
        committed = transaction.committing(writes)
        kinds = _KIND_OF_REPORT[outcome.report[outcome.seen]]
        output = epoch.emit(
            outcome.seen, kinds, outcome.source[outcome.seen], done.loaded, done.rows
        )
        if self.spec.emit_expired and histories.vanished.size:
            output = output.after(self._expiry_of(histories))
        if self.spec.net_changes:
            output = net_changes(output, self.spec.types, self.spec.key, forgets=self._forgets)
        remember = done.writer.remembering(transaction, self._memory)
        committed()
        remember()
        return EpochOutput(
            output,
            {
                "rows_in": len(batch),
                "rows_out": len(output),
                "orphans": missed.size,
                "keys": len(epoch.touched.keys),
                "expired": int(histories.expired.sum()),
                "migrations": done.writer.migrations,
                **transaction.statistics().counts(),
                "epoch_ns": time.perf_counter_ns() - started_ns,
            },
        )
