"""Bodies and answers about plans: checks, times to live, and what differs between two."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from service.api.models import OptionsBody, PipelineName, PlanBody, RequestBody, RestoreBody
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError


def _duration(text: str) -> str:
    """The text, if a plan may have it as a time to live; what is wrong is told without it."""
    try:
        parse_duration_ms(text)
    except DurationError as error:
        raise ValueError(
            "must be a duration of 0 to 2^63-1 ms as plans write it, such as 36 h, 7 d or PT1H"
        ) from error
    return text


Duration = Annotated[
    str, StringConstraints(min_length=1, max_length=100), AfterValidator(_duration)
]
StateName = Annotated[str, StringConstraints(max_length=255)]


class SqlBody(RequestBody):
    """A script to compile; nothing is stored."""

    sql: str = Field(
        min_length=1,
        description="Statements of Flink SQL, with `;` between; one of them asks for a plan.",
    )


class PlanCheckBody(PlanBody):
    """A plan to check; nothing is stored."""

    options: OptionsBody = Field(default_factory=OptionsBody)


class PlanValidateBody(PlanBody):
    """A plan to check, or the SQL of one; nothing is stored."""

    WAYS: ClassVar[tuple[str, ...]] = (*PlanBody.WAYS, "sql")

    options: OptionsBody = Field(default_factory=OptionsBody)

    sql: str | None = Field(
        default=None, min_length=1, description="A script of Flink SQL that asks for one plan."
    )
    restore: RestoreBody | None = Field(
        default=None, description="The savepoint that the pipeline would begin with."
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
    path: str | None = Field(
        default=None, description="JSON pointer into the plan; of an option, into the request."
    )


class PlanCheck(BaseModel):
    """Whether a plan would be accepted, and the findings."""

    valid: bool
    flink_version: str | None
    findings: list[Finding]


class OperatorTtlPatch(RequestBody):
    """TTLs by the state's name."""

    states: dict[StateName, Duration] = Field(
        min_length=1,
        max_length=1_000,
        description="As plans write them: `36 h`, `7 d`, `PT1H`; `0 ms` is for ever.",
        examples=[{"sinkMaterializeState": "36 h"}],
    )


class OperatorStateTtl(BaseModel):
    """The TTL of one state of an operator."""

    name: str
    input: int = Field(description="The input of the operator that it belongs to, from 0.")
    ttl: str
    ttl_ms: int = Field(description="0: for ever. Takes effect at the next start.")
    origin: Literal["plan", "default"]
    in_force_ms: int | None = Field(description="In the last run; null before the first.")


class OperatorTtl(BaseModel):
    """The TTL of an operator's states."""

    operator: str
    node_id: int
    states: list[OperatorStateTtl]


class PlanSource(PlanBody):
    """A plan: inline, by address, as SQL, or that of a pipeline; exactly one of the four."""

    WAYS: ClassVar[tuple[str, ...]] = (*PlanBody.WAYS, "sql", "pipeline")

    sql: str | None = Field(
        default=None, min_length=1, description="A script of Flink SQL that asks for one plan."
    )
    pipeline: PipelineName | None = Field(
        default=None, description="The name of a pipeline; its options count too."
    )
    options: OptionsBody = Field(
        default_factory=OptionsBody,
        description="`default_ttl_ms` is for states to which the plan gives no TTL.",
    )


class PlanDiffBody(RequestBody):
    """Two plans to compare."""

    before: PlanSource = Field(description="The plan that the state belongs to.")
    after: PlanSource = Field(description="The plan that would replace it.")


class DiffNode(BaseModel):
    """A node that only one of the plans has."""

    node_id: int
    type: str
    description: str


class ChangedNode(BaseModel):
    """A node of both plans that differs."""

    node_id: int
    type: str
    properties: list[str]


class NodeState(BaseModel):
    """What happens to a node's state."""

    node_id: int
    type: str
    fate: Literal["kept", "migrated", "dropped", "new"]
    names: list[str]
    reason: str
    after_id: int | None = Field(description="The node that has it afterwards.")


class DiffTable(BaseModel):
    """What happens to a table."""

    outcome: Literal["kept", "outdated", "new", "gone"] = Field(
        description="outdated: it has rows that the plan would write otherwise, or lacks some."
    )
    before: str | None
    after: str | None
    reason: str
    is_whole: bool = Field(description="Whether it is what the plan after would have written.")


class DiffSource(BaseModel):
    """What happens to what is read."""

    outcome: Literal["kept", "new", "gone", "other"] = Field(
        description="other: another connector or place under the same name; a restore refuses it."
    )
    key: str
    connector: str


class ChangedTtl(BaseModel):
    """A state whose TTL differs; 0 is for ever."""

    node_id: int
    type: str
    name: str
    input: int
    before_ms: int
    after_ms: int


class PlanDiff(BaseModel):
    """How one plan differs from another."""

    equal: bool = Field(description="Whether they do the same, even if their texts differ.")
    keeps_state: bool = Field(description="Whether no state of the plan before is dropped.")
    added: list[DiffNode]
    removed: list[DiffNode]
    changed: list[ChangedNode]
    renumbered: list[dict[str, int]] = Field(
        description="Nodes that differ in nothing but their ids."
    )
    state: list[NodeState]
    keeps_tables: bool = Field(
        description="Whether no table has rows that the plan after would write otherwise."
    )
    tables: list[DiffTable]
    sources: list[DiffSource]
    ttl: list[ChangedTtl]
