"""Errors of building and running a dataflow.

    DataflowError                 asked wrongly: found by `check_plan` and again by `start_query`
    ├── UnsupportedNode           a node of the plan, or a type in it, that is not executed yet
    ├── UnsupportedConnector      no such connector, format or ability here, or its jar is missing
    ├── InvalidTableOption        a table's option is missing, not honoured or out of range
    ├── InvalidPipelineOption     an option of the pipeline that nothing in its plan follows
    ├── InvalidNodeOption         a value in a node's configuration that its option does not have
    ├── PathOutsideRoot           a path that leaves the folder of files that the service may touch
    └── UnsupportedChangelog      a sink that cannot take the changes that the plan sends to it
    TaskFailure                   raised in a Spark worker; its text starts with `[tailrace:<code>]`
    ├── MalformedChange           a line that is no change, where the pipeline is to fail on it
    ├── SourceUnavailable         a source's neighbour does not answer: the query starts again
    ├── SourceChanged             a file or stream no longer holds what an epoch was planned on
    ├── SourceSplit               an epoch is not one prefix of a table, as state must have it
    ├── SinkRefused               a change that the sink's contract, database or broker forbids
    └── SinkUnavailable           a sink's database or broker is away: the query starts again
Spark carries an error of a worker to the service as text only, so the code is put in the text and
`code_in` finds it there.
"""

from __future__ import annotations

import re

_CODE = re.compile(
    r"(?:^|[:\])] )\[tailrace:([a-z0-9.-]+)\] ?([^\n]*?)(?: SQLSTATE: \w{5})?$", re.MULTILINE
)
"""A mark at the beginning of a message. Any error of a query is told with its plan, where columns
that raise errors stand with their marks, whether they have raised one or not."""


class DataflowError(Exception):
    """A plan that cannot run as it is asked; names the node and the place in the document."""

    code = "dataflow"

    def __init__(
        self, message: str, *, hint: str = "", node_id: int | None = None, path: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.node_id = node_id
        self.node_type: str | None = None
        self.path = path


class UnsupportedNode(DataflowError):
    """A node of the plan, or the type of a column, that is not executed yet."""

    code = "dataflow.unsupported-node"


class UnsupportedConnector(DataflowError):
    """A connector, format or table ability that does not exist here."""

    code = "dataflow.unsupported-connector"


class InvalidTableOption(DataflowError):
    """A table option that is missing, malformed, out of range, or none that is honoured."""

    code = "dataflow.invalid-table-option"


class InvalidNodeOption(DataflowError):
    """An option in a node's `configuration` has a value that is none of its own."""

    code = "dataflow.invalid-node-option"


class InvalidPipelineOption(DataflowError):
    """An option of the pipeline that nothing in its plan follows; `path` is that of the request."""

    code = "dataflow.invalid-pipeline-option"

    def __init__(
        self, message: str, *, option: str, hint: str, node_id: int, node_type: str
    ) -> None:
        super().__init__(message, hint=hint, node_id=node_id, path=f"/options/{option}")
        self.node_type = node_type


class PathOutsideRoot(DataflowError):
    """A path that leads out of the files root, by name or by symbolic link."""

    code = "dataflow.path-outside-root"


class UnsupportedChangelog(DataflowError):
    """The sink takes fewer kinds of change than the plan sends."""

    code = "dataflow.unsupported-changelog"


class TaskFailure(Exception):
    """What ends an epoch in a worker; reaches the service inside the query's exception."""

    code = "task-failure"

    def __init__(self, message: str) -> None:
        super().__init__(f"[tailrace:{self.code}] {message}")
        self.message = message


class MalformedChange(TaskFailure):
    """A line that is no change of its table; the pipeline's option says to fail."""

    code = "malformed-change"


class SourceUnavailable(TaskFailure):
    """What a source reads from does not answer; a new run will find out."""

    code = "source-unavailable"


class SourceChanged(TaskFailure):
    """A source does not hold what it held when the epoch was planned: a replay would differ."""

    code = "source-changed"


class SourceSplit(TaskFailure):
    """Spark read a table to two ends in one epoch, or not to the one that it planned.

    Then nothing is closed: the marker has one end a table, and what lies before it is let go.
    """

    code = "source-split"


class SinkRefused(TaskFailure):
    """A change that breaks what the sink promises, such as an update at an append-only sink."""

    code = "sink-refused"


class SinkUnavailable(TaskFailure):
    """A sink's database or broker does not answer, or not as it should; a new run will find out."""

    code = "sink-unavailable"


def code_in(text: str) -> tuple[str, str] | None:
    """The code and message that a worker or a column put into an error text, the first one found.

    >>> code_in("ValueError: [tailrace:state-lost] marker 3, checkpoint 5")
    ('state-lost', 'marker 3, checkpoint 5')
    >>> code_in("raise_error(USER_RAISED_EXCEPTION, map(errorMessage, [tailrace:x] y), NullType)")
    """
    found = _CODE.search(text)
    return (found[1], found[2].strip()) if found else None
