"""From what Spark says to errors that we can act on and may show.

Spark's texts carry worker tracebacks, plans and, in the message of a Python error, whatever its
author put there, row values too. So nothing of them is shown but what our own code wrote behind a
`[tailrace:<code>]` mark, and Spark's error class; the log gets places of code in addition, never
messages.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.runtime.dataflow_errors import code_in
from service.runtime.errors import QueryFailed, SessionLost, SparkUnavailable, StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

_SESSION_OVER = (
    "INVALID_HANDLE.SESSION_CLOSED",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "INVALID_HANDLE.SESSION_CHANGED",
    "NO_ACTIVE_SESSION",
)
_QUERY_UNKNOWN = (
    "CONNECT_INVALID_PLAN.STREAMING_QUERY_NOT_FOUND",
    "CONNECT_INVALID_PLAN.STREAMING_QUERY_RUN_ID_MISMATCH",
)
_NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
_REASONS = (
    "connection refused",
    "connection reset",
    "dns resolution failed",
    "handshake failed",
    "network is unreachable",
    "no route to host",
    "socket closed",
    "timed out",
    "deadline exceeded",
    "unauthenticated",
)
"""What gRPC may say of a call without an answer that tells why, and no address or token."""
_MESSAGE_MAX = 500
_PLACES_MAX = 8
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
WORKER_NOT_STARTED, WORKER_LOST = "query.worker-not-started", "query.worker-lost"
_KNOWN = {
    "Python worker failed to connect back": (
        WORKER_NOT_STARTED,
        "no Python worker was up within Spark's 10 s: the machine of the Connect server has too "
        "much to do, or cannot start Python; its log says more",
    ),
    "Error from python worker": (
        WORKER_NOT_STARTED,
        "a Python worker ended as it started: its Python lacks what a worker needs; the log of "
        "the Connect server says what",
    ),
    "Cannot run program": (
        WORKER_NOT_STARTED,
        "a Python worker cannot be started: its program cannot be run there",
    ),
    "Python worker exited unexpectedly": (
        WORKER_LOST,
        "a Python worker ended in the midst of its work, as one does that is killed where memory "
        "is short; the log of the Connect server says more",
    ),
}
"""Texts of Spark's own that hold nothing else, their codes, and what they mean."""
_ERRNO = re.compile(r"(?:Error|Exception): \[[Ee]rrno (\d+)\]")
"""How Python tells an error of the system."""
_NAMED = re.compile(r"\((E[A-Z0-9]+)\)$")
"""How our own messages tell one; what was raised before it is not always in the text."""
_OF_SYSTEM = {
    each: os.strerror(each)
    for each in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO),
        *(errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOEXEC),
    )
}
_OF_JAVA = re.compile(
    r"java\.[\w.]+(?:Exception|Error): [^\n]*?(?:error=(\d+), |("
    + "|".join(map(re.escape, _OF_SYSTEM.values()))
    + r"))"
)
"""How the JVM tells one: of a program that cannot be run by number, of a file by the text."""
_OF_EVERY_QUERY = "org.apache.spark.sql.streaming.StreamingQueryException"
"""What Spark wraps all errors of queries in."""
_RAISED = re.compile(
    r"^(?:Caused by: )?([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure)):", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class QueryError:
    """Why a query ended: to be shown (`code`, `message`) and to be logged (`places`)."""

    code: str
    message: str
    cause: str | None = None
    """What lies below: the name of a system's error, or the class of one of Spark's or Python's;
    None where the code is ours and says all."""
    places: tuple[str, ...] = ()
    """Frames of a worker's traceback, innermost last, then the kinds of error raised."""


def query_error(text: str) -> QueryError:
    """What may be known outside of the text of a query's exception."""
    places = [
        f"{path.rpartition('/')[2]}:{line} {function}"
        for path, line, function in _PLACE.findall(text)
    ]
    raised = list(dict.fromkeys(_RAISED.findall(text)))
    evidence = (*places[-_PLACES_MAX:], *raised[-_PLACES_MAX:])
    number = _system_error(text)
    cause = None if number is None else errno.errorcode.get(number, str(number))
    if (ours := code_in(text)) is not None:
        code, message = ours
        named = _NAMED.search(message)
        if named is not None and named[1] in errno.errorcode.values():
            cause = named[1]
        return QueryError(code, message[:_MESSAGE_MAX] or code, cause, evidence)
    said = "" if number is None else f" ({os.strerror(number)})"
    for known, (code, meaning) in _KNOWN.items():
        if known in text:
            return QueryError(code, f"Spark ended the query: {meaning}{said}", cause, evidence)
    found = _ERROR_CLASS.search(text)
    telling = [each for each in raised if each != _OF_EVERY_QUERY]
    kind = (telling[-1] if telling else (found[1] if found else ""))[:_MESSAGE_MAX]
    message = f"Spark ended the query: {kind or 'an unknown error'}{said}"
    return QueryError(QueryFailed.code, message, cause or kind or None, evidence)


def _system_error(text: str) -> int | None:
    """The number of the first error of the system, in files or processes, that a text tells of."""
    if (of_python := _ERRNO.search(text)) is not None:
        return int(of_python[1])
    of_java = _OF_JAVA.search(text)
    if of_java is None:
        return None
    if of_java[1] is not None:
        return int(of_java[1])
    return next(number for number, told in _OF_SYSTEM.items() if told == of_java[2])


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the Connect client into ours.

    Raises:
        SparkUnavailable: no answer came.
        SessionLost: the server, or the client, says that the session is over.
        StartFailed: the query's definition is refused; asking again gives the same.
        QueryFailed: anything else; `query.not-found` where the server does not know the query.
    """
    import grpc
    from pyspark.errors import (
        AnalysisException,
        PySparkAssertionError,
        PySparkException,
        PySparkTypeError,
        PySparkValueError,
    )

    try:
        yield
    except grpc.RpcError as error:
        raise _unanswered(error) from error
    except PySparkAssertionError as error:
        # The client says so when an answer comes from another incarnation of the server.
        raise SessionLost("the Spark Connect server has forgotten our session") from error
    except (AnalysisException, PySparkTypeError, PySparkValueError) as error:
        raise StartFailed(
            f"Spark refuses the query: {_class_of(error) or type(error).__name__}"
        ) from error
    except PySparkException as error:
        raise _from_spark(error) from error
    except ValueError as error:
        if "closed channel" not in str(error):
            raise
        raise SparkUnavailable("the connection to Spark Connect was closed") from error


def _from_spark(error: Exception) -> Exception:
    condition = _class_of(error)
    if condition.startswith(_SESSION_OVER):
        return SessionLost("the Spark Connect server has forgotten our session")
    if condition.startswith(_QUERY_UNKNOWN):
        return QueryFailed("Spark does not know the query", code="query.not-found")
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    if status is not None and status.name in _NO_ANSWER:
        return _unanswered(error)
    found = query_error(str(error))
    return QueryFailed(found.message, code=found.code, cause=found.cause)


def _unanswered(error: Exception) -> SparkUnavailable:
    """What may be told of a call that was not answered, in one line."""
    said = str(error).lower()
    reason = next((each for each in _REASONS if each in said), "")
    told = "Spark Connect does not answer"
    return SparkUnavailable(f"{told}: {reason}" if reason else told)


def _class_of(error: Exception) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    if condition:
        return str(condition)
    found = _ERROR_CLASS.search(str(error))
    return found[1] if found else ""
