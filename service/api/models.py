"""Bodies of requests, typed, and the shapes of answers as OpenAPI describes them.

Requests refuse members that they do not know: a misspelt option must not be silently off. Answers
are built by the routes as plain dictionaries; these classes only document them, and the fuzz test
holds the two together. Times are ISO 8601 in UTC; members named `..._ms` are integers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Label = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9._/-]+$")
]
LabelValue = Annotated[str, StringConstraints(max_length=255)]
PipelineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]

PipelineState = Literal[
    "CREATED", "STARTING", "RUNNING", "STOPPING", "STOPPED", "RESTARTING", "FAILED"
]


class RequestBody(BaseModel):
    """Of all requests: what is not known is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PlanBody(RequestBody):
    """A compiled plan, inline or by address: exactly one of the two."""

    plan: dict[str, Any] | str | None = Field(
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
        if sum(each is not None for each in self._ways()) != 1:
            raise ValueError("give either plan or plan_uri")
        return self

    def _ways(self) -> tuple[object, ...]:
        """The members of which exactly one says what the plan is."""
        return self.plan, self.plan_uri


class SqlBody(RequestBody):
    """A script to compile; nothing is stored."""

    sql: str = Field(
        min_length=1,
        description="Statements of Flink SQL, with `;` between; one of them asks for a plan.",
    )


class OptionsBody(RequestBody):
    """How the pipeline runs; what is not named is taken from the settings."""

    trigger_interval_ms: int | None = Field(
        default=None, ge=0, le=3_600_000, description="Shortest time from epoch to epoch."
    )
    tick_interval_ms: int | None = Field(
        default=None, ge=100, le=86_400_000, description="Epochs run this often without data."
    )
    rows_per_epoch_max: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Changes that a source puts into an epoch."
    )
    max_parallelism: int | None = Field(
        default=None, ge=1, le=32_768, description="Key groups; cannot be changed later."
    )
    on_malformed: Literal["dead-letter", "fail"] | None = Field(
        default=None, description="What becomes of lines that are no changes."
    )
    default_ttl_ms: int | None = Field(
        default=None, ge=0, le=2**53, description="TTL of state whose plan names none; 0: for ever."
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
        description="State requests that go out together; default 1000. "
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
        default=None, description="In place of the plan's own, for every materializer."
    )
    adaptive_threshold_high: int | None = Field(
        default=None, ge=1, le=2**31, description="ADAPTIVE: so many entries are spread."
    )
    adaptive_threshold_low: int | None = Field(
        default=None, ge=0, le=2**31, description="ADAPTIVE: so few entries are packed."
    )


class PlanCheckBody(PlanBody):
    """A plan to look at; nothing is stored."""

    options: OptionsBody = Field(default_factory=OptionsBody)


class RestoreBody(RequestBody):
    """The savepoint that a pipeline begins with."""

    savepoint: str = Field(
        pattern=r"^([a-z0-9][a-z0-9_-]{0,62}/)?(latest|[0-9]{8}t[0-9]{9}-[0-9a-f]{8})$",
        description="`<pipeline>/<id>`, without the name one of a pipeline that had the same; "
        "`latest` in place of an id takes the newest.",
        examples=["latest-flight/latest"],
    )
    allow_non_restored_state: bool = Field(
        default=False, description="Whether state that no operator of the plan keeps is dropped."
    )


class PipelineBody(PlanBody):
    """A pipeline to create."""

    name: PipelineName = Field(
        description="Unique; part of addresses and of keys in Redis.", examples=["latest-flight"]
    )
    sql: str | None = Field(
        default=None,
        min_length=1,
        description="In place of a plan: a script of Flink SQL that asks for one plan.",
    )
    options: OptionsBody = Field(default_factory=OptionsBody)
    labels: dict[Label, LabelValue] = Field(default_factory=dict)
    start: bool = Field(default=False, description="Whether to start it at once.")
    restore: RestoreBody | None = Field(
        default=None, description="Go on where a savepoint stands, in place of beginning anew."
    )

    def _ways(self) -> tuple[object, ...]:
        return self.plan, self.plan_uri, self.sql


class PipelinePatch(RequestBody):
    """What may change of a pipeline (RFC 7396): a member that is not there stays as it is.

    Options take effect at the next start of the query; `null` takes an option back to its default,
    and a label away.
    """

    options: OptionsBody | None = None
    labels: dict[Label, LabelValue | None] | None = None


class Problem(BaseModel):
    """RFC 9457, with what helps to find and repair the cause."""

    type: str = Field(description="Stable address of the kind of problem, with its explanation.")
    title: str
    status: int
    detail: str
    request_id: str
    code: str = Field(description="The error's own stable name.")
    hint: str | None = None
    node_id: int | None = Field(default=None, description="The plan's node that is meant.")
    path: str | None = Field(default=None, description="JSON pointer into the plan.")
    line: int | None = Field(default=None, description="Of the script, from 1.")
    column: int | None = Field(default=None, description="In that line, from 1.")
    errors: list[dict[str, Any]] | None = None
    statement: int | None = Field(default=None, description="Of a script: which one, from 1.")
    results: list[dict[str, Any]] | None = Field(
        default=None, description="Of the script's statements before it, which took effect."
    )


class Finding(BaseModel):
    """One thing about a plan."""

    severity: Literal["error", "warning"]
    kind: Literal["invalid", "unsupported", "warning"]
    code: str
    message: str
    hint: str | None = None
    node_id: int | None = None
    type: str | None = Field(default=None, description="The node's type.")
    path: str | None = None


class PlanCheck(BaseModel):
    """Whether a plan would be accepted, and what was found."""

    valid: bool
    flink_version: str | None
    findings: list[Finding]


class StatusError(BaseModel):
    """Why a pipeline has failed, or is being restarted."""

    code: str
    message: str


class Status(BaseModel):
    """What a pipeline does now."""

    state: PipelineState
    run: int | None
    query_id: str | None
    epoch: int = Field(description="The last closed epoch; 0 before the first.")
    since: str | None
    restarts: int
    error: StatusError | None


class Restore(BaseModel):
    """What a pipeline was restored from, or is being restored from."""

    savepoint: str
    allow_non_restored_state: bool
    done: bool = Field(description="Until then it neither runs nor can be looked into.")


class SavepointBody(RequestBody):
    """How a savepoint is taken."""

    stop: bool = Field(default=False, description="Whether the pipeline stays stopped behind it.")
    filter_expired: bool = Field(
        default=True, description="Whether what is past its life is left out."
    )


class SavedState(BaseModel):
    """A state in a savepoint."""

    operator: str
    name: str
    kind: str
    keys: int = Field(description="Timers, where it is one of timers.")
    expired: int = Field(description="Elements that were left out.")


class Savepoint(BaseModel):
    """All that a pipeline keeps, as of one epoch."""

    id: str
    pipeline: str
    state: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    ordered_at: str
    epoch: int | None
    filtered: bool | None = Field(description="Whether what was past its life was left out.")
    max_parallelism: int | None
    size_bytes: int | None
    states: list[SavedState]
    error: StatusError | None


class Pipeline(BaseModel):
    """A pipeline: what was asked for, and what it does."""

    name: str
    id: str
    version: int
    desired_state: Literal["RUNNING", "STOPPED"]
    status: Status
    options: dict[str, Any]
    labels: dict[str, str]
    flink_version: str | None
    restore: Restore | None = Field(description="The savepoint that it began with.")
    created_at: str
    updated_at: str


class _List(BaseModel):
    next: str | None = Field(description="Address of the next page; null on the last one.")
    next_cursor: str | None


class PipelineList(_List):
    """A page of pipelines, by name."""

    items: list[Pipeline]


class SavepointList(_List):
    """A page of savepoints, newest first."""

    items: list[Savepoint]


class TtlExtensionBody(RequestBody):
    """How much longer everything is to live."""

    by_ms: int = Field(
        ge=1, le=10 * 366 * 86_400_000, description="Added to what was given before."
    )


class TtlExtension(BaseModel):
    """By how much the lives of what a pipeline keeps were extended, in processing time."""

    extension_ms: int = Field(description="In all; counts from the next start on.")
    in_force_ms: int = Field(description="What the latest run began with.")


class _EpochList(_List):
    epoch: int = Field(description="The closed epoch that was read.")


class Epochs(_List):
    """A page of progress, newest first, and sums since the pipeline was created."""

    epoch: int
    totals: dict[str, int]
    items: list[dict[str, Any]]


class OperatorInput(BaseModel):
    """What comes to an operator by one input."""

    columns: list[dict[str, str]]
    key_columns: list[dict[str, str]] = Field(description="State is kept by these.")
    ttl_ms: int | None


class Operator(BaseModel):
    """A stateful operator; columns, key and TTL are of its first input where it has several."""

    id: str
    node_id: int
    kind: str
    epoch: int
    key_columns: list[dict[str, str]]
    upsert_key_columns: list[dict[str, str]]
    columns: list[dict[str, str]]
    inputs: list[OperatorInput]
    strategy: str | None
    ttl_ms: int | None = Field(description="The longest of its inputs.")
    keys: int = Field(
        description="Of the state that has most of them; one with several namespaces counts for "
        "each."
    )
    orphans: int = Field(description="Retractions that matched nothing.")
    late: int = Field(description="Rows that the watermark had passed, and that were dropped.")
    last_epoch: dict[str, float] = Field(
        description="What it did in the last closed epoch, added up over its tasks: changes, state "
        "reads and writes, round trips, and peaks and counts of its controller."
    )


class OperatorList(_List):
    """The pipeline's stateful operators."""

    items: list[Operator]


class State(BaseModel):
    """A state that an operator has registered."""

    name: str
    kind: str
    codecs: list[str]
    ttl_ms: int | None
    ttl_update: str
    ttl_visibility: str
    ttl_time: str
    ttl_enabled_at: str | None = Field(
        description="When TTL was switched on for what was there already."
    )
    keys: int = Field(
        description="Keys that have something in it, with their namespaces; how many timers."
    )


class StateList(_List):
    """The states of an operator, by name."""

    items: list[State]


class StateElement(BaseModel):
    """A live element of a state, by column names where it holds rows."""

    rank: int | None = Field(
        description="In a sorted map: its place in the order, from 1; null elsewhere."
    )
    key: Any = Field(
        description="Of a map; the number in a list; the namespace of a timer; null in a value."
    )
    value: Any = Field(description="Of a timer: its time in ms since 1970.")
    touched_at: str | None = Field(description="Its last access that counts; null without TTL.")
    expires_at: str | None


class StateKey(_EpochList):
    """What a key has in a state."""

    key: list[Any]
    state: str
    kind: str
    layout: Literal["packed", "spread"]
    items: list[StateElement]


class OneOfKeyStates(BaseModel):
    """What a key has in one of the states of its operator."""

    state: str
    kind: str
    layout: Literal["packed", "spread"]
    href: str
    items: list[StateElement]
    next: str | None = Field(description="The rest of it; null if this is all.")


class KeyStates(BaseModel):
    """What a key has in each state that has anything of it."""

    key: list[Any]
    epoch: int
    states: list[OneOfKeyStates]


class Key(BaseModel):
    """A key that has something in state."""

    key: list[Any]
    namespace: str = Field(description='"" where the operator uses none.')
    href: str
    layout: Literal["packed", "spread"]
    entries: int = Field(
        description="In the first state that has the key; some may be past their time."
    )


class KeyList(_EpochList):
    """A page of keys, in the order of key groups."""

    items: list[Key]


class KeyRow(BaseModel):
    """A key's current row."""

    key: list[Any]
    epoch: int
    sequence_number: int
    row: dict[str, Any]
    inserted_at: str
    expires_at: str | None
    entries: int


class Entry(BaseModel):
    """A live row of a history."""

    sequence_number: int
    row: dict[str, Any]
    inserted_at: str
    expires_at: str | None
    current: bool = Field(description="The newest live entry.")
    shown: bool = Field(description="The one that the operator emitted last.")


class History(_EpochList):
    """A page of a key's live rows, oldest first."""

    key: list[Any]
    entries: int = Field(description="Live rows, on this page or not.")
    layout: Literal["packed", "spread"]
    items: list[Entry]


class KeyExplanation(BaseModel):
    """Why a key's row is what it is."""

    key: list[Any]
    epoch: int
    text: str
    current: Entry
    fallback: Entry | None
    shown_sequence_number: int | None = Field(
        description="The entry that the sink shows; null: a row that is gone."
    )
    entries: int
    entries_behind: int
    on_retraction: Literal["update", "delete"]


class Orphans(_EpochList):
    """A page of retractions that matched nothing."""

    count: int = Field(description="All there were, listed or not.")
    items: list[dict[str, Any]]


class DeadLetters(_List):
    """A page of lines that were no changes, oldest first."""

    count: int = Field(description="All there were, listed or not.")
    items: list[dict[str, Any]]


class Tables(_List):
    """What a pipeline reads and writes."""

    epoch: int
    items: list[dict[str, Any]]


class TableRows(_EpochList):
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


class Rejected(BaseModel):
    """A line of an ingress body that is no change."""

    line: int = Field(description="Counted from 1.")
    reason: str


class Accepted(BaseModel):
    """What became of an ingress body."""

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
        description="What the pipeline does: nothing that is pending gets done unless it runs."
    )


class Check(BaseModel):
    """One condition of readiness."""

    name: str
    ok: bool
    reason: str | None


class Readiness(BaseModel):
    """Whether the service can work, why not, and the limits in force."""

    ready: bool
    checks: list[Check]
    limits: dict[str, Any]
    authentication: bool
