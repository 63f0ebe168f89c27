"""A pipeline as the API shows it, and what of it may be asked for in lists."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from service.api.etags import reply
from service.api.times import iso
from service.status_codes import address_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import Request, Response

    from service.api.deps import Services
    from service.runtime.records import PipelineRecord


def pipeline_reply(
    request: Request,
    services: Services,
    record: PipelineRecord,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A pipeline as an answer with its entity tag."""
    body = represent(record, services)
    return reply(request, body, status=status, edition=record.edition, headers=headers)


def represent(record: PipelineRecord, services: Services) -> dict[str, Any]:
    """A pipeline's definition and its status."""
    return {
        "name": record.name,
        "id": record.id,
        "version": record.version,
        "desired_state": record.desired.value,
        "status": _status(record, services),
        "options": _options(record, services),
        "labels": dict(sorted(record.labels.items())),
        "flink_version": record.plan.get("flinkVersion"),
        "restore": _restore(record),
        "replacement": _replacement(record),
        "created_at": iso(record.created_ms),
        "updated_at": iso(record.updated_ms),
    }


def _restore(record: PipelineRecord) -> dict[str, Any] | None:
    order = record.restore
    if order is None:
        return None
    return {
        "savepoint": f"{order.pipeline}/{order.savepoint}",
        "allow_non_restored_state": order.allow_non_restored_state,
        "allow_outdated_rows": order.allow_outdated_rows,
        "notes": list(order.notes),
        "done": order.done,
    }


def _replacement(record: PipelineRecord) -> dict[str, Any] | None:
    now, last = record.replacement, record.replaced
    if now is not None:
        error, outcome, savepoint = now.error, "IN_PROGRESS", now.savepoint.id
    elif last is not None:
        error, outcome, savepoint = last.error, last.outcome, last.savepoint
    else:
        return None
    told = None if error is None else {"code": error[0], "message": error[1]}
    return {"savepoint": f"{record.name}/{savepoint}", "outcome": outcome, "error": told}


def _options(record: PipelineRecord, services: Services) -> dict[str, Any]:
    """What may be asked for, complete by the settings."""
    complete = asdict(record.options.resolved(services.settings.execution))
    return {each.name: complete[each.name] for each in fields(record.options)}


def suits(shown: Mapping[str, Any], labels: Sequence[tuple[str, str]], state: str | None) -> bool:
    """Whether a pipeline has all these labels and is in this state."""
    return all(shown["labels"].get(name) == value for name, value in labels) and (
        state is None or shown["status"]["state"] == state
    )


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": address_of(code), "code": code, "message": message}


def _last_error(record: PipelineRecord) -> dict[str, Any] | None:
    last = record.failure
    if last is None:
        return None
    return {
        **_error(last.code, last.message),
        "cause": last.cause,
        "at": iso(last.at_ms),
        "epoch": last.epoch,
        "restarts": last.restarts,
    }


def _status(record: PipelineRecord, services: Services) -> dict[str, Any]:
    status = services.supervisor.status(record.name)
    error, waiting = status.error, status.waiting
    return {
        "state": str(status.state),
        "run": status.run,
        "query_id": status.query_id,
        "epoch": status.epoch or 0,
        "since": iso(status.since_ms),
        "restarts": status.restarts,
        "error": None if error is None else _error(error.code, error.message),
        "last_error": _last_error(record),
        "waits_for": None if waiting is None else str(waiting.neighbour),
        "waits_since": None if waiting is None else iso(waiting.since_ms),
    }
