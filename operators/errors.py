"""Errors of operators.

OperatorError                       code operator-*
├── AggregateFailed                 an aggregate function cannot go on
├── ChangelogError                  a changelog breaks a rule of changelogs
├── InvalidSpec                     an operator was asked for that can not be
│   └── FunctionUnavailable         a function of a user is not installed, or is none
├── LookupFailed                    a table that a look-up join asks does not answer
├── MissingRowTime                  a row's time is null where it decides
├── NoRoom                          an epoch emits more than its places can tell apart
├── NoWatermark                     a function of a user waits for event time, and none comes
├── UnavailableValue                a change lacks a value that did not change, and nothing has it
└── PrimaryKeyConflict              distinct records with one primary key, and that is an error

Messages name columns, counts and rules; never row values, and keys only hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class OperatorError(Exception):
    """Something that an operator can not go on with."""

    code = "operator-error"
    """Stable; for logs and the API."""


class ChangelogError(OperatorError):
    """A changelog breaks a rule of changelogs."""

    code = "operator-changelog"

    def __init__(self, position: int, rule: str) -> None:
        super().__init__(f"change {position}: {rule}")
        self.position = position
        """Index of the change, -1 for the end."""
        self.rule = rule


class AggregateFailed(OperatorError):
    """An aggregate function met rows that it cannot go on with."""

    code = "operator-aggregate-failed"


class InvalidSpec(OperatorError):
    """An operator was asked for that can not be."""

    code = "operator-invalid-spec"
    node_id: int | None = None
    """Id of the plan's node that asks for it; whoever knows the plan sets it, and what follows."""
    node_type: str | None = None
    """That node's type as the plan writes it."""
    path: str = ""
    """JSON pointer of the node, or of a property of it, into the plan."""


class LookupFailed(OperatorError):
    """A table that a look-up join asks does not answer, or holds what is no row of it."""

    code = "operator-lookup-failed"


class MissingRowTime(OperatorError):
    """A row's time is null where it decides; Flink ends the job, too."""

    code = "operator-missing-row-time"


class NoRoom(OperatorError):
    """An epoch emits more than its places can tell apart, as functions of tables need room, too."""

    code = "operator-no-room"


class NoWatermark(OperatorError):
    """A function of a user registers a timer in event time, and no watermark comes to it."""

    code = "operator-no-watermark"


class FunctionUnavailable(InvalidSpec):
    """A function of a user is not installed here, or is none."""

    code = "operator-function-unavailable"


class UnavailableValue(OperatorError):
    """A change does not carry a value, as it did not change, and no row is kept that has it."""

    code = "operator-unavailable-value"


class PrimaryKeyConflict(OperatorError):
    """Distinct records with one primary key, under ON CONFLICT DO ERROR."""

    code = "operator-conflict"

    def __init__(self, key: Sequence[str]) -> None:
        super().__init__(
            f"distinct records with one primary key ({', '.join(key)}): "
            "ON CONFLICT DO NOTHING would keep the first"
        )
