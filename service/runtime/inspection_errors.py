"""Errors of looking into a pipeline's state.

    InspectionError
    ├── OperatorNotFound      no stateful operator has this id
    ├── StateNotFound         no state that is read by key has this name
    ├── TableNotFound         no table has this name
    ├── KeyMalformed          the text is no key of these columns
    ├── KeyNotFound           the key has no row in the last closed epoch
    └── KeyExpired            all rows of the key are older than the TTL
Messages never hold values of rows or keys.
"""

from __future__ import annotations


class InspectionError(Exception):
    """Base of the tree; never raised itself."""

    code = "inspection"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OperatorNotFound(InspectionError):
    """No stateful operator has this id."""

    code = "inspection.operator-not-found"


class StateNotFound(InspectionError):
    """The operator has no state of this name that is read by key."""

    code = "inspection.state-not-found"


class TableNotFound(InspectionError):
    """No table has this name."""

    code = "inspection.table-not-found"


class KeyMalformed(InspectionError):
    """The text is no key of these columns."""

    code = "inspection.key-malformed"


class KeyNotFound(InspectionError):
    """The key has no row in the last closed epoch."""

    code = "inspection.key-not-found"


class KeyExpired(InspectionError):
    """All rows of the key are older than the TTL."""

    code = "inspection.key-expired"
