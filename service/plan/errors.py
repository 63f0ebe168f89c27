"""Errors of compiled plans: what a plan says that cannot be.

PlanError                  asked wrongly: the document, a node or a value in it
├── PlanSyntaxError        not JSON, empty, or not an object
├── PlanTooLarge           over a limit of size, depth or count
├── UnknownFlinkVersion    written by a Flink that nobody knows
├── InvalidProperty        a property is missing, null, unknown or of another JSON type
├── UnknownNodeType        no such node, or not in this version
├── InvalidGraph           ids or edges do not make a graph of operators
├── InvalidStateMetadata   `state` of a node: count, index or time to live
├── InvalidType            a logical type that is none
├── InvalidExpression      a RexNode that is none, or that points outside its input
├── UnresolvedTable        a table of which the plan has only the name
└── SchemaMismatch         a table that is another one in the catalogue
DurationError              the text is no duration; a plan error gives it a place
PlanTimeout                the plan may be right, but takes longer than a request may
"""

from __future__ import annotations

from typing import Self


class PlanError(Exception):
    """A plan that cannot be what it says; names the node and the place in the document."""

    code = "plan"

    def __init__(
        self, message: str, *, hint: str = "", node_id: int | None = None, path: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.node_id = node_id
        """Id of the node that is meant; None where it is the document or an edge."""
        self.node_type: str | None = None
        """That node's type as the plan writes it, once the document has been read."""
        self.path = path
        """JSON pointer (RFC 6901) into the document; "" is the document itself."""

    def __str__(self) -> str:
        place = f" (node {self.node_id})" if self.node_id is not None else ""
        at = f" at {self.path}" if self.path else ""
        return f"{self.message}{place}{at}"

    def at_node(self, node_id: int) -> Self:
        """The same error, known to be in this node."""
        self.node_id = node_id if self.node_id is None else self.node_id
        return self


class PlanSyntaxError(PlanError):
    """The document is not JSON, is empty, or is no JSON object."""

    code = "plan.syntax"


class PlanTooLarge(PlanError):
    """The document is over a limit that keeps one request from taking the service."""

    code = "plan.too-large"


class UnknownFlinkVersion(PlanError):
    """`flinkVersion` names no release."""

    code = "plan.unknown-flink-version"


class InvalidProperty(PlanError):
    """A property is missing, null, unknown or of another JSON type than it must be."""

    code = "plan.invalid-property"


class UnknownNodeType(PlanError):
    """No node of this name and version."""

    code = "plan.unknown-node-type"


class InvalidGraph(PlanError):
    """Ids and edges do not make a graph whose every node has the inputs it needs."""

    code = "plan.invalid-graph"


class InvalidStateMetadata(PlanError):
    """The `state` of a node does not fit its inputs, or a time to live is none."""

    code = "plan.invalid-state"


class InvalidType(PlanError):
    """A logical type that is none."""

    code = "plan.invalid-type"


class InvalidExpression(PlanError):
    """A RexNode that is none, or that refers to what is not there."""

    code = "plan.invalid-expression"


class UnresolvedTable(PlanError):
    """The plan has only the name of a table, and no catalogue has it."""

    code = "plan.unresolved-table"


class SchemaMismatch(PlanError):
    """The schema of a table in the plan is not the one in the catalogue."""

    code = "plan.schema-mismatch"


class DurationError(ValueError):
    """The text is not a duration, or one that no 64-bit count of milliseconds can hold."""


class PlanTimeout(Exception):
    """Work on a plan takes longer than one request may; says nothing about the plan itself."""

    code = "plan.timeout"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
