"""Savepoints of pipelines: state, the slot and the checkpoint of one epoch, in one folder.

`state.savepoint` saves and restores what operators keep. Here is added what a pipeline needs
besides, to go on exactly where the savepoint stands:

- the checkpoint's offsets of that epoch (`checkpoints`), by which sources go on;
- what sources keep in the pipeline's slot: logs of files and of Kafka's partitions, and the changes
  that ingress has taken in and no closed epoch has read;
- what sinks keep there: tables of the `redis` connector, and the lines of `print`. They live and
  die with their pipeline, so a restored one without them would show tables that lack rows. Files of
  sinks, and all that lies elsewhere, are no part of it, as in Flink; of a table in a database, and
  of a topic, it is asked before a restore ends whether it is what the savepoint's epoch left;
- dead letters, and sums over all epochs. Progress of single epochs stays behind.

Whether an element is past its life is asked as of the epoch's own time, not of the clock: of a
pipeline that stands still nothing expires, so a downtime can still be made up for.
"""

from __future__ import annotations

import contextlib
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import redis

from operators.upsert_materializer import MaterializerSpec
from service.plan import load_plan
from service.plan.errors import PlanError
from service.plan.nodes import Sink, TableScan
from service.runtime.checkpoints import FOLDER, restore_checkpoint, save_checkpoint
from service.runtime.connectors import table_names
from service.runtime.databases import adopt_databases
from service.runtime.errors import LifecycleError, SavepointFailed, SavepointNotFound
from service.runtime.event_time import watermark
from service.runtime.folders import adopt_folders
from service.runtime.launcher import package_version
from service.runtime.operators import stateful_nodes
from service.runtime.planned_offsets import moved_record
from service.runtime.records import RestoreOrder
from service.runtime.restore_fit import described, fit
from service.runtime.savepoint_store import SavepointStore, ordered_ms
from service.runtime.sinks.owner import Restored
from service.runtime.slot_keys import (
    DEAD_COUNT_NAME,
    DEAD_NAME,
    INGRESS_DEAD_NAME,
    TOTALS_NAME,
    files_key,
    ingress_key,
    places_key,
    print_name,
    slot_key,
    table_name,
)
from service.runtime.table_reader import SlotReader
from service.runtime.topics import adopt_of_topics
from state.backends.transport import ClientSettings, RedisTransport
from state.errors import (
    Fenced,
    IncarnationChanged,
    SavepointMismatch,
    StateError,
    StateUnavailable,
)
from state.key_groups import key_group
from state.multiset.strategy import Strategy
from state.registry import extension_ms
from state.savepoint import (
    Expiry,
    SaveOptions,
    StateSaver,
    read_manifest,
    restore_state,
    restored_states,
    saved_file,
)
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from service.plan import CompiledPlan
    from service.runtime.keeper_ports import States
    from service.runtime.operators import OperatorInfo
    from service.runtime.query_starter import DataflowStarter
    from service.runtime.records import PipelineRecord, Replacement, RunOptions, SavepointOrder
    from service.runtime.restore_fit import Consequence, Fit
    from service.settings import Settings
    from state.savepoint import Manifest
    from state.savepoint.restore_fence import RestoreFence


class Savepoints:
    """Takes and restores savepoints; see `SavepointWork`. Its calls block."""

    def __init__(self, settings: Settings, client: redis.Redis, starter: DataflowStarter) -> None:
        self.store = SavepointStore(settings.savepoints)
        self._settings = settings
        self._client = client
        self._starter = starter

    def save(self, record: PipelineRecord, order: SavepointOrder) -> None:
        """Take a savepoint of a pipeline whose query is over; nothing to do if it is there.

        Raises:
            SavepointFailed: It cannot be taken, as the savepoint then tells.
            StateUnavailable: Redis does not answer: ask again.
        """
        if self.store.is_there(record.name, order.id):
            return
        try:
            self._save(record, order)
        except IncarnationChanged as error:
            raise StateUnavailable("redis restarted while a savepoint was taken") from error
        except Fenced as error:
            # By another service, which takes it now; if it was not, the next attempt does.
            raise StateUnavailable("another run was opened while a savepoint was taken") from error
        except redis.RedisError as error:
            raise StateUnavailable("redis does not answer") from error
        except StateUnavailable:
            raise
        except (StateError, LifecycleError, PlanError, OSError) as error:
            failure = _failure(error)
            with contextlib.suppress(OSError):  # the disk may be full; it is told all the same
                self.store.fail(record.name, order.id, failure)
            raise failure from error

    def restore(self, record: PipelineRecord) -> None:
        """Give a pipeline that never ran what its record says; nothing to do if it has it.

        Raises:
            SavepointNotFound, SavepointError, StateError, StartFailed: It cannot be restored.
            SavepointFailed: A file cannot be read or written.
        """
        try:
            if record.restore is not None:
                self._restore(record, record.restore)
        except Fenced as error:
            raise StateUnavailable("another service restores the pipeline, too") from error
        except (PlanError, OSError) as error:
            raise _failure(error) from error

    def latest(self, name: str) -> str | None:
        """The words for the newest savepoint of a pipeline, if there is one."""
        try:
            found = self.store.resolve(name, "latest")
            manifest = self.store.get(name, found).manifest
        except (SavepointNotFound, StateError, OSError):
            return None
        epoch = manifest.epoch if manifest is not None else 0
        return f"the latest savepoint is {name}/{found}, of epoch {epoch}"

    def check(
        self, order: RestoreOrder, plan: CompiledPlan, options: RunOptions
    ) -> tuple[Consequence, ...]:
        """See whether a plan can go on with a savepoint, as far as its manifest tells.

        Returns:
            What would come of it.

        Raises:
            SavepointNotFound: There is none.
            SavepointMismatch, SavepointCorrupt: It does not fit, or cannot be used.
        """
        fitted, _ = self._fitted(self.manifest(order), order, plan, options)
        fitted.require()
        return fitted.consequences

    def consequences(
        self, order: RestoreOrder, plan: CompiledPlan, options: RunOptions
    ) -> tuple[Consequence, ...]:
        """What would come of a restore, also if it is refused for that.

        Raises:
            SavepointNotFound: There is none.
            SavepointMismatch, SavepointCorrupt: It cannot be used at all.
        """
        fitted, _ = self._fitted(self.manifest(order), order, plan, options)
        return fitted.consequences

    def check_replacement(self, name: str, replacement: Replacement) -> tuple[str, ...]:
        """See that another plan can go on with the savepoint that was taken for it.

        Returns:
            What would come of it.

        Raises:
            SavepointNotFound, SavepointMismatch, SavepointCorrupt: As `check`.
            SavepointFailed: The plan cannot be read.
        """
        order = RestoreOrder(
            name,
            replacement.savepoint.id,
            replacement.allow_non_restored_state,
            allow_outdated_rows=replacement.allow_outdated_rows,
        )
        try:
            plan = load_plan(replacement.plan)
        except PlanError as error:
            raise _failure(error) from error
        options = replacement.options.resolved(self._settings.execution)
        return tuple(each.message for each in self.check(order, plan, options))

    def _fitted(
        self, manifest: Manifest, order: RestoreOrder, plan: CompiledPlan, options: RunOptions
    ) -> tuple[Fit, States]:
        """A savepoint and the plan that goes on with it, and what its operators will keep."""
        with _as_mismatch():
            wanted = self._starter.states_of(plan, options).descriptors
            fitted = fit(manifest, plan, stateful_nodes(plan, options), order)
            # What is lost is told by the judgement; this finds what is kept in another form.
            restored_states(manifest, wanted, allow_non_restored_state=True, moves=fitted.moves)
        return fitted, wanted

    def manifest(self, order: RestoreOrder) -> Manifest:
        """The manifest of the savepoint that is to be restored.

        Raises:
            SavepointNotFound: There is none.
            SavepointMismatch, SavepointCorrupt: It cannot be used.
        """
        with _as_mismatch():
            return read_manifest(self.store.folder(order.pipeline, order.savepoint))

    def _restore(self, record: PipelineRecord, order: RestoreOrder) -> None:
        folder = self.store.folder(order.pipeline, order.savepoint)
        manifest = read_manifest(folder)
        plan = load_plan(record.plan)
        options = record.options.resolved(self._settings.execution)
        fitted, wanted = self._fitted(manifest, order, plan, options)
        fitted.require()
        reads = fitted.reads
        moved = None if reads is None else partial(moved_record, before=reads[0], after=reads[1])
        files = [each.path for each in manifest.attachments if each.path.startswith(f"{FOLDER}/")]
        checkpoint = self._starter.checkpoint(record)

        restored = Restored(
            plan,
            pipeline=record.name,
            pipeline_id=record.id,
            files_root=str(self._settings.files.root.absolute()),
            hosts=self._settings.databases.hosts,
            epoch=manifest.epoch,
            origin=str(manifest.about.get("pipeline_id", "")),
            origins_name=manifest.pipeline,
            new_tables=fitted.new_tables,
        )

        def before_end(fence: RestoreFence) -> None:
            adopt_databases(restored)
            adopt_of_topics(restored)
            adopt_folders(restored)
            restore_checkpoint(folder, files, checkpoint, fence, moved)

        with self._transport() as transport:
            restore_state(
                transport,
                record.name,
                folder,
                manifest,
                wanted=wanted,
                max_parallelism=options.max_parallelism,
                place=_place(stateful_nodes(plan, options), options.max_parallelism),
                allow_non_restored_state=order.allow_non_restored_state,
                moves=fitted.moves,
                before_end=before_end,
            )

    def _save(self, record: PipelineRecord, order: SavepointOrder) -> None:
        hidden = self.store.begin(record.name, order.id)
        try:
            self._write(record, order, hidden)
            self.store.end(record.name, order.id, hidden)
        except OSError as error:
            if hidden.exists():
                raise
            raise StateUnavailable("another service has begun to take the savepoint") from error
        finally:
            shutil.rmtree(hidden, ignore_errors=True)  # what stays, the next one removes

    def _write(self, record: PipelineRecord, order: SavepointOrder, hidden: Path) -> None:
        """Write all of a savepoint into a folder."""
        plan = load_plan(record.plan)
        # What there is was made by the last run, whatever the next one will be.
        options = record.in_force(self._settings.execution)
        states = self._starter.states_of(plan, options)
        operators = stateful_nodes(plan, options)
        with self._transport() as transport:
            saver = StateSaver(transport, record.name, states.descriptors, options.max_parallelism)
            marker = saver.marker
            offsets = orjson.loads(marker.offsets)
            places = [offsets.get(name, {}) for name in table_names(plan).values()]
            files = save_checkpoint(self._starter.checkpoint(record), hidden, marker.epoch, places)
            save_options = SaveOptions(
                clock=self._clock(record.name, marker.epoch) if order.filter_expired else None,
                watermarks_ms={
                    node: watermark(marker.offsets, assigners)
                    for node, assigners in states.assigners.items()
                },
                expiry={each.id: _expiry(each) for each in operators},
                slot=_slot(record.name, plan, offsets),
            )
            about = {
                "pipeline_id": record.id,
                "ordered_ms": ordered_ms(order.id),
                "flink_version": plan.document.get("flinkVersion"),
                "version": package_version(),
                **described(plan, rows_in=self._rows_in(record.name)),
            }
            attachments = [saved_file(hidden, each) for each in files]
            saver.save(order.id, hidden, save_options, attachments=attachments, about=about)

    def _rows_in(self, name: str) -> int:
        """Changes that closed epochs of a pipeline have read."""
        return SlotReader(self._client, name).totals().get("rows_in", 0)

    def _clock(self, name: str, epoch: int) -> TtlClock | None:
        """The time of an epoch, as its progress record has it; None if that is gone."""
        slot = SlotReader(self._client, name)
        _, records = slot.progress(None, 1)
        if not records or records[0]["epoch"] != epoch:
            return None
        return TtlClock(records[0]["time_ms"], extension_ms=extension_ms(slot))

    def _transport(self) -> contextlib.closing[RedisTransport]:
        settings = self._settings.redis
        return contextlib.closing(
            RedisTransport(
                ClientSettings(
                    settings.url,
                    connect_timeout_ms=settings.connect_timeout_ms,
                    socket_timeout_ms=settings.socket_timeout_ms,
                )
            )
        )


def _expiry(operator: OperatorInfo) -> Expiry:
    spec = operator.spec
    if not isinstance(spec, MaterializerSpec):
        return Expiry.ENTRY
    if spec.emit_expired:
        return Expiry.EMITTED
    return Expiry.WHOLE if spec.strategy is Strategy.LEGACY else Expiry.ENTRY


def _slot(pipeline: str, plan: CompiledPlan, offsets: Mapping[str, Any]) -> dict[str, str]:
    """What lies in the pipeline's slot and belongs to an epoch; of ingress, what is not read."""
    names = table_names(plan)
    prefix = slot_key(pipeline, "")
    found = dict.fromkeys((DEAD_NAME, INGRESS_DEAD_NAME, DEAD_COUNT_NAME, TOTALS_NAME), "")
    for node in plan.nodes:
        if isinstance(node.view, TableScan):
            table = names[node.view.table.identifier]
            consumed = offsets.get(table, {}).get("id", "")
            for key, after in (
                (files_key(pipeline, table), ""),
                (places_key(pipeline, table), ""),
                (ingress_key(pipeline, table), consumed),
            ):
                found[key.removeprefix(prefix)] = after
        elif isinstance(node.view, Sink):
            table = names[node.view.table.identifier]
            found |= {table_name(table): "", print_name(table): ""}
    return found


def _place(operators: list[OperatorInfo], max_parallelism: int) -> Callable[[str, bytes], int]:
    """The key group of an operator's key, from its canonical text."""
    keyed = {each.id: (each.key.types, each.key.codec()) for each in operators}

    def place(node: str, key: bytes) -> int:
        types, codec = keyed[node]
        return key_group(types, codec.decode(key), max_parallelism)

    return place


@contextlib.contextmanager
def _as_mismatch() -> Iterator[None]:
    """Errors of a savepoint's form as ones of the request: it is the savepoint that was named."""
    try:
        yield
    except StateError as error:
        if error.code.startswith("savepoint"):
            raise
        raise SavepointMismatch(error.message, hint=error.hint) from error


def _failure(error: Exception) -> SavepointFailed:
    """Why a savepoint was not taken, in words for users."""
    if isinstance(error, OSError):
        return SavepointFailed(
            f"files of the savepoint or checkpoint cannot be used: {error.strerror}",
            code="savepoint.files",
        )
    code = str(getattr(error, "code", SavepointFailed.code))
    return SavepointFailed(str(error), code=code, hint=str(getattr(error, "hint", "")))
