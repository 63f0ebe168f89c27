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
    "The service has API keys set, and the request carries none or one that it does not know.",
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
    "No route of the API has this path.",
    "See `/v1/openapi.json` for the routes.",
)
METHOD_NOT_ALLOWED = ProblemType(
    "method-not-allowed",
    405,
    "the method is not allowed here",
    "The path exists, but not with this method; `Allow` lists those it has.",
    "Use one of the methods in `Allow`.",
)
NOT_ACCEPTABLE = ProblemType(
    "not-acceptable",
    406,
    "no representation suits the Accept header",
    "The resource exists in other media types only; `detail` lists them.",
    "Ask for one of them, or send no `Accept`.",
)
PRECONDITION_FAILED = ProblemType(
    "precondition-failed",
    412,
    "the resource has changed",
    "`If-Match` names another version than the present one: somebody else was first.",
    "Get the resource again, and decide again.",
)
BODY_TOO_LARGE = ProblemType(
    "body-too-large",
    413,
    "the body is too large",
    "The body is larger than `limits.body_size_max_bytes`, or it has more lines than "
    "`limits.ingress_changes_max`. It is refused as soon as that is known.",
    "Send less in one request.",
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
    "nothing in its plan follows is refused, too: `path` is its place in the body.",
    "Correct what `errors` or `detail` names.",
)
CURSOR_INVALID = ProblemType(
    "cursor-invalid",
    422,
    "the cursor is not one of this list",
    "`cursor` was not given out by this list, or was changed.",
    "Start again without `cursor`, and follow `next`.",
)
IDEMPOTENCY_IN_PROGRESS = _retry(
    "idempotency-in-progress",
    409,
    "a request with this Idempotency-Key is being worked on",
    "An earlier request with the same key has not been answered yet.",
    "Wait, and send the same request again: it will get the first one's answer.",
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
    "The compiled plan breaks a rule that Flink has too, at load or at translation. `node_id`, "
    "`node_type` and `path` (a JSON pointer into the plan) say where.",
    "Correct the plan, or compile it again. `POST /v1/plans/validate` lists all findings at once.",
)
SQL_INVALID = ProblemType(
    "sql-invalid",
    422,
    "the script cannot be compiled",
    "The SQL has an error, or asks for something that is not planned here. `detail` begins with "
    "line and column, and names what is not supported; nothing is ever planned in part.",
    "Correct the script. `POST /v1/plans/compile` tries it without storing anything.",
)
SQL_TIMEOUT = ProblemType(
    "sql-timeout",
    422,
    "the script takes too long to plan",
    "Planning the script would take longer than `limits.planning_timeout_ms`, and was ended. "
    "`line` and `column` are those of the statement that it had come to.",
    "Split the script. A view or WITH entry is planned anew wherever it is named: name it once.",
)
PLAN_TIMEOUT = ProblemType(
    "plan-timeout",
    422,
    "the plan takes too long to be read",
    "Reading, checking, explaining or comparing the compiled plan would take longer than "
    "`limits.planning_timeout_ms`, and was ended. It says nothing against the plan.",
    "Split the plan into several pipelines, or raise the limit.",
)
PLANNER_BUSY = _retry(
    "planner-busy",
    503,
    "other scripts and plans are being worked on",
    "`limits.plannings_max` scripts or plans are being worked on, and none of them ended while "
    "this request waited.",
    "Wait as long as `Retry-After` says, and try again.",
)
PLAN_UNSUPPORTED = ProblemType(
    "plan-unsupported",
    422,
    "the plan needs something that is not built yet",
    "The plan is valid, but a node, expression, type, connector or format in it cannot be run "
    "here. Nothing is ever skipped. `node_id`, `node_type` and `path` say where.",
    "Rewrite the query without it.",
)
TABLE_OPTION_INVALID = ProblemType(
    "table-option-invalid",
    422,
    "an option of a table is not valid",
    "An option in a table's `WITH` is missing or out of range, or its connector and format do not "
    "honour it: none is passed over. `path` says where, `hint` the nearest name.",
    "Correct the option that `detail` names, or leave it out.",
)
PATH_OUTSIDE_ROOT = ProblemType(
    "path-outside-root",
    422,
    "a path leaves the files root",
    "A path in a plan, or a `plan_uri`, leads outside of `files.root`.",
    "Give a path below the files root, relative to it.",
)
PLAN_URI_REFUSED = ProblemType(
    "plan-uri-refused",
    422,
    "the plan cannot be read from or written to this address",
    "`plan_uri`, or the address in a statement, lies in no folder that `files.plan_locations` "
    "lists, names no regular file, holds more than a body may, or was not answered in time. "
    "http addresses are only read.",
    "Post the plan inline as `plan`, or correct the address.",
)
PLAN_EXISTS = ProblemType(
    "plan-exists",
    409,
    "there is something at the plan's address",
    "COMPILE PLAN does not overwrite a plan unless `table.plan.force-recompile` is `true`, and "
    "never overwrites what is no plan.",
    "Remove the file, write `IF NOT EXISTS`, or set the option.",
)
SESSION_NOT_FOUND = ProblemType(
    "session-not-found",
    404,
    "there is no session of this name",
    "No session of this name exists, or it was not used for `limits.session_ttl_ms`.",
    "Name it at `POST /v1/statements`: a session begins with its first declaration or option.",
)
SESSION_LIMIT = _retry(
    "session-limit",
    429,
    "there are as many sessions as may be, or this one is full",
    "`limits.sessions_max` sessions exist, or what the session declares is larger than "
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
PIPELINE_EXISTS = ProblemType(
    "pipeline-exists",
    409,
    "a pipeline of this name exists",
    "Names are unique; creating never replaces.",
    "Choose another name, or delete the pipeline first.",
)
PIPELINE_LIMIT = _retry(
    "pipeline-limit",
    429,
    "there are as many pipelines as may be",
    "`limits.pipelines_max` pipelines exist already.",
    "Delete one that is no longer needed, or raise the limit.",
)
PIPELINE_FAILED = ProblemType(
    "pipeline-failed",
    409,
    "the pipeline's query has failed",
    "A task failed in a way that running it again would not help, such as a malformed change where "
    "the pipeline's option says to fail.",
    "See `status.error` of the pipeline; correct the cause, then `POST .../start`.",
)
PIPELINE_CONFLICT = ProblemType(
    "pipeline-conflict",
    409,
    "the pipeline's state does not allow this",
    "What was asked does not fit the present state of the pipeline, which `detail` names together "
    "with the one that is needed.",
    "Bring the pipeline into the state that is needed first.",
)

SAVEPOINT_NOT_FOUND = ProblemType(
    "savepoint-not-found",
    404,
    "there is no savepoint of this id",
    "No savepoint of this id exists for the pipeline's name, or, where it is to be restored, it "
    "was not taken to its end.",
    "`GET /v1/pipelines/{pipeline}/savepoints` lists them, also of a pipeline that was deleted.",
)
SAVEPOINT_UNUSABLE = ProblemType(
    "savepoint-unusable",
    409,
    "the savepoint cannot be used here",
    "Its files are not what was written, it is of another format version, or it does not fit the "
    "plan: it has state that no operator keeps, or keeps in another form or of other columns, or "
    "it was taken of other sources. `detail` says which. Nothing was restored.",
    "Use another savepoint or correct the plan; `allow_non_restored_state` drops state that no "
    "operator keeps, or would read as something else.",
)
SAVEPOINT_LIMIT = _retry(
    "savepoint-limit",
    429,
    "the pipeline has as many savepoints as it may have",
    "There are `savepoints.per_pipeline_max` savepoints of pipelines of this name.",
    "Delete one that is no longer needed, or raise the limit.",
)

# Of what a pipeline holds.
OPERATOR_NOT_FOUND = ProblemType(
    "operator-not-found",
    404,
    "the pipeline has no operator of this id",
    "No stateful operator of the pipeline's plan has this id.",
    "`GET .../operators` lists them.",
)
STATE_NOT_FOUND = ProblemType(
    "state-not-found",
    404,
    "the operator has no state of this name",
    "The operator has registered no state of this name; or it is a history, which is read at "
    "`.../keys/{key}/history`; or a history is asked for where none is kept.",
    "`GET .../operators/{operator}/states` lists them.",
)
TABLE_NOT_FOUND = ProblemType(
    "table-not-found",
    404,
    "the pipeline has no table of this name",
    "No sink of the pipeline's plan is a Redis table of this name; or, at ingress, no source is an "
    "ingress table of this name.",
    "`GET .../tables` lists both.",
)
KEY_NOT_FOUND = ProblemType(
    "key-not-found",
    404,
    "this key is unknown",
    "No epoch that is closed has left anything for this key in what was asked for, or all of it "
    "has been retracted, or has expired and been removed.",
    "Check the key's type and spelling: `GET .../keys?prefix=` lists those that exist.",
)
KEY_EXPIRED = ProblemType(
    "key-expired",
    410,
    "what is kept of this key has expired",
    "The key has something in state, but the state's TTL has passed for all of it, so it is no "
    "longer seen. Once it is removed too, the answer is 404.",
    "Nothing: a new change brings the key back.",
)
KEY_MALFORMED = ProblemType(
    "key-malformed",
    422,
    "this is no key of that type",
    "The key's text does not fit the key columns' number or types, which `detail` names.",
    "Write simple keys as text and all others as a JSON array: `/keys/-?key=[...]`.",
)

# Of ingress.
NOT_INGRESS = ProblemType(
    "not-an-ingress-table",
    409,
    "this table takes no changes over HTTP",
    "The source exists, but its connector is not `ingress`.",
    "Bring changes in the way that its connector has.",
)
MALFORMED_CHANGES = ProblemType(
    "malformed-changes",
    422,
    "some lines are no changes of this table",
    "The pipeline's option `on_malformed` is `fail`, so a body with malformed lines is refused as "
    "a whole. `rejected` lists them by line number, with the reason but not the content. They are "
    "counted and listed as dead letters, too: their position names `request_id` and the line.",
    "Correct the lines that `rejected` names.",
)
BACKLOG_FULL = _retry(
    "backlog-full",
    429,
    "the pipeline has not read what it was given",
    "`limits.ingress_backlog_max` accepted changes of the table wait to be read.",
    "Wait as long as `Retry-After` says, then send the same changes again.",
)
TOKEN_NOT_FOUND = ProblemType(
    "token-not-found",
    404,
    "this is no completion token of this pipeline",
    "The token was not given out by ingress of this pipeline, or was changed.",
    "Use the token of the ingress answer as it is.",
)
TOKEN_GONE = ProblemType(
    "token-gone",
    410,
    "this completion token belongs to a pipeline that was deleted",
    "The pipeline of this name is another one than the one that took the changes in.",
    "Send the changes again if they are still wanted.",
)

# Of the neighbours, and of ourselves.
STATE_LOST = ProblemType(
    "state-lost",
    409,
    "state and checkpoint do not belong together",
    "Redis holds another epoch than the query's checkpoint: Redis was lost or restored from an "
    "older dump, or the checkpoint was rewound. The pipeline is not run on wrong state.",
    "Restore the Redis that belongs to the checkpoint, or delete the pipeline and create it anew "
    "with `restore`, from the savepoint that `status.error` names.",
)
STATE_CONFLICT = _retry(
    "state-conflict",
    503,
    "the state is being taken over",
    "A newer run of the pipeline owns the state, or Redis restarted just now.",
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
    "Something in Redis is not what this version writes. The pipeline is stopped and the evidence "
    "kept.",
    "Report it with the request id.",
    is_internal=True,
)
INTERNAL = ProblemType(
    "internal",
    500,
    "something went wrong in the service",
    "An error that the service did not expect. Its log tells more under the request id.",
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
        "Every error is answered as `application/problem+json` (RFC 9457): `type` is one of the\n"
        "addresses below, `title` is the same each time, `detail` is about this occurrence, and\n"
        "`hint`, `node_id`, `node_type`, `path`, `errors` are there where they help. `request_id`\n"
        "finds the lines of the log. Row values are never in an answer or in the log.\n"
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
