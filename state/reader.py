"""Committed state for readers outside of epochs: HTTP, inspection, tests.

What is hard is that state moves under the reader: an epoch is closed by the marker, which is in
another slot than the state, and its pending writes are promoted some time later. So a view reads
the marker, promotes what is closed in the key groups that it looks at (which whoever comes first
must do anyway), reads them in one MULTI each, and reads the marker again: if it did not move, all
that was read is the state of that epoch.

    reader = CommittedReader(client, "orders")
    view = reader.view("3_sink-materializer")
    (values,) = view.fetch([HashGet(17, b"history", [key])])
    view.epoch                                     # which epoch that was
    reader.consistently(node, lambda view: ...)    # several calls that belong together
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from state.backends.interface import StateView
from state.backends.names import key_group_prefix, slot_prefix
from state.backends.reads import command_of, value_of
from state.backends.transport import RedisTransport, checked, function
from state.errors import IncarnationChanged, ViewMoved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import redis

    from state.backends.interface import Read
    from state.backends.transport import ClientSettings, Command

T = TypeVar("T")

ATTEMPTS_MAX = 5
"""How often a view looks again while epochs close under it."""


class CommittedReader:
    """Reads the committed state of one pipeline.

    Characteristics:
        round trips   two for a fetch: the marker, then everything else
        restarts      a restart of Redis costs a reader at most one `ViewMoved`
        thread-safe   yes; a view belongs to one thread
    """

    def __init__(self, source: redis.Redis | ClientSettings, pipeline: str) -> None:
        """Connect at first use; a client lends its address and credentials."""
        self._source = source
        self._pipeline = pipeline
        self._marker = (("HGET", slot_prefix(pipeline) + b"marker", "epoch"),)
        self._transport = RedisTransport(source)

    @property
    def epoch(self) -> int:
        """The last closed epoch, 0 before the first one."""
        (reply,) = checked(self.exchange(()))
        return int(reply or 0)

    def view(self, node: str) -> CommittedView:
        """A view of one node's state, as of the epoch that its first call finds."""
        return CommittedView(self, self._pipeline, node)

    def consistently(self, node: str, look: Callable[[CommittedView], T]) -> T:
        """What `look` gives for a view that stayed in one epoch; called again while it did not.

        Raises:
            ViewMoved: Epochs closed faster than `look` could look, five times in a row.
            StateUnavailable, StateAccessDenied, StateCorrupt: As everywhere.
        """
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return look(self.view(node))
            except ViewMoved:
                continue
        return look(self.view(node))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """A round trip, with the marker's epoch as its last reply; for views.

        Raises:
            ViewMoved: Redis restarted, so what was read before may be of another past.
        """
        try:
            return self._transport.exchange((*commands, *self._marker), is_repeatable=True)
        except IncarnationChanged as error:
            self._transport.close()
            self._transport = RedisTransport(self._source)
            raise ViewMoved("redis restarted") from error


class CommittedView(StateView):
    """Committed state of one node as of one closed epoch; from `CommittedReader.view`."""

    def __init__(self, reader: CommittedReader, pipeline: str, node: str) -> None:
        self._reader = reader
        self._pipeline = pipeline
        self._node = node
        self._epoch: int | None = None
        self._has_read = False

    @property
    def epoch(self) -> int:
        """The closed epoch that this view shows."""
        if self._epoch is None:
            self._epoch = self._reader.epoch
        return self._epoch

    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        """Read committed state; see `StateView.fetch`."""
        by_group: dict[int, list[Command]] = {}
        places: list[tuple[int, int] | None] = []
        for read in reads:
            command = command_of(read, self._prefix(read.key_group))
            own = by_group.setdefault(read.key_group, [])
            places.append(None if command is None else (read.key_group, len(own)))
            if command is not None:
                own.append(command)
        replies = self._settled(by_group)
        return [
            value_of(read, None if place is None else replies[place[0]][place[1]])
            for read, place in zip(reads, places, strict=True)
        ]

    def scan_hash(
        self,
        key_group: int,
        name: bytes,
        cursor: int = 0,
        match: bytes | None = None,
        count: int = 100,
    ) -> tuple[int, list[tuple[bytes, bytes]]]:
        """A page of a hash; see `StateView.scan_hash`. The cursor is Redis's."""
        command: Command = ("HSCAN", self._prefix(key_group) + name, cursor, "COUNT", count)
        if match is not None:
            command = (*command, "MATCH", match)
        ((following, flat),) = self._settled({key_group: [command]})[key_group]
        return int(following), list(zip(flat[0::2], flat[1::2], strict=True))

    def _settled(self, by_group: Mapping[int, Sequence[Command]]) -> dict[int, list[Any]]:
        """Replies by key group, all of one epoch."""
        for _ in range(ATTEMPTS_MAX):
            epoch = self.epoch
            replies, marker = self._read(by_group, epoch)
            if marker == epoch:
                self._has_read = True
                return replies
            if self._has_read:
                break
            self._epoch = marker
        raise ViewMoved(f"the view is of epoch {self.epoch}, the pipeline is at {marker}")

    def _read(
        self, by_group: Mapping[int, Sequence[Command]], epoch: int
    ) -> tuple[dict[int, list[Any]], int]:
        """Promote up to an epoch and read, a MULTI for each key group; and the marker after it."""
        commands: list[Command] = []
        for number, own in by_group.items():
            prefix = self._prefix(number)
            keys = (prefix + b"meta", prefix + b"pending")
            commands.append(("MULTI",))
            commands.append(("FCALL", function("promote"), len(keys), *keys, epoch))
            commands += own
            commands.append(("EXEC",))
        *replies, marker = checked(self._reader.exchange(commands))
        given: dict[int, list[Any]] = {}
        end = 0
        for number, own in by_group.items():
            end += len(own) + 3
            given[number] = checked(replies[end - 1])[1:]
        return given, int(marker or 0)

    def _prefix(self, key_group: int) -> bytes:
        return key_group_prefix(self._pipeline, self._node, key_group)
