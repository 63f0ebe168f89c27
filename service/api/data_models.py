"""Answers about data that goes in and out: ingress, tables, dead letters, progress."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.models import EpochPage, Page, PipelineState


class Rejected(BaseModel):
    """A line of an ingress body that is not a valid change."""

    line: int = Field(description="Counted from 1.")
    reason: str


class Accepted(BaseModel):
    """What happened to an ingress body."""

    request_id: str = Field(description="Names the request in the positions of its dead letters.")
    token: str
    completion: str = Field(description="Where to ask whether the changes have reached the sinks.")
    accepted: int
    rejected_count: int
    rejected: list[Rejected]


class Completion(BaseModel):
    """Whether accepted changes have reached the sinks."""

    status: Literal["done", "pending"]
    epoch: int
    pipeline_state: PipelineState = Field(
        description="Pending changes are processed only while the pipeline is RUNNING."
    )


class Tables(Page):
    """What a pipeline reads and writes."""

    epoch: int
    items: list[dict[str, Any]]


class TableRows(EpochPage):
    """A page of what a sink's table holds as of the closed epoch.

    Of a Redis table an item is a row: `key`, `href`, `row`. Of a print table it is one of the
    newest changes, oldest first: `epoch`, `op`, `row`.
    """

    items: list[dict[str, Any]]


class TableRow(BaseModel):
    """A row of a sink's table."""

    key: list[Any]
    epoch: int
    row: dict[str, Any]


class RowsOf(BaseModel):
    """What one `of` of a request names."""

    of: str
    table: str
    rows: list[dict[str, Any]] = Field(
        description="`key` and `row` of each: all rows of a table, or one or none of a key."
    )


class RowsAtEpoch(BaseModel):
    """Rows of several tables, all as of one closed epoch."""

    epoch: int
    items: list[RowsOf] = Field(description="One for each `of`, in their order.")


class DeadLetters(Page):
    """A page of lines that were not valid changes, oldest first."""

    count: int = Field(description="All of them, listed or not.")
    items: list[dict[str, Any]]


class Totals(BaseModel):
    """Sums over all closed epochs since the pipeline was created, or since its savepoint's was."""

    epochs: int
    rows_in: int
    rows_out: int
    dead: int = Field(
        description="Dead letters, whatever the way in: what sources could not read, and lines "
        "that ingress refused, which belong to no epoch."
    )


class Epochs(Page):
    """A page of progress, newest first, and sums since the pipeline was created."""

    epoch: int
    totals: Totals
    items: list[dict[str, Any]]
