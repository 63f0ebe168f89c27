"""What an epoch comes out by, beside state and input: the terms of a run.

A table of a database, or a topic, may have an epoch that was never closed. Then the epoch runs
again for its state, and nothing is written there. That fits only if it comes out as it did: by
other times to live, say, the table would have rows that state knows nothing of, for good. So the
terms of the last run are kept in Redis, before it writes anything, and a run by others does not go
on with such an epoch.

Lives that were extended are not among them, since nobody can take an extension back.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import orjson

from service.plan.state_ttl import state_ttls
from service.runtime.dataflow import plan_sinks
from service.runtime.errors import StartFailed
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.slot_keys import TERMS_NAME, slot_key
from state.backends.transport import ClientSettings, RedisTransport, checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.dataflow import PipelineJob
    from state.backends.transport import Command


def terms_of(job: PipelineJob) -> dict[str, Any]:
    """The terms of a run, by the words for them."""
    plan, options = job.plan, job.options
    lives = {
        f"the ttl of {state.name} of node {node.id}": f"{state.ttl_ms} ms"
        for node in plan.nodes
        for state in state_ttls(
            node, len(plan.input_edges(node.id)), default_ttl_ms=options.default_ttl_ms
        )
    }
    if not job.operators():
        return lives
    return lives | {
        "emit_expired": options.emit_expired,
        "net_changes": options.net_changes,
        "upsert_materialize_strategy": options.upsert_materialize_strategy,
        # Which of the rows that time makes emit comes first, and which are due.
        "execution.parallelism": job.parallelism,
        "execution.expired_keys_per_epoch_max": job.due_keys_max,
    }


def keep_terms(job: PipelineJob, ahead: Sequence[str], *, marker: int) -> None:
    """Keep the terms of a run that has claimed what lies elsewhere, if anything does.

    Args:
        job: The run.
        ahead: What has the epoch behind the marker: the words for tables and topics.
        marker: The pipeline's last closed epoch.

    Raises:
        StartFailed: That epoch was written by other terms.
        StateUnavailable: Redis does not answer.
    """
    sinks = plan_sinks(job.plan, job.files_root, job.database_hosts)
    if not any(each.connector == "jdbc" or each.connector in KAFKA for each in sinks):
        return
    key = slot_key(job.pipeline, TERMS_NAME)
    settings = ClientSettings(job.redis_url, job.connect_timeout_ms, job.socket_timeout_ms)
    with contextlib.closing(RedisTransport(settings)) as transport:
        (flat,) = checked(transport.exchange([("HGETALL", key)], is_repeatable=True))
        held = {int(run): text for run, text in zip(flat[::2], flat[1::2], strict=True)}
        mine = terms_of(job)
        # Terms that a run of a version before this one wrote by are not known.
        if ahead and held:
            _check(orjson.loads(held[max(held)]), mine, ahead[0], marker + 1)
        kept: list[Command] = [("HSET", key, job.run, orjson.dumps(mine))]
        # A field a run: one that was overtaken meanwhile does not take the place of a later one.
        if earlier := [each for each in held if each < job.run]:
            kept.append(("HDEL", key, *earlier))
        checked(transport.exchange(kept, is_repeatable=True))


def _check(last: dict[str, Any], mine: dict[str, Any], place: str, epoch: int) -> None:
    """See that a run has the terms of the last one.

    Raises:
        StartFailed: It has not.
    """
    # A term that either does not know says nothing: it came, or went, with a version.
    other = [each for each in mine if each in last and last[each] != mine[each]]
    if not other:
        return
    back = [f"{each} = {orjson.dumps(last[each]).decode()}" for each in other]
    raise StartFailed(
        f"{place} has epoch {epoch}, which is not closed, and the run that wrote it had other "
        f"terms: {', '.join(back)}",
        code="epoch-half-written",
        hint=f"go back to these, start, and change them once epoch {epoch} is closed",
    )
