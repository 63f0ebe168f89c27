"""Bodies and answers about savepoints."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from service.api.models import Page, RequestBody, StatusError


class SavepointBody(RequestBody):
    """How a savepoint is taken."""

    stop: bool = Field(default=False, description="Whether the pipeline stays stopped afterwards.")
    filter_expired: bool = Field(default=True, description="Whether expired entries are left out.")


class SavedState(BaseModel):
    """A state in a savepoint."""

    operator: str
    name: str
    kind: str
    keys: int = Field(description="Of a state of timers: the timers.")
    expired: int = Field(description="Elements that were left out.")


class Savepoint(BaseModel):
    """Everything that a pipeline keeps, as of one epoch."""

    id: str
    pipeline: str
    state: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    ordered_at: str
    epoch: int | None
    filtered: bool | None = Field(description="Whether expired entries were left out.")
    max_parallelism: int | None
    size_bytes: int | None
    states: list[SavedState]
    error: StatusError | None


class SavepointList(Page):
    """A page of savepoints, newest first."""

    items: list[Savepoint]
