"""The pipelines that exist and what is wanted of them, in Redis.

    tailrace:{name}:pipeline    hash   the record: one JSON value a field (see `records`)
    tailrace:{name}:deleted     hash   the record of a pipeline whose query and state still go
    tailrace:pipelines          zset   names, all with score 0: their order is that of the bytes
    tailrace:deletions          zset   names of pipelines that are being deleted

A name stays taken until the supervisor has ended the query and dropped state and checkpoint of the
pipeline that had it: state lies under the name, and a new pipeline must not find any. Deletion
leaves nothing but the pipeline's run counter, which fences what an old query may still write, and
the answers that requests sent again get, which end by themselves.

What is asked of a pipeline is written together with its name in `tailrace:orders`, whichever
service was asked; the one that has the lease finds it there (`lease`). What that one notes beside
is in `registry_notes`.

Changes are optimistic: WATCH what was read, write in MULTI, begin again when it moved. Both kinds
of key are touched in one transaction, so the registry wants one Redis node, not a cluster.
Calls block: the service makes them in threads.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from service.runtime.errors import (
    PipelineDeleting,
    PipelineExists,
    PipelineNotFound,
    SavepointPending,
    TooManyPipelines,
    VersionConflict,
)
from service.runtime.lease import ORDERS
from service.runtime.pipeline_names import check_name, deleted_key, not_found, pipeline_key
from service.runtime.records import (
    NEVER,
    Desired,
    Edition,
    PipelineOptions,
    PipelineRecord,
    Replacement,
    RestoreOrder,
    SavepointOrder,
    from_hash,
    to_hash,
)
from service.runtime.registry_notes import DELETIONS, RegistryNotes
from service.runtime.transactions import transact, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import redis

    from state.backends.byte_client import Pipeline


PIPELINES = "tailrace:pipelines"
SESSION = "tailrace:spark:session"


def now_ms() -> int:
    """The time of day in ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records in the order of their names, and where the next page starts."""

    items: tuple[PipelineRecord, ...]
    next_cursor: str | None
    """The last name of this page; None at the end."""


class Registry(RegistryNotes):
    """Typed access to the records; thread-safe, as the client is.

    Args:
        client: Redis, with replies as bytes.
        pipelines_max: How many may exist at a time, those being deleted among them.
        clock: Gives the time in ms.
        token: Under which the lease is held that notes need; see `RegistryNotes`.
    """

    def __init__(
        self,
        client: redis.Redis,
        pipelines_max: int,
        clock: Callable[[], int] = now_ms,
        *,
        token: str | None = None,
    ) -> None:
        super().__init__(client, token)
        self._pipelines_max = pipelines_max
        self._clock = clock

    def create(
        self,
        name: str,
        plan: dict[str, Any],
        *,
        options: PipelineOptions | None = None,
        labels: Mapping[str, str] | None = None,
        desired: Desired | str = Desired.STOPPED,
        restore: RestoreOrder | None = None,
    ) -> PipelineRecord:
        """Add a pipeline, empty or with the state of a savepoint.

        Raises:
            InvalidPipelineName: the name is not of the right form.
            PipelineExists: the name is taken.
            PipelineDeleting: the pipeline that had it is not gone yet.
            TooManyPipelines: there are as many as there may be.
            RegistryUnavailable: Redis does not answer.
        """
        check_name(name)
        now = self._clock()
        record = PipelineRecord(
            name=name,
            id=uuid.uuid4().hex,
            plan=plan,
            options=options or PipelineOptions(),
            labels=dict(labels or {}),
            desired=Desired(desired),
            created_ms=now,
            updated_ms=now,
            restore=restore,
        )
        fields = to_hash(record)

        def add(transaction: Pipeline) -> PipelineRecord:
            if transaction.zscore(DELETIONS, name) is not None:
                raise PipelineDeleting(name)
            if transaction.exists(pipeline_key(name)):
                raise PipelineExists(
                    f'pipeline "{name}" exists', hint="choose another name, or delete it first"
                )
            count = int(transaction.zcard(PIPELINES)) + int(transaction.zcard(DELETIONS))
            if count >= self._pipelines_max:
                raise TooManyPipelines(
                    f"there are {count} pipelines, and at most {self._pipelines_max} are allowed",
                    hint="delete one, or raise limits.pipelines_max",
                )
            transaction.multi()
            transaction.hset(pipeline_key(name), mapping=fields)
            transaction.zadd(PIPELINES, {name: 0})
            transaction.sadd(ORDERS, name)
            return record

        return transact(self._redis, add, pipeline_key(name), PIPELINES, DELETIONS)

    def plan_of(self, name: str) -> Mapping[str, Any] | None:
        """The document of a pipeline's plan; None: there is no such pipeline.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        try:
            return self.get(name).plan
        except PipelineNotFound:
            return None

    def get(self, name: str) -> PipelineRecord:
        """The record of a pipeline.

        Raises:
            PipelineNotFound: no pipeline has this name.
            PipelineDeleting: it is being deleted.
            RegistryCorrupt: the record is not one of ours.
            RegistryUnavailable: Redis does not answer.
        """
        with translated():
            stored = self._redis.hgetall(pipeline_key(name))
        if not stored:
            raise PipelineDeleting(name) if self.is_deleting(name) else not_found(name)
        return from_hash(name, stored)

    def list(self, cursor: str | None = None, limit: int = 100) -> RecordPage:
        """A page of records by name, from the first one after `cursor`.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        start = "-" if cursor is None else f"({cursor}"
        with translated():
            found = self._redis.zrangebylex(PIPELINES, start, "+", start=0, num=limit + 1)
            names = [each.decode() for each in found]
            with self._redis.pipeline(transaction=False) as batch:
                for name in names[:limit]:
                    batch.hgetall(pipeline_key(name))
                hashes = batch.execute()
        # A name whose hash is gone was deleted between the two reads.
        records = [from_hash(n, h) for n, h in zip(names, hashes, strict=False) if h]
        return RecordPage(tuple(records), names[limit - 1] if len(names) > limit else None)

    def names(self) -> frozenset[str]:
        """All names that the supervisor has something to do for, those being deleted among them."""
        with translated():
            found = self._redis.zrange(PIPELINES, 0, -1)
            found += self._redis.zrange(DELETIONS, 0, -1)
        return frozenset(each.decode() for each in found)

    def update(
        self,
        name: str,
        *,
        expected: Edition | None = None,
        options: PipelineOptions | None = None,
        labels: Mapping[str, str] | None = None,
        desired: Desired | str | None = None,
        plan: dict[str, Any] | None = None,
    ) -> PipelineRecord:
        """Change what is wanted of a pipeline; what is None stays.

        Nothing is written, and the version stays, where nothing differs. A pipeline's state belongs
        to its plan, so a changed one must find the same state (`service.plan.with_ttls`).

        Raises:
            PipelineNotFound: no pipeline has this name.
            VersionConflict: it is not `expected`.
            RegistryUnavailable: Redis does not answer.
        """
        given: dict[str, Any] = {"options": options, "labels": labels, "plan": plan}
        given["desired"] = None if desired is None else Desired(desired)

        def change(transaction: Pipeline) -> PipelineRecord:
            record = _read(transaction, name, expected)
            if options is not None or plan is not None:
                check_unreplaced(record)
            wanted = replace(record, **{k: v for k, v in given.items() if v is not None})
            if wanted == record:
                return record
            wanted = replace(wanted, version=record.version + 1, updated_ms=self._clock())
            if wanted.plan != record.plan:
                wanted = replace(wanted, plan_version=wanted.version, run_plan=record.plan_in_force)
            return _ordered(transaction, wanted)

        return transact(self._redis, change, pipeline_key(name))

    def order_savepoint(
        self,
        name: str,
        order: SavepointOrder,
        *,
        stop: bool,
        expected: Edition | None = None,
    ) -> PipelineRecord:
        """Ask for a savepoint; with `stop` the pipeline is not started again behind it.

        Raises:
            PipelineNotFound: no pipeline has this name.
            VersionConflict: it is not `expected`.
            SavepointPending: another one, or a restore, is not through yet.
            RegistryUnavailable: Redis does not answer.
        """

        def change(transaction: Pipeline) -> PipelineRecord:
            record = _read(transaction, name, expected)
            _check_settled(record)
            wanted = replace(record, savepoint=order)
            if stop:
                wanted = self._desiring(wanted, Desired.STOPPED)
            return _ordered(transaction, wanted)

        return transact(self._redis, change, pipeline_key(name))

    def order_replacement(
        self, name: str, replacement: Replacement, *, expected: Edition | None = None
    ) -> PipelineRecord:
        """Ask for another statement in the place of a pipeline's.

        Raises:
            PipelineNotFound: no pipeline has this name.
            VersionConflict: it is not `expected`.
            SavepointPending: another one, a savepoint or a restore is not through yet.
            RegistryUnavailable: Redis does not answer.
        """

        def change(transaction: Pipeline) -> PipelineRecord:
            record = _read(transaction, name, expected)
            _check_settled(record)
            wanted = replace(
                record,
                replacement=replacement,
                version=record.version + 1,
                updated_ms=self._clock(),
            )
            return _ordered(transaction, wanted)

        return transact(self._redis, change, pipeline_key(name))

    def order_start(self, name: str, *, expected: Edition | None = None) -> PipelineRecord:
        """Ask for a run; one that was given up is tried again.

        Raises:
            PipelineNotFound: no pipeline has this name.
            VersionConflict: it is not `expected`.
            RegistryUnavailable: Redis does not answer.
        """

        def change(transaction: Pipeline) -> PipelineRecord:
            record = _read(transaction, name, expected)
            wanted = self._desiring(record, Desired.RUNNING)
            return _ordered(transaction, replace(wanted, start_ms=self._clock()))

        return transact(self._redis, change, pipeline_key(name))

    def order_restart(self, name: str, *, expected: Edition | None = None) -> PipelineRecord:
        """Ask for a new run, in the place of the one that there may be.

        Raises:
            PipelineNotFound: no pipeline has this name.
            VersionConflict: it is not `expected`.
            RegistryUnavailable: Redis does not answer.
        """

        def change(transaction: Pipeline) -> PipelineRecord:
            record = _read(transaction, name, expected)
            wanted = self._desiring(record, Desired.RUNNING)
            return _ordered(transaction, replace(wanted, restart_ms=self._clock()))

        return transact(self._redis, change, pipeline_key(name))

    def delete(
        self,
        name: str,
        expected: Edition | None = None,
        *,
        keep: SavepointOrder | None = None,
        drop_savepoint: bool = False,
    ) -> PipelineRecord:
        """Take a pipeline out of sight; the supervisor then ends it and calls `bury`.

        Args:
            name: The pipeline's.
            expected: What it must be.
            keep: The savepoint to take before anything of it is dropped.
            drop_savepoint: Whether a savepoint that is being taken is given up; also that which a
                pipeline that is being deleted was to leave behind.

        Returns:
            The record as it was.

        Raises:
            PipelineNotFound: no pipeline has this name.
            VersionConflict: it is not `expected`.
            SavepointPending: a savepoint is not through, and not to be given up; or it is to be
                kept, and a restore is not through.
            RegistryUnavailable: Redis does not answer.
        """

        def remove(transaction: Pipeline) -> PipelineRecord:
            going = transaction.hgetall(deleted_key(name))
            if keep is None and b"savepoint" in going:
                record = from_hash(name, going)
                if not drop_savepoint:
                    _check_saved(record, hint=_UNLESS_DROPPED)
                transaction.multi()
                transaction.hdel(deleted_key(name), "savepoint")
                transaction.sadd(ORDERS, name)
                return record
            if going and not transaction.exists(pipeline_key(name)):
                # Said again: it is done.
                raise not_found(name)
            record = _read(transaction, name, expected)
            if keep is not None:
                _check_settled(record)
            elif not drop_savepoint:
                _check_saved(record, hint=_UNLESS_DROPPED)
            wanted = replace(record, savepoint=keep)
            transaction.multi()
            transaction.hdel(pipeline_key(name), "savepoint")
            transaction.hset(pipeline_key(name), mapping=to_hash(wanted))
            transaction.rename(pipeline_key(name), deleted_key(name))
            transaction.zrem(PIPELINES, name)
            transaction.zadd(DELETIONS, {name: 0})
            transaction.sadd(ORDERS, name)
            return record

        return transact(self._redis, remove, pipeline_key(name), deleted_key(name))

    def deleted(self, name: str) -> PipelineRecord | None:
        """The record of a pipeline that is being deleted; None when nothing of it is left to end.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        with translated():
            stored = self._redis.hgetall(deleted_key(name))
        return from_hash(name, stored) if stored else None

    def is_deleting(self, name: str) -> bool:
        """Whether the name still waits for `bury`."""
        with translated():
            return self._redis.zscore(DELETIONS, name) is not None

    def session_id(self) -> str | None:
        """The Spark Connect session that the service used last."""
        with translated():
            found = self._redis.get(SESSION)
        return None if found is None else found.decode("ascii", "replace")

    def note_session_id(self, session_id: str, *, instead_of: str | None) -> str:
        """Keep which Spark Connect session services use, unless another one was faster.

        Args:
            session_id: The new one.
            instead_of: The one that was found, and is over; None where there was none.

        Returns:
            The one that is to be used.
        """

        def write(transaction: Pipeline) -> str:
            held = transaction.get(SESSION)
            found = None if held is None else held.decode("ascii", "replace")
            transaction.multi()
            if found is not None and found != instead_of:
                return found
            transaction.set(SESSION, session_id)
            return session_id

        return transact(self._redis, write, SESSION)

    def _desiring(self, record: PipelineRecord, desired: Desired) -> PipelineRecord:
        """The record that wants this of its pipeline: a new version, if it did not before."""
        if record.desired is desired:
            return record
        now = self._clock()
        return replace(record, desired=desired, version=record.version + 1, updated_ms=now)


def _ordered(transaction: Pipeline, wanted: PipelineRecord) -> PipelineRecord:
    """Write what is wanted of a pipeline, and that somebody is to look at it."""
    transaction.multi()
    transaction.hset(pipeline_key(wanted.name), mapping=to_hash(wanted))
    transaction.sadd(ORDERS, wanted.name)
    return wanted


def _read(transaction: Pipeline, name: str, expected: Edition | None) -> PipelineRecord:
    stored = transaction.hgetall(pipeline_key(name))
    if not stored:
        is_deleting = transaction.zscore(DELETIONS, name) is not None
        raise PipelineDeleting(name) if is_deleting else not_found(name)
    record = from_hash(name, stored)
    if expected is None or expected == record.edition:
        return record
    is_other = expected.version == record.version
    told = "is another one" if is_other else f"has version {record.version}, not {expected.version}"
    if expected == NEVER:
        told = "never had the version that is expected"
    versions = {"expected": expected.version, "found": record.version}
    hint = "read it again and repeat the change"
    raise VersionConflict(f'pipeline "{name}" {told}', **versions, hint=hint)


def _check_settled(record: PipelineRecord) -> None:
    """See that neither a savepoint nor a restore of a pipeline is under way."""
    _check_saved(record, hint=_UNTIL_SAVED)
    if record.restore is not None and not record.restore.done:
        raise SavepointPending(
            f'pipeline "{record.name}" is being restored', hint="try again when that is done"
        )


def check_unreplaced(record: PipelineRecord) -> None:
    """See that no other statement is taking a pipeline's place.

    Raises:
        SavepointPending: One is.
    """
    if record.replacement is not None:
        raise SavepointPending(
            f'pipeline "{record.name}" gets another statement', hint="try again when that is done"
        )


def _check_saved(record: PipelineRecord, *, hint: str) -> None:
    """See that no savepoint of a pipeline is under way."""
    check_unreplaced(record)
    if record.savepoint is not None:
        raise SavepointPending(
            f'savepoint "{record.savepoint.id}" of the pipeline is being taken', hint=hint
        )


_UNTIL_SAVED = "wait until it is COMPLETED or FAILED"
_UNLESS_DROPPED = f"{_UNTIL_SAVED}, or give it up by ?state=drop"
