"""What the service that has the lease notes in the records of pipelines; none counts as a change.

Each note is written in a transaction that has seen the lease, so that one who has lost it while a
call was under way writes nothing over what its successor has noted.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from service.runtime.errors import LeaseLost
from service.runtime.lease import LEASE
from service.runtime.pipeline_names import deleted_key, pipeline_key
from service.runtime.records import Replaced, RestoreOrder, from_hash, to_hash
from service.runtime.transactions import transact, translated
from state.backends.byte_client import byte_client

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from service.runtime.records import (
        Failure,
        PipelineRecord,
        QueryHandle,
        Replacement,
        RunOptions,
        SavepointOrder,
    )
    from state.backends.byte_client import Pipeline

DELETIONS = "tailrace:deletions"


class RegistryNotes:
    """The supervisor's side of the registry; a pipeline that is gone is left alone.

    Every call raises LeaseLost where another service has the lease, and RegistryUnavailable where
    Redis does not answer.

    Args:
        client: Redis, with replies as bytes.
        token: Under which the lease is held; None: nobody asks for it.
    """

    def __init__(self, client: redis.Redis, token: str | None = None) -> None:
        self._redis = byte_client(client)
        self._token = token

    def check_lease(self) -> None:
        """See that we have the lease."""
        with translated():
            self._require(self._redis.get(LEASE))

    def bury(self, name: str) -> None:
        """Give the name free: query, state and checkpoint are gone."""

        def write(transaction: Pipeline) -> None:
            transaction.multi()
            transaction.delete(deleted_key(name))
            transaction.zrem(DELETIONS, name)

        self._noted(write, deleted_key(name))

    def note_query(
        self, name: str, query: QueryHandle | None, options: RunOptions | None = None
    ) -> None:
        """Keep or clear which query serves a pipeline.

        Args:
            name: The pipeline's.
            query: None when it is over.
            options: Those that the query was started with; they stay when it is over.
        """
        self._note(name, query=query, **({} if options is None else {"run_options": options}))

    def note_failure(self, name: str, failure: Failure | None) -> None:
        """Keep or clear why a pipeline has failed."""
        self._note(name, failure=failure)

    def note_savepoint(self, name: str, order: SavepointOrder) -> None:
        """Forget an order of a savepoint that was carried out, or failed, unless it is another."""

        def write(transaction: Pipeline) -> None:
            held = transaction.hget(pipeline_key(name), "savepoint")
            transaction.multi()
            if held is not None and orjson.loads(held).get("id") == order.id:
                transaction.hdel(pipeline_key(name), "savepoint")

        self._noted(write, pipeline_key(name))

    def note_started(self, name: str, ordered_ms: int) -> None:
        """Forget an order to start that is being followed, unless another was given since."""
        self._forget(name, "start_ms", ordered_ms)

    def note_restarted(self, name: str, ordered_ms: int) -> None:
        """Forget a restart that is being made, unless another one was asked for since."""
        self._forget(name, "restart_ms", ordered_ms)

    def note_kept(self, name: str) -> None:
        """Forget the order of a savepoint that a pipeline which is being deleted left behind."""

        def write(transaction: Pipeline) -> None:
            transaction.multi()
            transaction.hdel(deleted_key(name), "savepoint")

        self._noted(write, deleted_key(name))

    def note_restored(self, name: str) -> None:
        """Keep that a pipeline has the state of its savepoint."""

        def write(transaction: Pipeline) -> None:
            held = transaction.hget(pipeline_key(name), "restore")
            transaction.multi()
            if held is not None:
                done = {**orjson.loads(held), "done": True}
                transaction.hset(pipeline_key(name), "restore", orjson.dumps(done))

        self._noted(write, pipeline_key(name))

    def note_switching(self, name: str, epoch: int, notes: Sequence[str]) -> None:
        """Keep that a replacement has its savepoint, and that it fits: from here on state goes."""

        def change(record: PipelineRecord, replacement: Replacement) -> PipelineRecord:
            now = replace(replacement, phase="switching", epoch=epoch, notes=tuple(notes))
            return replace(record, replacement=now)

        self._replacing(name, change)

    def note_returning(self, name: str, error: tuple[str, str]) -> None:
        """Keep that a replacement has failed: the plan that was there is to come back."""

        def change(record: PipelineRecord, replacement: Replacement) -> PipelineRecord:
            return replace(record, replacement=replace(replacement, phase="returning", error=error))

        self._replacing(name, change)

    def note_switched(self, name: str) -> None:
        """Let a pipeline without state be that of the other plan, to be restored.

        It is another pipeline from here on: its id is new, as that of a restored one is.
        """

        def change(record: PipelineRecord, replacement: Replacement) -> PipelineRecord:
            is_back = replacement.phase == "returning"
            other = replace(
                replacement, plan=record.plan, options=record.options, phase="tried", notes=()
            )
            saved = replacement.savepoint.id
            return replace(
                record,
                id=uuid.uuid4().hex,
                plan=replacement.plan,
                options=replacement.options,
                version=record.version + 1,
                plan_version=record.version + 1,
                updated_ms=time.time_ns() // 1_000_000,
                run_options=None,
                run_plan=None,
                failure=None,
                restore=RestoreOrder(
                    name,
                    saved,
                    not is_back and replacement.allow_non_restored_state,
                    allow_outdated_rows=not is_back and replacement.allow_outdated_rows,
                    notes=() if is_back else replacement.notes,
                ),
                replacement=None if is_back else other,
                replaced=Replaced(saved, "TAKEN_BACK", replacement.error) if is_back else None,
            )

        self._replacing(name, change)

    def note_replaced(self, name: str, replaced: Replaced) -> None:
        """Keep what became of a replacement."""
        self._replacing(
            name, lambda record, _: replace(record, replacement=None, replaced=replaced)
        )

    def _replacing(
        self, name: str, change: Callable[[PipelineRecord, Replacement], PipelineRecord]
    ) -> None:
        """Write a record anew, if its replacement goes on."""

        def write(transaction: Pipeline) -> None:
            held = transaction.hgetall(pipeline_key(name))
            record = from_hash(name, held) if held else None
            transaction.multi()
            if record is None or record.replacement is None:
                return
            transaction.delete(pipeline_key(name))
            fields = to_hash(change(record, record.replacement))
            transaction.hset(pipeline_key(name), mapping=fields)

        self._noted(write, pipeline_key(name))

    def _forget(self, name: str, field: str, ordered_ms: int) -> None:
        def write(transaction: Pipeline) -> None:
            held = transaction.hget(pipeline_key(name), field)
            transaction.multi()
            if held is not None and orjson.loads(held) == ordered_ms:
                transaction.hdel(pipeline_key(name), field)

        self._noted(write, pipeline_key(name))

    def _note(self, name: str, **noted: QueryHandle | Failure | RunOptions | None) -> None:
        def write(transaction: Pipeline) -> None:
            exists = transaction.exists(pipeline_key(name))
            transaction.multi()
            for field, value in noted.items() if exists else ():
                if value is None:
                    transaction.hdel(pipeline_key(name), field)
                else:
                    transaction.hset(pipeline_key(name), field, orjson.dumps(value))

        self._noted(write, pipeline_key(name))

    def _noted(self, write: Callable[[Pipeline], None], key: str) -> None:
        def fenced(transaction: Pipeline) -> None:
            self._require(transaction.get(LEASE))
            write(transaction)

        transact(self._redis, fenced, key, LEASE)

    def _require(self, holder: bytes | None) -> None:
        if self._token is not None and holder != self._token.encode():
            raise LeaseLost("this service does not hold the lease")
