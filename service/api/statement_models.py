"""Bodies and answers of statements and sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from service.api.models import OptionsBody, RequestBody
from service.api.plan_models import Finding

SessionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


class StatementsBody(RequestBody):
    """A script of statements to run."""

    sql: str = Field(
        min_length=1,
        description="Statements of Flink SQL, with `;` between.",
        examples=["SHOW TABLES"],
    )
    session: SessionName | None = Field(
        default=None,
        description="A named session, which keeps what is declared and set; without it the script "
        "has a session of its own.",
    )
    options: OptionsBody = Field(
        default_factory=OptionsBody, description="Of the pipelines that the script starts."
    )


class StatementPlace(BaseModel):
    """Where a statement begins; both count from 1."""

    line: int
    column: int


class ResultColumn(BaseModel):
    """A column of an answer."""

    name: str
    type: str


class StartedPipeline(BaseModel):
    """A pipeline that a statement started."""

    name: str
    href: str


class StatementResult(BaseModel):
    """What a statement did."""

    statement: str = Field(description="Its first words: `CREATE TABLE`, `EXECUTE PLAN`, ...")
    position: StatementPlace
    result_kind: Literal["SUCCESS", "SUCCESS_WITH_CONTENT"] = Field(
        description="As in Flink: whether there is more to read than OK."
    )
    columns: list[ResultColumn]
    rows: list[list[str | bool | None]]
    plan_uri: str | None = Field(description="The plan that was written, read, or existed already.")
    plan_written: bool | None = Field(description="Whether this statement wrote it.")
    pipeline: StartedPipeline | None
    warnings: list[Finding] = Field(
        description="Why a table that the pipeline writes may be wrong, and what to do."
    )


class StatementResults(BaseModel):
    """What a script did, statement by statement."""

    session: str | None
    results: list[StatementResult]


class SessionOption(BaseModel):
    """An option that is set; values that look like secrets are masked."""

    key: str
    value: str


class SqlSessionView(BaseModel):
    """A named session."""

    name: str
    tables: list[str]
    views: list[str]
    options: list[SessionOption]
    expires_at: str | None = Field(description="Unless it is used before.")
