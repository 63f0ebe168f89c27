"""Bodies and answers about pipelines: what is wanted of them, and what they do."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from service.api.models import (
    Label,
    LabelValue,
    LastError,
    OptionsBody,
    Page,
    PipelineName,
    PipelineState,
    PlanBody,
    RequestBody,
    RestoreBody,
    StatusError,
)
from service.api.plan_models import Finding


class PipelineBody(PlanBody):
    """A pipeline to create."""

    WAYS: ClassVar[tuple[str, ...]] = (*PlanBody.WAYS, "sql")

    name: PipelineName = Field(
        description="Unique; part of addresses and of keys in Redis.", examples=["latest-flight"]
    )
    sql: str | None = Field(
        default=None,
        min_length=1,
        description="Instead of a plan: a script of Flink SQL that asks for one plan. Options "
        "that it SETs for the pipeline apply unless `options` has them.",
    )
    options: OptionsBody = Field(default_factory=OptionsBody)
    labels: dict[Label, LabelValue] = Field(default_factory=dict)
    start: bool = Field(default=False, description="Whether to start it at once.")
    restore: RestoreBody | None = Field(
        default=None, description="Continue from a savepoint instead of beginning empty."
    )


class PipelinePatch(RequestBody):
    """What can be changed of a pipeline (RFC 7396): members that are not given stay as they are.

    Options take effect at the next start of the query; `null` takes an option back to its default,
    and a label away. In place of all options, or of all labels, it does so with each.
    """

    options: OptionsBody | None = None
    labels: dict[Label, LabelValue | None] | None = None


class Status(BaseModel):
    """What a pipeline is doing."""

    state: PipelineState
    run: int | None
    query_id: str | None
    epoch: int = Field(description="The last closed epoch; 0 before the first.")
    since: str | None
    restarts: int
    error: StatusError | None = Field(description="What keeps it from running now.")
    last_error: LastError | None = Field(
        description="What ended its query last, or kept it from starting, even if it is RUNNING "
        "again: until epochs have closed for `execution.restart_reset_ms` since, or an order "
        "starts it."
    )
    waits_for: Literal["spark", "redis", "sink"] | None = Field(
        description="The neighbour without whose answer it cannot go on (sink: a database, "
        "broker or disk that it writes to); `error` is what was last heard of it, null before "
        "anything was."
    )
    waits_since: str | None


class Restore(BaseModel):
    """What a pipeline was restored from, or is being restored from."""

    savepoint: str
    allow_non_restored_state: bool
    allow_outdated_rows: bool
    notes: list[str] = Field(
        description="What came of it besides: tables that begin empty, state and rows that were "
        "allowed to be dropped or outdated, what is not read or written any more."
    )
    done: bool = Field(description="Until then it cannot run, and its state cannot be read.")


class ReplaceBody(PlanBody):
    """The statement that takes the place of a pipeline's."""

    WAYS: ClassVar[tuple[str, ...]] = (*PlanBody.WAYS, "sql")

    sql: str | None = Field(
        default=None, min_length=1, description="A script of Flink SQL that asks for one plan."
    )
    allow_non_restored_state: bool = Field(
        default=False, description="As in `restore` of `POST /v1/pipelines`."
    )
    allow_outdated_rows: bool = Field(
        default=False, description="As in `restore` of `POST /v1/pipelines`."
    )


class ReplacementStatus(BaseModel):
    """What becomes, or became, of the last statement that was put in the place of another."""

    savepoint: str = Field(description="The savepoint between the two.")
    outcome: Literal["IN_PROGRESS", "REPLACED", "TAKEN_BACK", "REFUSED"] = Field(
        description="TAKEN_BACK: it failed before it closed an epoch, and the one before goes on. "
        "REFUSED: the savepoint could not be taken, or does not fit; the one before goes on."
    )
    error: StatusError | None


class Pipeline(BaseModel):
    """A pipeline: its definition and its status."""

    name: str
    id: str
    version: int
    desired_state: Literal["RUNNING", "STOPPED"]
    status: Status
    options: dict[str, Any]
    labels: dict[str, str]
    flink_version: str | None
    restore: Restore | None = Field(description="The savepoint that it began with.")
    replacement: ReplacementStatus | None = Field(
        description="What came of the last `PUT`; null if there was none."
    )
    created_at: str
    updated_at: str


class CreatedPipeline(Pipeline):
    """A pipeline as the reply to its creation, or to another statement, has it."""

    warnings: list[Finding] = Field(
        description="Why a table that it writes may be wrong, and what to do."
    )


class PipelineList(Page):
    """A page of pipelines, by name."""

    items: list[Pipeline]


class TtlExtensionBody(RequestBody):
    """By how much to extend the life of everything."""

    by_ms: int = Field(
        ge=1, le=10 * 366 * 86_400_000, description="Added to what was given before."
    )


class TtlExtension(BaseModel):
    """By how much the life of everything that a pipeline keeps was extended, in processing time."""

    extension_ms: int = Field(description="In total; takes effect at the next start.")
    in_force_ms: int = Field(description="The extension that the last run began with.")
