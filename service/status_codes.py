"""Every code that the status of a pipeline may tell as `error` or `last_error`.

Each has a page: a section of `docs/problems.md`, shown by the service at `/docs/problems/{code}`.
A code that a problem of the API has, too, has that one's page. Codes with a dot may have a page
together, under what stands before it. A test walks all error classes that can end a query.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.problem_types import BY_SLUG, DOCS_PATH
from service.runtime.status import PERMANENT_CODES


@dataclass(frozen=True, slots=True)
class StatusCode:
    """What a code means, and what to do."""

    code: str
    meaning: str
    action: str

    @property
    def is_final(self) -> bool:
        """Whether nothing is tried again before an order."""
        return self.code in PERMANENT_CODES or self.code in _OF_STARTS


_OF_STARTS = frozenset({"dataflow", "plan", "types", "epoch-half-written"})
"""Found while a query is made of a plan, which another attempt would find again."""
_CORRECT = "Correct the statement, and create the pipeline anew: `restore` keeps its state."

CODES: tuple[StatusCode, ...] = (
    # Of the query.
    StatusCode(
        "query.failed",
        "Spark ended the query by an error that is none of ours; `cause` is its class, or the "
        "system's name of it: ENOSPC (a disk of the machine of the Connect server, or of its "
        "workers, is full), EACCES, ENOMEM.",
        "Remove the cause. The log of the service has places of code under `query failed`, that "
        "of the Connect server has all.",
    ),
    StatusCode(
        "query.worker-not-started",
        "No Python worker came up on the machine of the Connect server, or on an executor: it has "
        "too much to do, or its Python cannot be run or lacks this package. `cause` names an error "
        "of the system.",
        "Look at the log of the Connect server; run it with `tailrace spark-connect`, which sets "
        "the workers' Python.",
    ),
    StatusCode(
        "query.worker-lost",
        "A Python worker ended in the midst of its work, as one does that the system kills where "
        "memory is short. The epoch runs again.",
        "Give the machine more memory, or epochs fewer rows (`rows_per_epoch_max`).",
    ),
    StatusCode(
        "query.gone",
        "The query ended with its Spark session or Connect server. A new run goes on behind the "
        "last closed epoch.",
        "Find out why the server ended if it happens again: its log says so.",
    ),
    StatusCode(
        "query.ended",
        "The query was stopped, but not by this service.",
        "Stop pipelines by `POST .../stop` only.",
    ),
    StatusCode(
        "query.not-found",
        "Spark does not know the query any more.",
        "Nothing: a new run goes on behind the last closed epoch.",
    ),
    StatusCode(
        "query.still-running",
        "The query was told to stop and did not within `execution.stop_timeout_ms`. It is told "
        "again; nothing is started beside it.",
        "Wait, or restart the Connect server.",
    ),
    StatusCode(
        "query.start-failed",
        "The pipeline could not be turned into a query; `message` says why.",
        _CORRECT,
    ),
    StatusCode(
        "task-failure",
        "A source or sink cannot go on; `message` says why.",
        "Remove what it names.",
    ),
    StatusCode(
        "version-mismatch",
        "Spark's Python workers have another version of this package than the service.",
        "Install the same version on both, and restart the Connect server.",
    ),
    StatusCode(
        "spark.workers-differ",
        "Spark's Python workers lack this package, or have another version of it.",
        "Install the same version on both, and restart the Connect server.",
    ),
    StatusCode(
        "spark.unavailable",
        "The Spark Connect server does not answer. It is asked until it does; `waits_for` is "
        "`spark`.",
        "Start the server, or correct `spark.remote`.",
    ),
    StatusCode(
        "spark.session-lost",
        "The Spark Connect server was restarted, or has forgotten our session. A new one is made.",
        "Nothing.",
    ),
    StatusCode(
        "lifecycle",
        "The service cannot go on with the pipeline; `message` says why.",
        "Remove what it names, then `POST .../start`.",
    ),
    # Of what is read and written.
    StatusCode(
        "malformed-change",
        "A line or record is not a valid change of its table, and the pipeline's option "
        "`on_malformed` is `fail`.",
        "Correct or remove it, or set `on_malformed` to `dead-letter`; then `POST .../start`.",
    ),
    StatusCode(
        "source-unavailable",
        "What a table reads from does not answer, or cannot be read at the moment; `cause` names "
        "an error of the system, such as EACCES.",
        "Make it readable for the user that Spark's workers run as.",
    ),
    StatusCode(
        "source-changed",
        "A file, topic or stream does not hold any more what an epoch was planned on, so that a "
        "replay would differ.",
        "Put back what is missing, then `POST .../start`; or restore a savepoint.",
    ),
    StatusCode(
        "sink-refused",
        "A sink does not take a change or a file: a NULL or a kind of change that its table "
        "forbids, a column that the database lacks, a folder that must not be written (`cause` is "
        "then EACCES, EROFS or ENOTDIR).",
        "Correct the table, folder or statement, then `POST .../start`.",
    ),
    StatusCode(
        "sink-unavailable",
        "A sink's database or broker does not answer, or there is no room for its files (`cause` "
        "is then ENOSPC or EDQUOT). It is tried again until it works; `waits_for` is `sink`.",
        "Start the server or make room. Nothing is lost meanwhile, and nothing is closed.",
    ),
    StatusCode(
        "sink-taken-over",
        "Another pipeline has taken over the table, topic or folder that this one writes, as a new "
        "version does that was restored from its savepoint.",
        "Let the other one go on, or delete it before it writes; `message` says how to take it "
        "back.",
    ),
    StatusCode(
        "source-split",
        "Spark read a table to two ends in one epoch, or not to the one that was planned. Nothing "
        "was closed.",
        "Keep the checkpoint as it is, and report it with the plan.",
    ),
    StatusCode(
        "sink-folder-taken",
        "Another pipeline writes to the folder of a sink, and a folder belongs to one pipeline.",
        "Give the sink another `path`, or delete the other pipeline.",
    ),
    StatusCode(
        "epoch-half-written",
        "A database or topic has an epoch that is not closed, and TTLs or options were changed "
        "since it was written: what it would hold is not what was written.",
        "Go back to what `message` names, start, and change it once that epoch is closed.",
    ),
    StatusCode(
        "lookup-timed-out",
        "The table of a look-up join did not answer in its time, retries included.",
        "See that its database or pipeline answers; the epoch runs again.",
    ),
    # Of operators.
    StatusCode(
        "operator-error", "An operator cannot go on; `message` says why.", "Remove what it names."
    ),
    StatusCode(
        "operator-failed",
        "The code of an operator, or a function of a user that it calls, raised an error. The log "
        "has the place.",
        "Correct the function, or report the error with the lines of the log.",
    ),
    StatusCode(
        "operator-changelog",
        "An operator met changes that no changelog can have in this order.",
        "Report it with the plan.",
    ),
    StatusCode(
        "operator-aggregate-failed",
        "An aggregate function met rows that it has no result for, as Flink's has none.",
        "Filter such rows out, or use another function.",
    ),
    StatusCode(
        "operator-expression",
        "An expression has no value for a row, where Flink ends the job, too: a division by 0, a "
        "CAST that fails.",
        "Write TRY_CAST, or NULLIF around a divisor, or filter such rows out.",
    ),
    StatusCode(
        "expression",
        "An expression has no value for a row, or cannot be computed here; `message` says which.",
        "Write TRY_CAST, or NULLIF around a divisor, or filter such rows out.",
    ),
    StatusCode(
        "operator-invalid-spec", "A node of the plan asks for what cannot be done.", _CORRECT
    ),
    StatusCode(
        "operator-function-unavailable",
        "A function of a user is not installed where the workers run, or is none.",
        "Install it for the service and for Spark's workers, and restart the Connect server.",
    ),
    StatusCode(
        "operator-lookup-failed",
        "The table of a look-up join does not answer, or has rows that are none of it.",
        "See that it answers, and has the columns that the statement declares.",
    ),
    StatusCode(
        "operator-missing-row-time",
        "A row has NULL as its event time where it decides; Flink ends the job, too.",
        "Filter such rows out (`WHERE ts IS NOT NULL`) in a new version of the statement.",
    ),
    StatusCode(
        "operator-no-room",
        "A row is made into more rows than an epoch can tell apart.",
        "Let the function return fewer rows, or put fewer rows into an epoch.",
    ),
    StatusCode(
        "operator-no-watermark",
        "A function of a user registers a timer in event time, and no watermark comes to it.",
        "Declare a WATERMARK at the source.",
    ),
    StatusCode(
        "operator-unavailable-value",
        "A change lacks a value that did not change (Debezium's placeholder of a TOAST value), and "
        "no row is kept that has it.",
        "Send such rows whole (REPLICA IDENTITY FULL), then begin anew.",
    ),
    StatusCode(
        "operator-conflict",
        "Rows with different values have one primary key, under ON CONFLICT DO ERROR.",
        "Correct the rows, or let the conflict be resolved: ON CONFLICT DO NOTHING or DEDUPLICATE.",
    ),
    # Of state.
    StatusCode(
        "state-error", "Keyed state cannot go on; `message` says why.", "Remove what it names."
    ),
    StatusCode(
        "state-view-moved",
        "An epoch was closed while state was read.",
        "Nothing: it is read again.",
    ),
    StatusCode(
        "state-access-denied",
        "Redis refuses the credentials, or a command of them.",
        "Correct the user's rights in Redis or `redis.url`, then `POST .../start`.",
    ),
    StatusCode(
        "state-fenced",
        "A newer run owns the pipeline: what an older one was still doing is refused.",
        "Nothing.",
    ),
    StatusCode(
        "state-staged-writes-gone",
        "What tasks had staged is gone from Redis; the epoch runs again.",
        "See that Redis does not evict keys (`maxmemory-policy noeviction`).",
    ),
    StatusCode(
        "state-incarnation-changed",
        "Redis was restarted under a run; the whole epoch runs again in a new one.",
        "Nothing.",
    ),
    StatusCode(
        "state-format-version-mismatch",
        "State was written by a version of this software that this one cannot read.",
        "Run the version that wrote it, and move by a savepoint.",
    ),
    StatusCode(
        "state-codec-mismatch",
        "A state is stored with other columns or types than the plan keeps.",
        "Create a pipeline for the changed plan; restore a savepoint if it fits.",
    ),
    StatusCode("state-invalid-ttl", "A time to live makes no sense.", "Give milliseconds above 0."),
    StatusCode(
        "state-invalid-thresholds",
        "The sizes at which histories change their layout leave no gap.",
        "Let `adaptive_threshold_low` be below `adaptive_threshold_high`.",
    ),
    StatusCode(
        "state-invalid-name", "A state of a function cannot have its name.", "Give it another."
    ),
    StatusCode(
        "state-invariant",
        "A rule of state was broken that only an error of this software can break.",
        "Keep Redis and the checkpoint as they are, and report it.",
    ),
    StatusCode(
        "codec",
        "A value cannot be stored, or what is stored is no value of its column.",
        "Keep Redis as it is, and report it.",
    ),
    StatusCode(
        "checkpoint-unusable",
        "Spark's checkpoint cannot be read, written or removed; `cause` names the system's error.",
        "Make `spark.checkpoint_folder` readable and writable, or make room.",
    ),
    StatusCode(
        "registry.unavailable",
        "Redis does not answer, or refuses to write. It is asked until it does.",
        "See `GET /readyz`.",
    ),
    StatusCode(
        "lease.lost",
        "Another service supervises the pipelines now.",
        "Nothing: it goes on with them.",
    ),
    StatusCode(
        "registry.corrupt",
        "The record of a pipeline in Redis is not one that this version writes.",
        "Run the version that wrote it, or restore Redis.",
    ),
    # Of savepoints.
    StatusCode(
        "savepoint",
        "A savepoint cannot be taken or restored; `message` says why.",
        "Remove what it names; `savepoint.files` is a file that cannot be read or written.",
    ),
    StatusCode(
        "savepoint.not-found",
        "The savepoint that the pipeline is to begin with does not exist.",
        "Delete the pipeline, and create it with one that `GET .../savepoints` lists.",
    ),
    StatusCode(
        "savepoint-corrupt",
        "Files of the savepoint are missing, cut off or changed. Nothing was restored.",
        "Use another savepoint, or a copy of this one.",
    ),
    StatusCode(
        "savepoint-mismatch",
        "The savepoint does not fit the plan. Nothing was restored.",
        "Use another savepoint, or correct the plan; see "
        "[savepoint-unusable](/docs/problems/savepoint-unusable).",
    ),
    StatusCode(
        "savepoint-target-in-use",
        "The pipeline has state already. Nothing was restored.",
        "Create a new pipeline for it.",
    ),
    StatusCode(
        "savepoint-incomplete",
        "A restore began and did not end. It begins again.",
        "`POST .../start` where it does not.",
    ),
    # Of plans that cannot be started, though they were taken once.
    StatusCode(
        "plan",
        "The plan is not valid for this version, as [plan-invalid](/docs/problems/plan-invalid) "
        "has it.",
        _CORRECT,
    ),
    StatusCode(
        "dataflow",
        "The plan needs something that cannot be run here, or not any more: see [plan-unsupported]"
        "(/docs/problems/plan-unsupported) and [table-option-invalid]"
        "(/docs/problems/table-option-invalid).",
        _CORRECT,
    ),
    StatusCode("types", "The plan has a type that is none, or not supported.", _CORRECT),
)
BY_CODE = {each.code: each for each in CODES}


def page_of(code: str) -> StatusCode | None:
    """The page of a code; of one with a dot also that of what stands before it."""
    return BY_CODE.get(code) or BY_CODE.get(code.partition(".")[0])


def address_of(code: str) -> str:
    """Where the page of a code is shown."""
    if code in BY_SLUG or (found := page_of(code)) is None:
        return f"{DOCS_PATH}/{code}"
    return f"{DOCS_PATH}/{found.code}"


def as_markdown() -> str:
    """The part of `docs/problems.md` about pipelines' status."""
    head = (
        "\n# In the status of a pipeline\n\n"
        "`status.error` says what keeps a pipeline from running now, `status.last_error` what\n"
        "ended its query last. `code` is one of these, or one of the above; `type` is the address\n"
        "of its page. Codes with a dot that are not listed stand under what is before the dot.\n"
        "*Final*: another attempt would meet it again, so the pipeline is FAILED at once; all\n"
        "others are tried again, with growing waits.\n"
    )
    return head + "".join(f"\n{section(each)}" for each in CODES)


def section(code: StatusCode) -> str:
    """One code as Markdown."""
    final = "*Final.* " if code.is_final else ""
    return f"## {code.code}\n\n{final}{code.meaning}\n\n*What to do:* {code.action}\n"
