"""What bodies of requests and answers have in common, and the service's own answers.

The others stand in `pipeline_models`, `plan_models`, `statement_models`, `savepoint_models`,
`state_models` and `data_models`.

Requests refuse members that they do not know: a misspelt option must not be silently off. Answers
are built by the routes as plain dictionaries; these classes only document them, and the fuzz test
holds the two together. Times are ISO 8601 in UTC; members named `..._ms` are integers.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from operators.time_zones import is_option
from service.api.validation_words import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

Label = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9._/-]+$")
]
LabelValue = Annotated[str, StringConstraints(max_length=255)]
PipelineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]

PipelineState = Literal[
    "CREATED", "STARTING", "RUNNING", "STOPPING", "STOPPED", "RESTARTING", "FAILED"
]


_ERRORS_MAX = 100
"""Told of one object: a body has room for members enough that naming them all takes seconds."""
_NAME_MAX = 100


class RequestBody(BaseModel):
    """Of all requests: what is not known is refused, with the nearest name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _with_nearest(cls, value: object, read: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return read(value)
        except ValidationError as problem:
            first = problem.errors()[:_ERRORS_MAX]
            told = [_told(each, cls.model_fields) for each in first]
            raise ValidationError.from_exception_data(problem.title, told) from None


def _told(error: ErrorDetails, known: Iterable[str]) -> InitErrorDetails:
    """The same error, with the member that is meant where it is about one of this object's own."""
    place, message = error["loc"], in_words(error["type"], error["msg"])
    if error["type"] == "extra_forbidden" and len(place) == 1:
        near = difflib.get_close_matches(str(place[0])[:_NAME_MAX], known, n=1)
        message += f'; did you mean "{near[0]}"?' if near else ""
    # A text of ours could have what looks like a place for a value.
    told = PydanticCustomError("invalid", "{message}", {"message": message})
    return InitErrorDetails(type=told, loc=place, input=error["input"])


def _object_or_text(value: object) -> object:
    """Refuse anything else here: the union below would name its members in the error's path.

    Raises:
        ValueError: It is neither.
    """
    if value is not None and not isinstance(value, dict | str):
        raise ValueError("must be a plan's JSON object, or its text")
    return value


class PlanBody(RequestBody):
    """A compiled plan, inline or by address: exactly one of the two."""

    WAYS: ClassVar[tuple[str, ...]] = ("plan", "plan_uri")
    """The members of which exactly one says what the plan is."""

    plan: Annotated[dict[str, Any] | str | None, BeforeValidator(_object_or_text)] = Field(
        default=None, description="Flink's compiled plan: the JSON object, or its text."
    )
    plan_uri: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_048,
        description="A file below the files root, as a path or `file:` address; https, http, s3, "
        "gs and hdfs addresses only in folders that the settings list.",
        examples=["plans/latest_flight.plan.json"],
    )

    @model_validator(mode="after")
    def _one_of(self) -> PlanBody:
        given = [name for name in self.WAYS if getattr(self, name) is not None]
        if len(given) != 1:
            told = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of {', '.join(self.WAYS)}; here is {told}")
        return self


class RestoreBody(RequestBody):
    """The savepoint that a pipeline begins with."""

    savepoint: str = Field(
        pattern=r"^([a-z0-9][a-z0-9_-]{0,62}/)?(latest|[0-9]{8}t[0-9]{9}-[0-9a-f]{8})$",
        description="`<pipeline>/<id>`, without the name one of a pipeline that had the same; "
        "`latest` in place of an id takes the newest. While one is being taken, that is refused.",
        examples=["latest-flight/latest"],
    )
    allow_non_restored_state: bool = Field(
        default=False,
        description="Whether state that no operator of the plan keeps, or that one would read as "
        "something else, is dropped.",
    )
    allow_outdated_rows: bool = Field(
        default=False,
        description="Whether tables may have rows that the plan would write otherwise, or lack "
        "some, until changes come for them.",
    )


class OptionsBody(RequestBody):
    """How the pipeline runs; what is not given is taken from the settings."""

    trigger_interval_ms: int | None = Field(
        default=None,
        ge=0,
        le=3_600_000,
        description="Shortest time between the starts of two epochs.",
    )
    tick_interval_ms: int | None = Field(
        default=None, ge=100, le=86_400_000, description="Interval of epochs while no data comes."
    )
    rows_per_epoch_max: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Changes that a source puts into an epoch."
    )
    max_parallelism: int | None = Field(
        default=None, ge=1, le=32_768, description="Key groups; cannot be changed later."
    )
    on_malformed: Literal["dead-letter", "fail"] | None = Field(
        default=None,
        description="What happens to lines that are not valid changes, and to rows without the "
        "event time that an operator needs.",
    )
    source_idle_timeout_ms: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="A source without rows for so long holds no watermark back; 0: for ever. "
        "Flink: table.exec.source.idle-timeout.",
    )
    on_late: Literal["drop", "dead-letter"] | None = Field(
        default=None,
        description="Whether rows that an operator drops, as the watermark has passed them or "
        "they have no event time, are listed as dead letters; they are counted (`late`) anyway.",
    )
    default_ttl_ms: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="TTL of state to which the plan gives none; 0: for ever.",
    )
    emit_expired: bool | None = Field(
        default=None,
        description="Expiry of a row that a sink shows emits -D, or +U of what remains.",
    )
    net_changes: bool | None = Field(
        default=None,
        description="Materializers emit at most one change for a key and epoch.",
    )
    async_in_flight_max: int | None = Field(
        default=None,
        ge=1,
        le=10**6,
        description="Changes of an operator in flight; default 6000. "
        "Flink: execution.async-state.total-buffer-size.",
    )
    async_batch_max: int | None = Field(
        default=None,
        ge=1,
        le=10**6,
        description="State requests that are sent together; default 1000. "
        "Flink: execution.async-state.active-buffer-size.",
    )
    async_timeout_ms: int | None = Field(
        default=None,
        ge=1,
        le=60_000,
        description="Longest wait of a state request for others; default 1000. "
        "Flink: execution.async-state.active-buffer-timeout.",
    )
    upsert_materialize_strategy: Literal["LEGACY", "VALUE", "MAP", "ADAPTIVE"] | None = Field(
        default=None, description="Replaces the plan's own strategy, for every materializer."
    )
    adaptive_threshold_high: int | None = Field(
        default=None,
        ge=1,
        le=2**31,
        description="ADAPTIVE: from this many entries on, a history is spread.",
    )
    adaptive_threshold_low: int | None = Field(
        default=None,
        ge=0,
        le=2**31,
        description="ADAPTIVE: at this many entries or fewer, a history is packed.",
    )
    local_time_zone: str | None = Field(
        default=None,
        max_length=64,
        description="Time zone of expressions and windows, where the plan does not name it: a name "
        "such as `Europe/Berlin`, or an offset such as `GMT+03:00`; cannot be changed later. "
        "Default: the plan's, else UTC. Flink: table.local-time-zone.",
    )

    @field_validator("local_time_zone")
    @classmethod
    def _is_zone(cls, zone: str | None) -> str | None:
        if zone is not None and not is_option(zone):
            raise ValueError("must be a zone such as Europe/Berlin, GMT+03:00 or UTC")
        return zone


class Problem(BaseModel):
    """RFC 9457, with members that help to find and repair the cause."""

    type: str = Field(description="Stable address of the problem type, with its explanation.")
    title: str
    status: int
    detail: str
    request_id: str
    code: str = Field(description="The error's own stable name.")
    hint: str | None = None
    node_id: int | None = Field(default=None, description="The node of the plan.")
    node_type: str | None = Field(
        default=None, description="That node's type, as the plan writes it."
    )
    path: str | None = Field(
        default=None, description="JSON pointer into the plan; of an option, into the body."
    )
    line: int | None = Field(default=None, description="Of the script, from 1.")
    column: int | None = Field(default=None, description="In that line, from 1.")
    errors: list[dict[str, Any]] | None = None
    function: str | None = Field(default=None, description="The function of the expression.")
    rejected_count: int | None = Field(
        default=None, description="Lines that are not valid changes."
    )
    rejected: list[dict[str, Any]] | None = Field(
        default=None, description="The first of them: number and reason."
    )
    statement: int | None = Field(
        default=None, description="Number of the statement in the script, from 1."
    )
    results: list[dict[str, Any]] | None = Field(
        default=None, description="Results of the statements before it, which took effect."
    )


class StatusError(BaseModel):
    """Why a pipeline has failed, or is being restarted."""

    type: str = Field(description="Address of the page about errors of this code.")
    code: str
    message: str


class LastError(StatusError):
    """The last error that ended a pipeline's query, or kept it from starting."""

    cause: str | None = Field(
        description="What lies below it: the system's name of an error, such as ENOSPC or EACCES, "
        "or the class of an error of Spark's or Python's. Null where the code says all.",
        examples=["ENOSPC"],
    )
    at: str = Field(description="When it happened.")
    epoch: int = Field(description="The last closed epoch, as it was then.")
    restarts: int = Field(
        description="Attempts that ended with an error since the pipeline was last well, this one "
        "among them; `status.restarts` leaves out those that waited for a sink."
    )


class Page(BaseModel):
    """A part of a longer list."""

    next: str | None = Field(description="Address of the next page; null on the last one.")
    next_cursor: str | None


class EpochPage(Page):
    """A part of what was there when an epoch closed."""

    epoch: int = Field(description="The closed epoch that was read.")


class Check(BaseModel):
    """One condition of readiness."""

    name: str
    ok: bool
    reason: str | None


class Lease(BaseModel):
    """Which of the services on one Redis supervises the pipelines."""

    service: str = Field(description="This service; new at each start.")
    holder: str | None = Field(
        description="The service that supervises; null if none does at the moment."
    )
    held: bool = Field(description="Whether it is this service.")


class Readiness(BaseModel):
    """Whether the service can work, why not, and the limits in force."""

    ready: bool
    checks: list[Check]
    lease: Lease
    limits: dict[str, Any]
    authentication: bool
