"""What the registry keeps of a pipeline: what was asked for, and which query serves it.

All values are frozen; Redis holds them as fields of one hash, readable with `redis-cli`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Self

import orjson

from service.runtime.errors import RegistryCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.settings import ExecutionSettings

OnMalformed = Literal["dead-letter", "fail"]
OnLate = Literal["drop", "dead-letter"]


class Desired(StrEnum):
    """What the user wants of a pipeline."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """How a pipeline runs; what is None is taken from the settings when its query starts."""

    trigger_interval_ms: int | None = None
    """Shortest time from epoch to epoch."""
    tick_interval_ms: int | None = None
    """An epoch runs this often without data."""
    rows_per_epoch_max: int | None = None
    """Changes that a source puts into one epoch."""
    max_parallelism: int | None = None
    """Key groups; never changes once there is state, so creation settles it."""
    on_malformed: OnMalformed | None = None
    """What becomes of lines that are no changes, and of rows without the event time they need."""
    source_idle_timeout_ms: int | None = None
    """How long a source may have no rows before it holds no watermark back; 0: for ever.
    Flink: table.exec.source.idle-timeout."""
    on_late: OnLate | None = None
    """What becomes of rows that the watermark has passed; they are counted in any case."""
    default_ttl_ms: int | None = None
    """TTL of state whose plan names none; 0 is for ever."""
    emit_expired: bool | None = None
    """Expiry of a row that a sink shows emits -D, or +U of what remains; else nothing."""
    net_changes: bool | None = None
    """Materializers of sinks emit at most one change for a key and epoch."""
    async_in_flight_max: int | None = None
    """Changes of an operator in flight. Flink: execution.async-state.total-buffer-size."""
    async_batch_max: int | None = None
    """State requests that go out together. Flink: execution.async-state.active-buffer-size."""
    async_timeout_ms: int | None = None
    """Longest wait of a request for others. Flink: execution.async-state.active-buffer-timeout."""
    upsert_materialize_strategy: Literal["LEGACY", "VALUE", "MAP", "ADAPTIVE"] | None = None
    """In place of the plan's own, for every materializer of the pipeline."""
    adaptive_threshold_high: int | None = None
    adaptive_threshold_low: int | None = None
    local_time_zone: str | None = None
    """Of a plan that does not name it; creation writes it into the plan, where runs find it."""

    def resolved(self, execution: ExecutionSettings) -> RunOptions:
        """These options with every gap filled from the settings."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(RunOptions.of(execution), **given)

    def settled(self, execution: ExecutionSettings) -> Self:
        """These options with that filled in which must not follow later settings."""
        return replace(self, max_parallelism=self.max_parallelism or execution.max_parallelism)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run, complete."""

    trigger_interval_ms: int
    tick_interval_ms: int
    rows_per_epoch_max: int
    max_parallelism: int
    on_malformed: OnMalformed
    default_ttl_ms: int
    on_late: OnLate = "drop"
    source_idle_timeout_ms: int = 0
    ttl_extension_ms: int = 0
    """By how much all lives were extended before the run: no option, `state.registry` has it."""
    plan_version: int = 1
    """Of the plan that the run was started with: no option, the record has it."""
    emit_expired: bool = False
    net_changes: bool = False
    async_in_flight_max: int | None = None
    """None, here and in the next two: Flink's default."""
    async_batch_max: int | None = None
    async_timeout_ms: int | None = None
    upsert_materialize_strategy: Literal["LEGACY", "VALUE", "MAP", "ADAPTIVE"] | None = None
    """None: as the plan says."""
    adaptive_threshold_high: int | None = None
    """None: the backend's measured default."""
    adaptive_threshold_low: int | None = None
    local_time_zone: str | None = None
    """None: as the plan says. The plan has it anyway, so no run looks here."""

    @property
    def controller_limits(self) -> dict[str, int]:
        """What is set of the bounds of asynchronous state, by name in `ControllerLimits`."""
        found = {
            "in_flight_max": self.async_in_flight_max,
            "batch_max": self.async_batch_max,
            "timeout_ms": self.async_timeout_ms,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, execution: ExecutionSettings) -> Self:
        """What holds where a pipeline says nothing."""
        return cls(
            trigger_interval_ms=execution.trigger_interval_ms,
            tick_interval_ms=execution.tick_interval_ms,
            rows_per_epoch_max=execution.rows_per_epoch_max,
            max_parallelism=execution.max_parallelism,
            on_malformed="dead-letter",
            default_ttl_ms=execution.default_ttl_ms,
        )


@dataclass(frozen=True, slots=True)
class QueryHandle:
    """Where a pipeline's query runs, so that a restarted service can adopt it."""

    session_id: str
    """Spark Connect session that owns the query; only it can see the query."""
    query_id: str
    run_id: str
    """Spark's id of this run of the query; a new one comes with each restart."""
    run: int
    """Our run counter, as the query's tasks carry it."""
    version: str
    """Version of this package that started it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last error that ended a pipeline's query, or kept it from starting.

    It is kept until epochs have closed for a while since, or the user orders a start.
    """

    code: str
    message: str
    at_ms: int
    permanent: bool = True
    """It was given up, and another attempt would end the same; else one may follow."""
    cause: str | None = None
    """What lies below: the system's name of an error (ENOSPC), or the class of Spark's."""
    restarts: int = 0
    """Attempts that ended with an error since the pipeline was last well, this one among them."""
    epoch: int = 0
    """The last closed one, as it was then."""


@dataclass(frozen=True, slots=True)
class SavepointOrder:
    """A savepoint that is to be taken."""

    id: str
    filter_expired: bool
    """Whether it leaves out what is past its life."""
    ordered_ms: int


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """What a pipeline is made of, besides its plan."""

    pipeline: str
    """The name of the pipeline whose savepoint it is."""
    savepoint: str
    allow_non_restored_state: bool = False
    """Whether state that the plan has no operator for is left behind."""
    allow_outdated_rows: bool = False
    """Whether tables may have rows that the plan would write otherwise."""
    notes: tuple[str, ...] = ()
    """What comes of it that was not refused."""
    done: bool = False
    """Set by the supervisor; the pipeline does not start before."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Another statement that takes a pipeline's place, under its name and on its state.

    ordered       a savepoint is to be taken, and to be checked
    switching     state goes, and comes back from the savepoint for the other plan
    tried         the other plan runs, and has closed no epoch
    returning     it has failed: the same once more, for the plan that was there
    """

    plan: dict[str, Any]
    """The plan that is to come; once it is tried, the one to go back to."""
    options: PipelineOptions
    """Of that plan."""
    savepoint: SavepointOrder
    """The savepoint between the two."""
    allow_non_restored_state: bool = False
    allow_outdated_rows: bool = False
    phase: Literal["ordered", "switching", "tried", "returning"] = "ordered"
    epoch: int = 0
    """The savepoint's."""
    notes: tuple[str, ...] = ()
    """What comes of it that was not refused."""
    error: tuple[str, str] | None = None
    """Code and message of what the other plan has failed with."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of the last replacement."""

    savepoint: str
    outcome: Literal["REPLACED", "TAKEN_BACK", "REFUSED"]
    error: tuple[str, str] | None = None
    """Code and message of why it was not made."""


@dataclass(frozen=True, slots=True)
class Edition:
    """A version of what was asked of a pipeline, unlike any of another one that had its name."""

    version: int
    pipeline: str
    """How the pipeline's id begins."""


NEVER = Edition(0, "")
"""The edition of no pipeline: versions count from 1."""


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    """A pipeline as the registry has it."""

    name: str
    id: str
    """Unlike the name never used again; names the checkpoint folder."""
    plan: dict[str, Any]
    """Flink's compiled plan as it was posted; later only times to live change in it."""
    options: PipelineOptions = PipelineOptions()
    labels: Mapping[str, str] = field(default_factory=dict)
    desired: Desired = Desired.STOPPED
    version: int = 1
    """Rises with every change of what was asked for."""
    plan_version: int = 1
    """The version that changed the plan last."""
    created_ms: int = 0
    updated_ms: int = 0
    query: QueryHandle | None = None
    """Written by the supervisor; does not count as a change."""
    failure: Failure | None = None
    """Written by the supervisor; does not count as a change."""
    run_options: RunOptions | None = None
    """Options of the last run that was started, which made the state as it is; None before any.
    Written by the supervisor; does not count as a change."""
    run_plan: dict[str, Any] | None = None
    """The plan of that run, if it was changed since then."""
    savepoint: SavepointOrder | None = None
    """The savepoint that is to be taken next; does not count as a change."""
    restore: RestoreOrder | None = None
    """The savepoint that the pipeline begins with."""
    replacement: Replacement | None = None
    """The statement that is taking its place; the supervisor carries it on."""
    replaced: Replaced | None = None
    """What became of the last one. Written by the supervisor."""
    start_ms: int | None = None
    """When the start was asked for that was not looked at yet; does not count as a change."""
    restart_ms: int | None = None
    """When the restart was asked for that is not made yet; does not count as a change."""

    @property
    def edition(self) -> Edition:
        """What tells whether it is as it was."""
        return Edition(self.version, self.id[:8])

    def in_force(self, execution: ExecutionSettings) -> RunOptions:
        """The options that count now: those of the last run, not those that wait for the next."""
        return self.run_options or self.options.resolved(execution)

    @property
    def plan_in_force(self) -> dict[str, Any]:
        """The plan that counts now: that of the last run, not one that waits for the next."""
        run = self.run_options
        if run is None or run.plan_version == self.plan_version or self.run_plan is None:
            return self.plan
        return self.run_plan


def to_hash(record: PipelineRecord) -> dict[str, bytes]:
    """The fields of the hash that keeps a record; those that are None are left out."""
    values: dict[str, Any] = {
        "name": record.name,
        "id": record.id,
        "plan": record.plan,
        "options": {k: v for k, v in asdict(record.options).items() if v is not None},
        "labels": dict(record.labels),
        "desired": record.desired.value,
        "version": record.version,
        "plan_version": record.plan_version,
        "created_ms": record.created_ms,
        "updated_ms": record.updated_ms,
    }
    for name in (
        "query", "failure", "run_options", "savepoint", "restore", "replacement", "replaced",
    ):  # fmt: skip  # a list of names, several a line
        if (part := getattr(record, name)) is not None:
            values[name] = asdict(part)
    for name in ("run_plan", "start_ms", "restart_ms"):
        if (value := getattr(record, name)) is not None:
            values[name] = value
    return {name: orjson.dumps(value) for name, value in values.items()}


def from_hash(name: str, stored: Mapping[bytes, bytes]) -> PipelineRecord:
    """The record that a hash keeps.

    Raises:
        RegistryCorrupt: it is not one that `to_hash` wrote.
    """
    try:
        values = {key.decode(): orjson.loads(value) for key, value in stored.items()}
        query, failure = values.pop("query", None), values.pop("failure", None)
        run = values.pop("run_options", None)
        savepoint, restore = values.pop("savepoint", None), values.pop("restore", None)
        replacement, replaced = values.pop("replacement", None), values.pop("replaced", None)
        return PipelineRecord(
            **{
                **values,
                "options": PipelineOptions(**_known(PipelineOptions, values["options"])),
                "desired": Desired(values["desired"]),
            },
            query=None if query is None else QueryHandle(**query),
            failure=None if failure is None else Failure(**failure),
            run_options=None if run is None else RunOptions(**_known(RunOptions, run)),
            savepoint=None if savepoint is None else SavepointOrder(**savepoint),
            restore=None
            if restore is None
            else RestoreOrder(**{**restore, "notes": tuple(restore.get("notes", ()))}),
            replacement=None if replacement is None else _replacement(replacement),
            replaced=None
            if replaced is None
            else Replaced(**{**replaced, "error": _error(replaced["error"])}),
        )
    except (TypeError, ValueError, KeyError) as error:
        raise RegistryCorrupt(
            f'the record of pipeline "{name}" is not in the form that this version writes'
        ) from error


def _replacement(values: Mapping[str, Any]) -> Replacement:
    return Replacement(
        **{
            **values,
            "options": PipelineOptions(**_known(PipelineOptions, values["options"])),
            "savepoint": SavepointOrder(**values["savepoint"]),
            "notes": tuple(values["notes"]),
            "error": _error(values["error"]),
        }
    )


def _error(told: Sequence[str] | None) -> tuple[str, str] | None:
    return None if told is None else (told[0], told[1])


def _known(kind: type[PipelineOptions | RunOptions], values: Mapping[str, Any]) -> dict[str, Any]:
    """What this version knows; an option of a newer one must not make the record unreadable."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in values.items() if name in names}
