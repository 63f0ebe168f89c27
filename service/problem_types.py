"""Every kind of problem that the API answers with: the one source of its documents.

Each becomes a `type` URI `/docs/problems/{slug}`, a section of `docs/problems.md` (a test compares
the two) and a page that the service itself shows. Slugs are stable: they are never renamed and
never used again for something else.
"""

from __future__ import annotations

from dataclasses import dataclass

DOCS_PATH = "/docs/problems"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem, as RFC 9457 means it."""

    slug: str
    status: int
    title: str
    """Short and the same in every occurrence."""
    meaning: str
    action: str
    """What the caller can do about it."""
    is_internal: bool = False
    """The error's own words stay inside; the reply says only the title."""
    is_retriable: bool = False
    """The reply carries Retry-After."""

    @property
    def uri(self) -> str:
        """The `type` member of the reply."""
        return f"{DOCS_PATH}/{self.slug}"


def _retry(slug: str, status: int, title: str, meaning: str, action: str) -> ProblemType:
    return ProblemType(slug, status, title, meaning, action, is_retriable=True)


# Of the request itself.
MALFORMED_BODY = ProblemType(
    "malformed-body",
    400,
    "the body is not valid JSON",
    "The body could not be read as JSON (RFC 8259): a syntax error, NaN, a lone surrogate, or "
    "bytes that are not UTF-8. `detail` names line and column.",
    "Send valid JSON.",
)
BODY_TOO_DEEP = ProblemType(
    "body-too-deep",
    400,
    "the body is nested too deeply",
    "Arrays and objects of the body are nested deeper than `limits.json_depth_max`.",
    "Send a flatter document, or raise the limit.",
)
UNAUTHENTICATED = ProblemType(
    "unauthenticated",
    401,
    "an API key is needed",
    "The service requires an API key, and the request has none, or one that is not known.",
    "Send `Authorization: Bearer KEY` or `X-API-Key: KEY`.",
)
FORBIDDEN = ProblemType(
    "forbidden",
    403,
    "the API key may not do this",
    "The key is known, but its scope is `read` and the request needs `operate`.",
    "Use a key with scope `operate`.",
)
NOT_FOUND = ProblemType(
    "not-found",
    404,
    "there is nothing at this address",
    "The API has no route with this path.",
    "See `/v1/openapi.json` for the routes.",
)
METHOD_NOT_ALLOWED = ProblemType(
    "method-not-allowed",
    405,
    "the method is not allowed here",
    "The path exists, but not with this method; the header `Allow` lists those it has.",
    "Use one of the methods in `Allow`.",
)
NOT_ACCEPTABLE = ProblemType(
    "not-acceptable",
    406,
    "the Accept header asks for a media type that is not available",
    "The resource is available in other media types only; `detail` lists them.",
    "Accept one of them, or send no `Accept`.",
)
PRECONDITION_FAILED = ProblemType(
    "precondition-failed",
    412,
    "the resource has changed",
    "`If-Match` names another version than the current one: the resource was changed meanwhile.",
    "Get the resource again, and repeat the request with its `ETag` if it is still wanted.",
)
BODY_TOO_LARGE = ProblemType(
    "body-too-large",
    413,
    "the body is too large",
    "The body is larger than `limits.body_size_max_bytes`, or it has more lines than "
    "`limits.ingress_changes_max`. Reading stops there.",
    "Send several smaller requests, or raise the limit.",
)
UNSUPPORTED_MEDIA_TYPE = ProblemType(
    "unsupported-media-type",
    415,
    "the body's media type is not supported here",
    "`Content-Type` is not what the route takes, or there is a `Content-Encoding`.",
    "Send `application/json`, or `application/x-ndjson` at ingress, without compression.",
)
INVALID_REQUEST = ProblemType(
    "invalid-request",
    422,
    "the request is not valid",
    "A parameter, header or member of the body is missing, unknown or out of range. `errors` lists "
    "each one with its place and what is wrong, but not its value. An option of a pipeline that "
    "has no effect on its plan is refused, too: `path` is its place in the body.",
    "Correct what `errors` or `detail` names.",
)
CURSOR_INVALID = ProblemType(
    "cursor-invalid",
    422,
    "the cursor is not valid for this list",
    "`cursor` does not come from a page of this list, or was changed.",
    "Start again without `cursor`, and follow `next`.",
)
IDEMPOTENCY_IN_PROGRESS = _retry(
    "idempotency-in-progress",
    409,
    "a request with this Idempotency-Key is in progress",
    "An earlier request with the same key has not been answered yet.",
    "Wait, and send the same request again: it will get the answer of the first one.",
)
IDEMPOTENCY_MISMATCH = ProblemType(
    "idempotency-mismatch",
    422,
    "this Idempotency-Key belongs to another request",
    "The key was used before with another method, path or body.",
    "Use a new key for a new request.",
)

# Of plans.
PLAN_INVALID = ProblemType(
    "plan-invalid",
    422,
    "the plan is not valid",
    "The compiled plan breaks a rule that Flink checks as well, when it loads or translates a "
    "plan. `node_id`, `node_type` and `path` (a JSON pointer into the plan) say where.",
    "Correct the plan, or compile it again. `POST /v1/plans/validate` lists all findings at once.",
)
SQL_INVALID = ProblemType(
    "sql-invalid",
    422,
    "the script cannot be compiled",
    "The SQL has an error, or uses something that is not supported. `detail` begins with line and "
    "column and names it. Nothing is planned partially.",
    "Correct the script. `POST /v1/plans/compile` tries it without storing anything.",
)
SQL_TIMEOUT = ProblemType(
    "sql-timeout",
    422,
    "the script takes too long to plan",
    "Planning the script took longer than `limits.planning_timeout_ms` and was stopped. `line` and "
    "`column` are those of the statement that it had reached.",
    "Split the script. A view or WITH entry is planned again wherever it is named: name it once.",
)
PLAN_TIMEOUT = ProblemType(
    "plan-timeout",
    422,
    "the plan takes too long to process",
    "Reading, checking, explaining or comparing the compiled plan took longer than "
    "`limits.planning_timeout_ms` and was stopped. The plan may be valid.",
    "Split the plan into several pipelines, or raise the limit.",
)
PLANNER_BUSY = _retry(
    "planner-busy",
    503,
    "too many other scripts and plans are being processed",
    "`limits.plannings_max` scripts or plans are being processed, and none of them was finished "
    "while this request waited.",
    "Wait as long as `Retry-After` says, and try again.",
)
PLAN_UNSUPPORTED = ProblemType(
    "plan-unsupported",
    422,
    "the plan needs something that is not supported",
    "The plan is valid, but a node, expression, type, connector or format in it cannot be run "
    "here; `detail` names it. Nothing is skipped silently. `node_id`, `node_type` and `path` say "
    "where.",
    "Rewrite the query without it.",
)
TABLE_OPTION_INVALID = ProblemType(
    "table-option-invalid",
    422,
    "an option of a table is not valid",
    "An option in a table's `WITH` is missing or out of range, or not supported by its connector "
    "and format: none is ignored. `path` says where, `hint` has the nearest name.",
    "Correct the option that `detail` names, or leave it out.",
)
PATH_OUTSIDE_ROOT = ProblemType(
    "path-outside-root",
    422,
    "a path leaves the files root",
    "A path in a plan, or a `plan_uri`, leads out of the folder `files.root`.",
    "Use a path below that folder, relative to it.",
)
PLAN_URI_REFUSED = ProblemType(
    "plan-uri-refused",
    422,
    "the plan cannot be read from or written to this address",
    "`plan_uri`, or the address in a statement, is in no folder that `files.plan_locations` lists, "
    "is not a regular file, is larger than a body may be, or did not answer in time. Plans are "
    "never written to http addresses.",
    "Post the plan inline as `plan`, or correct the address.",
)
PLAN_EXISTS = ProblemType(
    "plan-exists",
    409,
    "a file exists at the plan's address",
    "COMPILE PLAN does not overwrite a plan unless `table.plan.force-recompile` is `true`, and "
    "never overwrites anything but a plan.",
    "Remove the file, write `IF NOT EXISTS`, or set the option.",
)
SESSION_NOT_FOUND = ProblemType(
    "session-not-found",
    404,
    "there is no session of this name",
    "No session of this name exists; sessions end after `limits.session_ttl_ms` without use.",
    "Name it in `POST /v1/statements`: a session begins with its first declaration or option.",
)
SESSION_LIMIT = _retry(
    "session-limit",
    429,
    "there are too many sessions, or this one is full",
    "`limits.sessions_max` sessions exist, or the declarations of this one are larger than "
    "`limits.session_size_max_bytes`.",
    "Close a session with `DELETE /v1/sessions/{session}`, drop tables, or raise the limit.",
)

# Of pipelines.
PIPELINE_NOT_FOUND = ProblemType(
    "pipeline-not-found",
    404,
    "there is no pipeline of this name",
    "No pipeline of this name exists, or it was deleted.",
    "`GET /v1/pipelines` lists those that exist.",
)
PIPELINE_DELETING = _retry(
    "pipeline-deleting",
    409,
    "the pipeline of this name is being deleted",
    "A pipeline of this name was deleted, and its query or state is not gone yet, nor the name "
    "free. `GET /v1/pipelines/{pipeline}` answers so, too, until it is 404.",
    "Wait as long as `Retry-After` says, and try again.",
)
PIPELINE_EXISTS = ProblemType(
    "pipeline-exists",
    409,
    "a pipeline of this name exists",
    "Names are unique, and creating a pipeline never replaces one.",
    "Choose another name, or delete the pipeline first.",
)
PIPELINE_LIMIT = _retry(
    "pipeline-limit",
    429,
    "there are too many pipelines",
    "`limits.pipelines_max` pipelines exist already.",
    "Delete one that is no longer needed, or raise the limit.",
)
PIPELINE_FAILED = ProblemType(
    "pipeline-failed",
    409,
    "the pipeline's query has failed",
    "A task failed, and running it again would not help: for example, a malformed change came and "
    "the pipeline's option `on_malformed` is `fail`.",
    "See `status.error` of the pipeline; correct the cause, then `POST .../start`.",
)
PIPELINE_CONFLICT = ProblemType(
    "pipeline-conflict",
    409,
    "the pipeline's state does not allow this",
    "The request does not fit the current state of the pipeline; `detail` names that state and the "
    "one that is needed.",
    "Bring the pipeline into the needed state first.",
)

SAVEPOINT_NOT_FOUND = ProblemType(
    "savepoint-not-found",
    404,
    "there is no savepoint of this id",
    "No savepoint of this id exists for the pipeline's name, or it cannot be restored because it "
    "was not completed.",
    "`GET /v1/pipelines/{pipeline}/savepoints` lists them, even if the pipeline was deleted.",
)
SAVEPOINT_UNUSABLE = ProblemType(
    "savepoint-unusable",
    409,
    "the savepoint cannot be used here",
    "Its files were changed, it has another format version, or it does not fit the plan: it has "
    "state that no operator of the plan keeps, or keeps in another form or of other rows or "
    "columns, a table would have rows that the plan writes otherwise, or it was taken with other "
    "sources. `detail` says which. Nothing was restored.",
    "Use another savepoint or correct the plan; `POST /v1/plans/validate` with `restore` tells "
    "what would come of it. `allow_non_restored_state` drops state that no operator keeps or that "
    "it would read as something else; `allow_outdated_rows` lets rows stay that the plan would "
    "write otherwise.",
)
SAVEPOINT_LIMIT = _retry(
    "savepoint-limit",
    429,
    "the pipeline has too many savepoints",
    "There are already `savepoints.per_pipeline_max` savepoints of pipelines of this name.",
    "Delete one that is no longer needed, or raise the limit.",
)

# Of what a pipeline holds.
OPERATOR_NOT_FOUND = ProblemType(
    "operator-not-found",
    404,
    "the pipeline has no operator of this id",
    "No stateful operator in the pipeline's plan has this id.",
    "`GET .../operators` lists them.",
)
STATE_NOT_FOUND = ProblemType(
    "state-not-found",
    404,
    "the operator has no state of this name",
    "The operator has no state of this name; or it is a history, which is read at "
    "`.../keys/{key}/history`; or the request is for a history and the operator keeps none.",
    "`GET .../operators/{operator}/states` lists them.",
)
TABLE_NOT_FOUND = ProblemType(
    "table-not-found",
    404,
    "the pipeline has no table of this name",
    "No sink in the pipeline's plan is a Redis or print table of this name; or, at ingress, no "
    "source is an ingress table of this name.",
    "`GET .../tables` lists both.",
)
KEY_NOT_FOUND = ProblemType(
    "key-not-found",
    404,
    "this key is unknown",
    "As of the last closed epoch nothing is kept for this key: it never had a row, all of its rows "
    "were retracted, or they expired and were removed.",
    "Check the key's type and spelling: `GET .../keys?prefix=` lists the keys that exist.",
)
KEY_EXPIRED = ProblemType(
    "key-expired",
    410,
    "the state of this key has expired",
    "The key still has entries in state, but all of them are past their TTL and so invisible. Once "
    "they have been removed, the answer is 404.",
    "Nothing: a new change brings the key back.",
)
KEY_MALFORMED = ProblemType(
    "key-malformed",
    422,
    "the key does not fit the key columns",
    "The text of the key does not fit the number or types of the key columns; `detail` names them.",
    "Write a key of one simple column as text, and any other as a JSON array: `/keys/-?key=[...]`.",
)

# Of ingress.
NOT_INGRESS = ProblemType(
    "not-an-ingress-table",
    409,
    "this table takes no changes over HTTP",
    "The source exists, but its connector is not `ingress`.",
    "Write to the files or topic that its connector reads.",
)
MALFORMED_CHANGES = ProblemType(
    "malformed-changes",
    422,
    "some lines are not valid changes of this table",
    "The pipeline's option `on_malformed` is `fail`, so a body with malformed lines is refused as "
    "a whole. `rejected` lists them by line number, with the reason but not the content. They are "
    "also counted and listed as dead letters, with `request_id` and the line as their position.",
    "Correct the lines that `rejected` names.",
)
BACKLOG_FULL = _retry(
    "backlog-full",
    429,
    "too many changes are waiting to be read",
    "The pipeline has not yet read `limits.ingress_backlog_max` accepted changes of the table.",
    "Wait as long as `Retry-After` says, then send the same changes again.",
)
TOKEN_NOT_FOUND = ProblemType(
    "token-not-found",
    404,
    "this is not a completion token of this pipeline",
    "The token does not come from an ingress reply of this pipeline, or was changed.",
    "Use the token exactly as the ingress reply has it.",
)
TOKEN_GONE = ProblemType(
    "token-gone",
    410,
    "this completion token belongs to a pipeline that was deleted",
    "The pipeline of this name was deleted and created again after it had accepted the changes.",
    "Send the changes again if they are still wanted.",
)

# Of the neighbours, and of ourselves.
STATE_LOST = ProblemType(
    "state-lost",
    409,
    "state and checkpoint do not belong together",
    "Redis is at another epoch than the query's checkpoint: Redis was lost or restored from an "
    "older dump, or the checkpoint was rewound. The pipeline does not run on wrong state.",
    "Restore the Redis that belongs to the checkpoint, or delete the pipeline and create it again "
    "with `restore`, from the savepoint that `status.error` names.",
)
STATE_CONFLICT = _retry(
    "state-conflict",
    503,
    "the state is being taken over",
    "A newer run of the pipeline owns the state, or Redis has just been restarted.",
    "Try again in a moment.",
)
STATE_UNAVAILABLE = _retry(
    "state-unavailable",
    503,
    "the state backend does not answer",
    "Redis cannot be reached, is loading its data, or refuses writes.",
    "Try again; `GET /readyz` says what is wrong.",
)
SPARK_UNAVAILABLE = _retry(
    "spark-unavailable",
    503,
    "Spark does not answer",
    "The Spark Connect server cannot be reached or did not answer in time.",
    "Try again; `GET /readyz` says what is wrong.",
)
STATE_CORRUPT = ProblemType(
    "state-corrupt",
    500,
    "stored state cannot be read",
    "Something in Redis is not in the form that this version writes. The pipeline is stopped, and "
    "nothing is overwritten.",
    "Report it with the request id.",
    is_internal=True,
)
INTERNAL = ProblemType(
    "internal",
    500,
    "something went wrong in the service",
    "An unexpected error. The service's log has more under the request id.",
    "Report it with the request id.",
    is_internal=True,
)

CATALOGUE: tuple[ProblemType, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, ProblemType)
)
BY_SLUG: dict[str, ProblemType] = {each.slug: each for each in CATALOGUE}


def as_markdown() -> str:
    """The text of `docs/problems.md`."""
    head = (
        "# Problems\n\n"
        "Every error reply is `application/problem+json` (RFC 9457). `type` is one of the\n"
        "addresses below, `title` is always the same for it, `detail` is about this occurrence.\n"
        "`hint`, `node_id`, `node_type`, `path` and `errors` are there where they help. Search\n"
        "the log for `request_id`. Row values never appear in replies or in the log.\n"
    )
    return head + "".join(f"\n{section(each)}" for each in CATALOGUE)


def section(problem: ProblemType) -> str:
    """One problem as Markdown."""
    retry = " The answer carries `Retry-After`." if problem.is_retriable else ""
    return (
        f"## {problem.slug}\n\n"
        f"**{problem.status}** · {problem.title}\n\n"
        f"{problem.meaning}{retry}\n\n"
        f"*What to do:* {problem.action}\n"
    )
