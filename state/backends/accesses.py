"""What is read of state and written to it: a closed set, in hashes, sorted sets and streams.

Import everything from `state.backends.interface`, which says what becomes of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# Reads. Each names a key group of the transaction; what `fetch` gives for it is in its docstring.


class HashGet(NamedTuple):
    """Values of these fields, in order, None where absent: `list[bytes | None]`."""

    key_group: int
    name: bytes
    fields: Sequence[bytes]


class HashScan(NamedTuple):
    """A whole hash: `dict[bytes, bytes]`. For hashes whose size is bounded."""

    key_group: int
    name: bytes


class HashKeys(NamedTuple):
    """The fields of a hash without their values, in no order: `list[bytes]`. Bounded, as above."""

    key_group: int
    name: bytes


class HashLength(NamedTuple):
    """The number of fields: `int`."""

    key_group: int
    name: bytes


class SortedTop(NamedTuple):
    """The members of highest score: `list[tuple[bytes, float]]`, highest first.

    Members of one score are ordered by their bytes.
    """

    key_group: int
    name: bytes
    limit: int
    maximum: float = math.inf
    """Only members with this score or a lower one."""


class SortedRange(NamedTuple):
    """Members with minimum <= score <= maximum: `list[tuple[bytes, float]]`, lowest first."""

    key_group: int
    name: bytes
    minimum: float
    maximum: float
    limit: int | None = None
    """At most so many, the lowest ones; None is all."""


class SortedScores(NamedTuple):
    """Scores of these members, in order, None where absent: `list[float | None]`."""

    key_group: int
    name: bytes
    members: Sequence[bytes]


class SortedLength(NamedTuple):
    """The number of members: `int`."""

    key_group: int
    name: bytes


class LexRange(NamedTuple):
    """Members of a sorted set by their bytes: `list[bytes]`, lowest first.

    For sets whose members all have one score; what comes of another set is not specified. A bound
    is written as Redis writes it: `[` and bytes includes them, `(` and bytes excludes them, a lone
    `-` is below and a lone `+` above every member. Bounds the wrong way round give nothing.
    """

    key_group: int
    name: bytes
    minimum: bytes
    maximum: bytes
    limit: int | None = None
    """At most so many, of the end where the result begins; None is all."""
    reverse: bool = False
    """Highest first; the bounds stay where they are."""


class LexCount(NamedTuple):
    """The number of members between bounds as those of `LexRange`: `int`."""

    key_group: int
    name: bytes
    minimum: bytes
    maximum: bytes


class StreamScan(NamedTuple):
    """Entries after an id, oldest first: `list[tuple[bytes, list[bytes]]]` (id, flat fields)."""

    key_group: int
    name: bytes
    after: bytes | None
    """Id of the last entry that is known; None begins at the oldest."""
    limit: int


class StreamLength(NamedTuple):
    """The number of entries: `int`."""

    key_group: int
    name: bytes


Read = (
    HashGet
    | HashScan
    | HashKeys
    | HashLength
    | SortedTop
    | SortedRange
    | SortedScores
    | SortedLength
    | LexRange
    | LexCount
    | StreamScan
    | StreamLength
)


# Writes. A closed set, because they are stored as pending and carried out later, by name. They are
# carried out in the order given. Empty ones are allowed and do nothing.


class HashPut(NamedTuple):
    """Set fields: `[field, value, field, value, ...]`."""

    name: bytes
    pairs: Sequence[bytes]


class HashReplace(NamedTuple):
    """Set fields, `[field, value, field, value, ...]`, and remove all others.

    For most of a hash this is cheaper than `HashPut`: a backend may take the new one as it is.
    """

    name: bytes
    pairs: Sequence[bytes]


class HashDelete(NamedTuple):
    """Remove fields."""

    name: bytes
    fields: Sequence[bytes]


class HashAdd(NamedTuple):
    """Add to a field that holds an integer (0 if absent)."""

    name: bytes
    field: bytes
    by: int


class SortedPut(NamedTuple):
    """Add members or set their scores: `[score, member, score, member, ...]`; no score is NaN."""

    name: bytes
    pairs: Sequence[float | bytes]


class SortedRemove(NamedTuple):
    """Remove members."""

    name: bytes
    members: Sequence[bytes]


class ScoreRemove(NamedTuple):
    """Remove the members with this score or a lower one; a whole number, at most 2^53."""

    name: bytes
    maximum: int


class LexRemove(NamedTuple):
    """Remove the members between two bounds; set and bounds are as for `LexRange`."""

    name: bytes
    minimum: bytes
    maximum: bytes


class Drop(NamedTuple):
    """Remove a whole structure, whatever its type."""

    name: bytes


class StreamAppend(NamedTuple):
    """Append entries, each a flat `[field, value, ...]`, and keep only the newest `max_length`.

    Ids are `<epoch>-<n>`, the same whenever the epoch is run again; n counts on from the last
    entry, from 0. `entry_id` gives a single entry an id of its own, above the last one's.
    """

    name: bytes
    entries: Sequence[Sequence[bytes]]
    max_length: int
    entry_id: bytes | None = None


class CounterAdd(NamedTuple):
    """Add to a counter that is a key of its own (0 if absent)."""

    name: bytes
    by: int


Write = (
    HashPut
    | HashReplace
    | HashDelete
    | HashAdd
    | SortedPut
    | SortedRemove
    | ScoreRemove
    | LexRemove
    | Drop
    | StreamAppend
    | CounterAdd
)


class ApplyStaged(NamedTuple):
    """Carry out the writes that a sink's task staged, and remove them.

    `name` is what `Ledger.stage` was given, `chunks` is what it returned.
    """

    name: bytes | str
    chunks: int


Effect = Write | ApplyStaged
"""What a sink does in the pipeline's own slot when an epoch closes; names are those in the slot,
with or without the `tailrace:{pipeline}:` in front."""
