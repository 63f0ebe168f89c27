"""What of Spark's errors is told, to whom, and what is kept back."""

from __future__ import annotations

import grpc
import pytest

from service.runtime.errors import QueryFailed, SessionLost, SparkUnavailable, StartFailed
from service.runtime.spark_errors import query_error, translated

WORKER = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] \
An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/opt/site-packages/operators/worker.py", line 25, in run_partition
    raise ValueError(row)
  File "/opt/site-packages/operators/batch.py", line 7, in fold
{raised}
 SQLSTATE: 38000
"""


def test_code_and_message_of_our_own_errors_are_told() -> None:
    text = WORKER.format(
        raised="operators.worker.WorkerError: [tailrace:state-lost] marker 3, checkpoint 5\nsecret"
    )

    found = query_error(text)

    assert (found.code, found.message) == ("state-lost", "marker 3, checkpoint 5")


PLAN = """\
=== Streaming Query ===
Identifier: [id = 1, runId = 2]

Logical Plan:
WriteToMicroBatchDataSource tailrace
+- ~Filter CASE WHEN isnull(f0#1) THEN cast(raise_error(USER_RAISED_EXCEPTION, map(errorMessage, \
[tailrace:sink-refused] column k of sink t is null), NullType) as boolean) ELSE true END
"""
CLASS = "org.apache.spark.sql.streaming.StreamingQueryException: "


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "[USER_RAISED_EXCEPTION] [tailrace:sink-refused] column j of sink t is null SQLSTATE: "
            "P0001",
            "sink-refused",
            "column j of sink t is null",
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. SQLSTATE: 40000",
            "query.failed",
            "Spark ended the query: CONCURRENT_STREAM_LOG_UPDATE",
        ),
        (
            "Python worker exited unexpectedly (crashed). Consider setting 'spark.x'",
            "query.worker-lost",
            "Spark ended the query: a Python worker ended in the midst of its work, as one does "
            "that is killed where memory is short; the log of the Connect server says more",
        ),
    ],
)
def test_an_error_that_a_plan_could_have_raised_is_not_the_one_it_did_raise(
    text: str, code: str, message: str
) -> None:
    """Else a lost worker would be the sink's refusal, which no restart helps."""
    trace = f"{CLASS}{text}\n{PLAN}\n\tat a.B.c(D.scala:1)"

    found = query_error(f"(STREAM_FAILED) {text}\n{PLAN}\n\nJVM stacktrace:\n{trace}")

    assert (found.code, found.message) == (code, message)


def test_foreign_error_is_told_by_its_kind_only() -> None:
    found = query_error(WORKER.format(raised="ValueError: row ('secret', 1) is odd"))

    assert (found.code, found.message) == ("query.failed", "Spark ended the query: ValueError")
    assert "secret" not in str(found)


def test_log_gets_places_of_code_and_kinds_of_errors_but_no_messages() -> None:
    found = query_error(WORKER.format(raised="pyarrow.lib.ArrowTypeError: secret"))

    assert found.places == (
        "worker.py:25 run_partition",
        "batch.py:7 fold",
        "pyarrow.lib.ArrowTypeError",
    )


def test_error_of_the_jvm_is_told_by_its_class() -> None:
    found = query_error("[STATE_STORE.CANNOT_LOAD] An error occurred: secret")

    assert found.message == "Spark ended the query: STATE_STORE.CANNOT_LOAD"


def test_a_worker_that_does_not_come_up_is_told_with_what_to_look_at() -> None:
    found = query_error(
        "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat a.B.c(D:1)"
    )

    assert found.code == "query.worker-not-started"
    assert found.message.startswith("Spark ended the query: no Python worker was up within")


def test_message_is_bounded() -> None:
    assert len(query_error("[tailrace:x] " + "a" * 10_000).message) == 500


def test_text_without_anything_to_hold_on_to_is_still_an_error() -> None:
    assert query_error("").message == "Spark ended the query: an unknown error"


def test_why_there_is_no_answer_is_told_without_addresses() -> None:
    class Unavailable(grpc.RpcError):
        def __str__(self) -> str:
            return "last error: ipv4:10.0.0.7:15002: Failed: Connection refused (111)\ntoken=secret"

    with pytest.raises(SparkUnavailable) as raised, translated():
        raise Unavailable

    assert str(raised.value) == "Spark Connect does not answer: connection refused"


def _connect_error(condition: str | None, status: grpc.StatusCode) -> Exception:
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    error: Exception = SparkConnectGrpcException(
        message=f"[{condition}] secret" if condition else "secret",
        errorClass=condition,
        messageParameters={} if condition else None,
        grpc_status_code=status,
    )
    return error


# Of pandas, which we hand no rows.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
@pytest.mark.parametrize(
    ("condition", "status", "expected", "code"),
    [
        ("INVALID_HANDLE.SESSION_CLOSED", "INTERNAL", SessionLost, "spark.session-lost"),
        ("INVALID_HANDLE.SESSION_CHANGED", "INTERNAL", SessionLost, "spark.session-lost"),
        ("NO_ACTIVE_SESSION", "UNKNOWN", SessionLost, "spark.session-lost"),
        (None, "UNAVAILABLE", SparkUnavailable, "spark.unavailable"),
        (None, "DEADLINE_EXCEEDED", SparkUnavailable, "spark.unavailable"),
        (
            "CONNECT_INVALID_PLAN.STREAMING_QUERY_RUN_ID_MISMATCH",
            "INTERNAL",
            QueryFailed,
            "query.not-found",
        ),
        ("STREAM_FAILED", "INTERNAL", QueryFailed, "query.failed"),
    ],
)
def test_errors_of_the_client_become_ours(
    condition: str | None, status: str, expected: type[Exception], code: str
) -> None:
    error = _connect_error(condition, grpc.StatusCode[status])

    with pytest.raises(expected) as raised, translated():
        raise error

    assert getattr(raised.value, "code", None) == code
    assert "secret" not in str(raised.value)


# Of pandas, which we hand no rows.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_refused_definition_is_a_failed_start() -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(StartFailed, match="UNRESOLVED_COLUMN") as raised, translated():
        raise AnalysisException("[UNRESOLVED_COLUMN] secret")

    assert "secret" not in raised.value.message


def test_other_value_errors_are_not_taken_for_sparks() -> None:
    with pytest.raises(ValueError, match="ours"), translated():
        raise ValueError("ours")


PYTHON_FULL = """\
  File "/opt/site-packages/service/runtime/sinks/filesystem.py", line 110, in _stage
    os.fsync(file.fileno())
OSError: [Errno 28] No space left on device

The above exception was the direct cause of the following exception:

service.runtime.dataflow_errors.SinkUnavailable: [tailrace:sink-unavailable] files of sink o \
cannot be written in "o": No space left on device
"""
JVM_FULL = """\
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
NO_PYTHON = """\
Caused by: java.io.IOException: Cannot run program "/opt/worker_python.sh": error=13, Permission \
denied
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""
JVM_REFUSED = JVM_FULL.replace("No space left on device", "/x (Permission denied)")
NOTHING_THERE = NO_PYTHON.replace("13, Permission denied", "2, No such file or directory")
NO_MODULE = "Error from python worker:\n  No module named operators\n"
OF_A_ROW = "ValueError: Permission denied, No space left on device"


@pytest.mark.parametrize(
    ("text", "code", "cause", "part"),
    [
        (PYTHON_FULL, "sink-unavailable", "ENOSPC", "No space left on device"),
        # As Spark tells of a task: what was raised first is not in the text.
        (
            '[tailrace:sink-refused] files of sink o cannot be written in "o": Not a directory '
            "(ENOTDIR)",
            "sink-refused",
            "ENOTDIR",
            "files of sink o",
        ),
        (JVM_FULL, "query.failed", "ENOSPC", "No space left on device"),
        (JVM_REFUSED, "query.failed", "EACCES", "Permission denied"),
        (NO_PYTHON, "query.worker-not-started", "EACCES", "Permission denied"),
        (NOTHING_THERE, "query.worker-not-started", "ENOENT", "No such file"),
        (NO_MODULE, "query.worker-not-started", None, "ended as it started"),
        (
            "pyarrow.lib.ArrowTypeError: secret",
            "query.failed",
            "pyarrow.lib.ArrowTypeError",
            "Arrow",
        ),
        ("[STATE_STORE.CANNOT_LOAD] secret", "query.failed", "STATE_STORE.CANNOT_LOAD", "STATE"),
        ("[tailrace:malformed-change] s: f:3", "malformed-change", None, "f:3"),
        # What a row's values say is no error of the system.
        (OF_A_ROW, "query.failed", "ValueError", "ValueError"),
        ("", "query.failed", None, "unknown"),
    ],
)
def test_the_cause_is_named(text: str, code: str, cause: str | None, part: str) -> None:
    found = query_error(text)

    assert (found.code, found.cause) == (code, cause)
    assert part in found.message
    assert "secret" not in found.message
