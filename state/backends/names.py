"""Names of the keys of state in Redis.

    tailrace:{pipeline:node:key group}:<name>    state of one key group
    tailrace:{pipeline}:<name>                   the pipeline's own slot

What stands in braces is the hash tag: all keys of one tag lie in one slot of a Redis Cluster, so
each function call stays in one.
"""

from __future__ import annotations

from functools import lru_cache

REGISTRY = b"registry"
"""What a pipeline remembers of its states, in its slot: see `state.registry`."""
RESTORING = b"restoring"
"""What an unfinished restore left in the pipeline's slot: see `state.savepoint`."""
ANSWERS = b"idempotency:"
"""What the names of answers begin with, which the service keeps in the pipeline's slot for requests
that are sent again. They outlive the pipeline, and end by themselves."""
STATE_FORMAT = 4
"""Format of what is stored; `tailrace.lua` has the same, reads 2 and 3, and refuses others."""
SAVED_FORMAT = 2
"""Format of state in savepoints: 4 with the segments of histories put together is 2."""
STATE_FORMAT_WITH_PARTS = 5
"""Format of a key group while parts of a commit wait, so that versions without them refuse it."""
OFFERED = b"offered"
"""What a commit brings; it is there inside the transaction of the commit only."""
PART = b"#"
"""Behind `offered` and `pending`, before a number from 1: a hash that replaces another one."""
PARTS_MAX = 16
"""Parts of a commit."""
RESERVED = frozenset(
    {b"meta", b"pending", OFFERED, b"run", b"marker", b"stages", REGISTRY, RESTORING}
)
"""Names that belong to the protocol; no operator or sink may write them."""
_PARTS = (b"pending" + PART, OFFERED + PART)
_SEPARATORS = frozenset("{}:")


def is_reserved(name: bytes) -> bool:
    """Whether a name in a key group or slot is the protocol's own."""
    return name in RESERVED or name.startswith(_PARTS)


def part_name(name: bytes, number: int) -> bytes:
    """The name of a part of what is offered or pending.

    >>> part_name(b"pending", 1)
    b'pending#1'
    """
    return b"%b%b%d" % (name, PART, number)


@lru_cache(maxsize=1_024)
def offered_names(prefix: bytes) -> tuple[bytes, ...]:
    """All names that what is offered in a key group can have."""
    offered = prefix + OFFERED
    return (offered, *(part_name(offered, number) for number in range(1, PARTS_MAX + 1)))


def waiting_names(prefix: bytes) -> list[bytes]:
    """All names in a key group that tell of a commit or hold one."""
    pending = prefix + b"pending"
    parts = (part_name(pending, number) for number in range(1, PARTS_MAX + 1))
    return [prefix + b"meta", pending, *parts, *offered_names(prefix)]


def key_group_prefix(pipeline: str, node: str, key_group: int) -> bytes:
    """What the names of a key group's state begin with, the last colon included.

    >>> key_group_prefix("orders", "3_sink-materializer", 17)
    b'tailrace:{orders:3_sink-materializer:17}:'
    """
    return b"tailrace:{%b:%b:%d}:" % (_checked(pipeline), _checked(node), key_group)


def slot_prefix(pipeline: str) -> bytes:
    """What the names in a pipeline's own slot begin with, the last colon included.

    >>> slot_prefix("orders")
    b'tailrace:{orders}:'
    """
    return b"tailrace:{%b}:" % _checked(pipeline)


def every_key_pattern(pipeline: str) -> bytes:
    r"""A glob pattern for all keys of one pipeline and of no other.

    >>> every_key_pattern("a*")
    b'tailrace:{a\\*[:}]*'
    """
    escaped = bytearray()
    for character in _checked(pipeline):
        if character in b"*?[]^\\-":
            escaped += b"\\"
        escaped.append(character)
    return b"tailrace:{%b[:}]*" % bytes(escaped)


def _checked(part: str) -> bytes:
    """A part of a hash tag; a brace or colon in it could make it another pipeline's."""
    if not part or not _SEPARATORS.isdisjoint(part):
        raise ValueError(f"no name of a pipeline or node: {part!r}")
    return part.encode()
