"""Everything that can be set, in one frozen tree built once and passed down.

Names in the environment are `TAILRACE_` + group + `__` + field, e.g. `TAILRACE_REDIS__URL`; an
optional `.env` file in the working directory is read too, and the environment wins. Built in
`service.__main__` or in a test, never at import, and no package below `service` reads it. A name
with our prefix that no field answers to is an error: a misspelt limit must not be silently off.
`.env.example` lists every field with its default; a test compares the two.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "TAILRACE_"
DELIMITER = "__"

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
KIB = 1024
MIB = 1024 * KIB

REMOTE_SCHEMES = ("https", "http", "s3", "gs", "hdfs")
"""Where plans may be, besides files below the root."""
_API_KEY = re.compile(r"[A-Za-z0-9._-]{1,64}:(read|operate):[0-9a-f]{64}")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.*")
"""What is left of an address such as s3://bucket/folder as a path."""


def _on_disk(folder: Path) -> Path:
    """The folder, if it is no address, which would be taken for a folder of that name."""
    if _ADDRESS.fullmatch(str(folder)):
        raise ValueError("this is the path of a folder on a disk, not an address")
    return folder


Folder = Annotated[Path, AfterValidator(_on_disk)]
"""Where files are; not checked to exist."""


class _Group(BaseModel):
    """A group of settings: frozen, and a field that does not exist is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class RedisSettings(_Group):
    """Where state is kept and how long an answer may take."""

    url: str = Field(
        default="redis://127.0.0.1:6379/0",
        pattern=r"^(redis|rediss|unix)://",
        repr=False,
        description="Address of the Redis that keeps all state; may carry a password.",
    )
    connect_timeout_ms: int = Field(
        default=2 * SECOND_MS,
        ge=10,
        le=MINUTE_MS,
        description="Longest wait for a connection, in ms; also for Spark's workers.",
    )
    socket_timeout_ms: int = Field(
        default=30 * SECOND_MS,
        ge=100,
        le=10 * MINUTE_MS,
        description="Longest wait for a reply, in ms; also for Spark's workers, for which "
        "promoting a large epoch is one call.",
    )
    connections_max: int = Field(
        default=64,
        ge=4,
        le=10_000,
        description="Most connections that the service itself may open.",
    )


class SparkSettings(_Group):
    """The Spark Connect server and what it writes."""

    remote: str = Field(
        default="sc://127.0.0.1:15002",
        pattern=r"^sc://",
        repr=False,
        description="Address of the Spark Connect server; may carry a token.",
    )
    user: str = Field(
        default="tailrace",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="User of the session; together with the stored session id it identifies "
        "running queries after a restart.",
    )
    checkpoint_folder: Folder = Field(
        default=Path("data/checkpoints"),
        description="Folder of the queries' checkpoints, as the Connect server and its workers "
        "see it.",
    )
    connect_timeout_ms: int = Field(
        default=60 * SECOND_MS,
        ge=1_000,
        le=HOUR_MS,
        description="Longest wait for a new session, in ms.",
    )
    call_timeout_ms: int = Field(
        default=10 * SECOND_MS,
        ge=100,
        le=10 * MINUTE_MS,
        description="Longest wait for one answer of the server, in ms; also for /readyz.",
    )


class HttpSettings(_Group):
    """Where the service listens."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(
        default=8080, ge=0, le=65_535, description="Port to listen on; 0 takes a free one."
    )
    shutdown_grace_ms: int = Field(
        default=10 * SECOND_MS,
        ge=0,
        le=10 * MINUTE_MS,
        description="Time that open requests have to finish when the service stops, in ms.",
    )
    docs_enabled: bool = Field(
        default=True, description="Whether /docs shows the API's description."
    )


class FilesSettings(_Group):
    """Files and addresses that plans may name."""

    root: Folder = Field(
        default=Path("data/files"),
        description="Folder below which all files of sources, sinks and plans are.",
    )
    plan_locations: tuple[str, ...] = Field(
        default=(),
        description="Remote folders that plan URIs may name: a JSON array of https, http, s3, "
        "gs and hdfs addresses such as s3://bucket/plans; none by default, since they let "
        "clients make the service call other hosts.",
    )
    plan_s3_endpoint: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+)?$",
        description="Address of an S3-compatible object store, such as http://minio:9000; "
        "empty: Amazon's.",
    )
    plan_timeout_ms: int = Field(
        default=5 * SECOND_MS,
        ge=100,
        le=MINUTE_MS,
        description="Longest wait for a remote plan, in ms.",
    )

    @field_validator("plan_locations")
    @classmethod
    def _folders(cls, locations: tuple[str, ...]) -> tuple[str, ...]:
        for location in locations:
            parts = urlsplit(location)
            if parts.scheme not in REMOTE_SCHEMES or not parts.hostname:
                raise ValueError(
                    f"a plan location is an address with scheme {', '.join(REMOTE_SCHEMES)}"
                )
            if parts.query or parts.fragment or "@" in parts.netloc:
                raise ValueError("a plan location has no user, query or fragment")
        return locations


class DatabaseSettings(_Group):
    """Servers elsewhere that plans may name."""

    hosts: tuple[str, ...] = Field(
        default=(),
        description="Servers that jdbc and Kafka sinks may write to: a JSON array of host or "
        'host:port; "*" is any. None by default, since they let clients make the service call '
        "other hosts; SQLite files below the files root need none.",
    )


class SavepointSettings(_Group):
    """Where savepoints are kept."""

    folder: Folder = Field(
        default=Path("data/savepoints"),
        description="Folder of all savepoints, with a folder for each pipeline; they outlive "
        "their pipelines.",
    )
    per_pipeline_max: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Most savepoints of a pipeline; none is removed automatically.",
    )


class ExecutionSettings(_Group):
    """How pipelines run; the options of a pipeline override those that it names."""

    parallelism: int = Field(
        default=0,
        ge=0,
        le=1_024,
        description="Tasks of a keyed operator; 0: as many as there are processors.",
    )
    max_parallelism: int = Field(
        default=128,
        ge=1,
        le=32_768,
        description="Key groups of a new pipeline; they cannot be changed later.",
    )
    trigger_interval_ms: int = Field(
        default=200,
        ge=0,
        le=HOUR_MS,
        description="Shortest time between the starts of two epochs, in ms.",
    )
    tick_interval_ms: int = Field(
        default=10 * SECOND_MS,
        ge=100,
        le=DAY_MS,
        description="Interval of epochs while no data comes, in ms, so that TTL and timers work.",
    )
    rows_per_epoch_max: int = Field(
        default=200_000,
        ge=1,
        le=10_000_000,
        description="Most changes that a source puts into one epoch.",
    )
    default_ttl_ms: int = Field(
        default=0,
        ge=0,
        description="TTL of state to which the plan gives none, in ms; 0 is for ever.",
    )
    expired_keys_per_epoch_max: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Most expired keys that one key group cleans up in an epoch, besides those "
        "that it touches.",
    )
    orphans_max: int = Field(
        default=1_000,
        ge=0,
        le=1_000_000,
        description="Most orphans listed for a key group; all are counted.",
    )
    dead_letters_max: int = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="Most dead letters listed; all are counted.",
    )
    print_rows_max: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Most changes that a print sink keeps."
    )
    progress_epochs_max: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Most epochs that /progress lists."
    )
    supervise_interval_ms: int = Field(
        default=SECOND_MS,
        ge=50,
        le=10 * MINUTE_MS,
        description="Interval at which a query's status is checked, in ms.",
    )
    lease_ms: int = Field(
        default=10 * SECOND_MS,
        ge=SECOND_MS,
        le=10 * MINUTE_MS,
        description="Time without a sign of life after which another service on the same Redis "
        "supervises the pipelines, in ms.",
    )
    restarts_max: int = Field(
        default=10,
        ge=0,
        le=1_000_000,
        description="Restarts in a row after which a pipeline is FAILED.",
    )
    restart_backoff_min_ms: int = Field(
        default=500, ge=1, le=HOUR_MS, description="Wait before the first restart, in ms."
    )
    restart_backoff_max_ms: int = Field(
        default=30 * SECOND_MS, ge=1, le=DAY_MS, description="Longest wait before a restart, in ms."
    )
    restart_reset_ms: int = Field(
        default=5 * MINUTE_MS,
        ge=1,
        le=DAY_MS,
        description="Time without failure after which restarts count from 0 again, in ms.",
    )
    stop_timeout_ms: int = Field(
        default=60 * SECOND_MS,
        ge=100,
        le=HOUR_MS,
        description="Longest wait for a query to stop, in ms.",
    )

    testing_options_enabled: bool = Field(
        default=False,
        description="Whether tables may have the options testing.*, which only tests need.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> ExecutionSettings:
        if self.restart_backoff_min_ms > self.restart_backoff_max_ms:
            raise ValueError("restart_backoff_min_ms is above restart_backoff_max_ms")
        return self


class LimitSettings(_Group):
    """Limits on clients, requests and replies; /readyz shows those in force."""

    body_size_max_bytes: int = Field(
        default=8 * MIB, ge=KIB, le=KIB * MIB, description="Largest body of a request, in bytes."
    )
    line_size_max_bytes: int = Field(
        default=MIB, ge=64, le=256 * MIB, description="Largest line of an ingress body, in bytes."
    )
    json_depth_max: int = Field(
        default=200,
        ge=8,
        le=256,
        description="Deepest nesting of arrays and objects in a JSON body.",
    )
    pipelines_max: int = Field(
        default=100, ge=1, le=100_000, description="Most pipelines at a time."
    )
    labels_max: int = Field(default=32, ge=0, le=1_000, description="Most labels of one pipeline.")
    statements_max: int = Field(
        default=1_000, ge=1, le=100_000, description="Most statements of one script."
    )
    script_characters_max: int = Field(
        default=MIB, ge=KIB, le=256 * MIB, description="Most characters of one script of SQL."
    )
    plannings_max: int = Field(
        default=4,
        ge=1,
        le=1_000,
        description="Most scripts and plans processed at a time; others wait, at most for the "
        "planning timeout.",
    )
    planning_timeout_ms: int = Field(
        default=30 * SECOND_MS,
        ge=10,
        le=HOUR_MS,
        description="Longest time to plan the SQL of one request, and to read and check its "
        "plans, in ms.",
    )
    sessions_max: int = Field(
        default=1_000, ge=0, le=1_000_000, description="Most named sessions at a time."
    )
    session_size_max_bytes: int = Field(
        default=MIB,
        ge=KIB,
        le=256 * MIB,
        description="Largest text of the declarations and options of one session, in bytes.",
    )
    session_ttl_ms: int = Field(
        default=DAY_MS,
        ge=SECOND_MS,
        le=365 * DAY_MS,
        description="Time after its last use at which a session is forgotten, in ms.",
    )
    page_size_default: int = Field(
        default=100, ge=1, le=10_000, description="Items of a page if the request gives no limit."
    )
    page_size_max: int = Field(default=1_000, ge=1, le=10_000, description="Most items of a page.")
    ingress_changes_max: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Most lines of one ingress request."
    )
    ingress_backlog_max: int = Field(
        default=1_000_000,
        ge=1,
        le=100_000_000,
        description="Most accepted changes of a table that no closed epoch has read yet.",
    )
    dead_letters_per_request_max: int = Field(
        default=100, ge=0, le=10_000, description="Most rejected lines that an ingress reply lists."
    )
    retry_after_ms: int = Field(
        default=SECOND_MS,
        ge=1,
        le=HOUR_MS,
        description="Wait that 429 and 503 ask for in Retry-After, in ms, rounded up to seconds.",
    )
    idempotency_ttl_ms: int = Field(
        default=DAY_MS,
        ge=SECOND_MS,
        le=365 * DAY_MS,
        description="Time for which an Idempotency-Key is remembered, in ms.",
    )
    idempotency_lock_ms: int = Field(
        default=2 * MINUTE_MS,
        ge=SECOND_MS,
        le=HOUR_MS,
        description="Time after which the Idempotency-Key of a request that never answered is "
        "free again, in ms.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> LimitSettings:
        if self.page_size_default > self.page_size_max:
            raise ValueError("page_size_default is above page_size_max")
        if self.line_size_max_bytes > self.body_size_max_bytes:
            raise ValueError("line_size_max_bytes is above body_size_max_bytes")
        return self


class Scope(StrEnum):
    """What an API key may do; `operate` includes `read`."""

    READ = "read"
    OPERATE = "operate"


class AuthSettings(_Group):
    """API keys, as hashes. Without any, every caller may do everything."""

    keys: tuple[SecretStr, ...] = Field(
        default=(),
        description="Keys as name:scope:sha256hex, scope read or operate; a JSON array of strings.",
    )

    @field_validator("keys")
    @classmethod
    def _form(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        names = []
        for key in keys:
            if _API_KEY.fullmatch(key.get_secret_value()) is None:
                raise ValueError("an API key is name:scope:sha256hex, with scope read or operate")
            names.append(key.get_secret_value().split(":")[0])
        if len(set(names)) != len(names):
            raise ValueError("two API keys have the same name")
        return keys


class LoggingSettings(_Group):
    """What is logged and how."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Lowest level that is logged."
    )
    format: Literal["json", "console"] = Field(
        default="json", description="json: one object per line; console: aligned text for people."
    )


class Settings(BaseSettings):
    """All settings, frozen."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        env_file=".env",
        env_file_encoding="utf-8",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    redis: RedisSettings = RedisSettings()
    spark: SparkSettings = SparkSettings()
    http: HttpSettings = HttpSettings()
    files: FilesSettings = FilesSettings()
    databases: DatabaseSettings = DatabaseSettings()
    savepoints: SavepointSettings = SavepointSettings()
    execution: ExecutionSettings = ExecutionSettings()
    limits: LimitSettings = LimitSettings()
    auth: AuthSettings = AuthSettings()
    logging: LoggingSettings = LoggingSettings()

    @model_validator(mode="after")
    def _no_misspelt_group(self) -> Settings:
        groups = tuple(f"{PREFIX}{name.upper()}{DELIMITER}" for name in type(self).model_fields)
        strange = sorted(
            name
            for name in os.environ
            if name.startswith(PREFIX) and not name.upper().startswith(groups)
        )
        if strange:
            raise ValueError(f"no setting is called {', '.join(strange)}")
        return self
