"""From Redis into the files of a savepoint."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from state.backends.names import RESTORING, key_group_prefix, slot_prefix
from state.epochs import EpochLedger
from state.errors import Fenced, SavepointIncomplete
from state.multiset.text import is_spread
from state.primitives.expiry import swept_name
from state.registry import as_registered, extension_ms, registered_states
from state.savepoint.expired import PLAIN, Expiry, Lives
from state.savepoint.files import (
    PART_BYTES,
    SWEPT,
    Manifest,
    PartWriter,
    Record,
    SavedState,
    text_of,
    write_manifest,
)
from state.savepoint.pages import Pages
from state.savepoint.spread_keys import SpreadKey, scored
from state.ttl import TtlRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from state.backends.interface import Marker
    from state.backends.transport import Transport
    from state.descriptors import StateDescriptor
    from state.registry import RegisteredState
    from state.savepoint.files import SavedFile
    from state.savepoint.pages import Entry
    from state.ttl import TtlClock

SIDE_STREAMS: Final = (b"orphans", b"journal")
"""What a key group holds beside its states."""
SIDE_HASHES: Final = (b"counters",)
_GROUPS_PER_TRIP: Final = 500


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """What goes into a savepoint."""

    clock: TtlClock | None = None
    """Elements past their life at these times are left out; None: none is."""
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)
    """By node, the watermark that TTL in event time counts by; else it is the clock's."""
    expiry: Mapping[str, Expiry] = field(default_factory=dict)
    """By node, how histories expire; `Expiry.ENTRY` where nothing is said."""
    slot: Mapping[str, str] = field(default_factory=dict)
    """Names in the pipeline's slot that go with its state; of a stream, the id of the last entry
    that does not ("" takes all)."""
    part_bytes: int = PART_BYTES

    def clock_of(self, node: str) -> TtlClock | None:
        """The times of a node."""
        if self.clock is None or node not in self.watermarks_ms:
            return self.clock
        return replace(self.clock, watermark_ms=self.watermarks_ms[node])


class StateSaver:
    """Takes one savepoint of a pipeline whose query is over.

    Making one opens a run, so that nothing moves any more: if another run is opened before the
    savepoint is whole, it fails.

    Characteristics:
        memory        a page of a structure, and per key what of it is expired
        round trips   one for 500 key groups that hold nothing; else one a page
    """

    def __init__(
        self,
        transport: Transport,
        pipeline: str,
        states: Mapping[str, Sequence[StateDescriptor]],
        max_parallelism: int,
    ) -> None:
        """Fence off earlier runs and settle the epoch that was closed last.

        Args:
            transport: All goes through it; it must know the incarnation of Redis.
            pipeline: Whose state.
            states: What the nodes of its plan keep; all that was ever registered is added.
            max_parallelism: Key groups.

        Raises:
            SavepointIncomplete: The pipeline was being restored itself.
            StateLost, Fenced: As `EpochLedger.open_run`.
            StateUnavailable, StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        self._pages = Pages(transport)
        self._pipeline = pipeline
        self._slot_prefix = slot_prefix(pipeline)
        self._max_parallelism = max_parallelism
        self._ledger = EpochLedger(transport, pipeline)
        if self._pages.ask(("EXISTS", self._slot_prefix + RESTORING))[0]:
            raise SavepointIncomplete(f"{pipeline} was not restored to its end")
        wanted = (as_registered(node, each) for node, several in states.items() for each in several)
        known = {each.field: each for each in (*wanted, *registered_states(self._ledger))}
        self._states = [known[field] for field in sorted(known)]
        self._nodes = sorted({*states, *(each.node for each in self._states)})
        self._run = self._ledger.open_run(self._nodes, max_parallelism)
        self.marker: Marker = self._ledger.marker()

    def save(
        self,
        savepoint: str,
        folder: Path,
        options: SaveOptions,
        *,
        attachments: Sequence[SavedFile] = (),
        about: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Write everything into a folder, the manifest last.

        Args:
            savepoint: Its id.
            folder: Exists, and has no part in it.
            options: What goes in.
            attachments: Files that are in the folder already.
            about: JSON for the manifest.

        Raises:
            Fenced: Another run was opened meanwhile; the folder is of no use.
            OSError: The disk does not take it.
            StateCorrupt, FormatVersionMismatch: What is stored cannot be read.
            StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
        """
        writer = PartWriter(folder, options.part_bytes)
        try:
            states: list[SavedState] = []
            for node in self._nodes:
                states += self._save_node(node, options, writer)
            for name, after in options.slot.items():
                for record in self._slot_records(name, after):
                    writer.write(record)
            parts = writer.finish()
        finally:
            writer.close()
        self._check_unmoved()
        manifest = Manifest(
            id=savepoint,
            pipeline=self._pipeline,
            epoch=self.marker.epoch,
            run=self.marker.run,
            closed_ms=self.marker.closed_ms,
            offsets=self.marker.offsets,
            max_parallelism=self._max_parallelism,
            extension_ms=extension_ms(self._ledger),
            is_filtered=options.clock is not None,
            states=tuple(states),
            slot=tuple(options.slot),
            parts=parts,
            attachments=tuple(attachments),
            about=about or {},
        )
        write_manifest(folder, manifest)
        return manifest

    def _check_unmoved(self) -> None:
        (run,) = self._pages.ask(("GET", self._slot_prefix + b"run"))
        if int(run or 0) != self._run or self._ledger.marker() != self.marker:
            raise Fenced("another run was opened while the savepoint was taken")

    def _save_node(
        self, node: str, options: SaveOptions, writer: PartWriter
    ) -> Iterator[SavedState]:
        """Write what a node keeps; what its states are is known once all is written."""
        expiry, clock = options.expiry.get(node, Expiry.ENTRY), options.clock_of(node)
        savers = [
            _StateOfGroups(self._pages, state, clock, expiry)
            for state in self._states
            if state.node == node
        ]
        for number, sizes in self._sizes(node, savers):
            prefix = key_group_prefix(self._pipeline, node, number)
            place = {"node": node, "group": number}
            for saver, size in zip(savers, sizes, strict=False):
                if size:
                    for record in saver.records(prefix):
                        writer.write({**place, **record})
            if any(sizes[len(savers) :]):
                for record in self._side_records(prefix):
                    writer.write({**place, **record})
        for each in savers:
            state = each.state
            registered = state.to_json().decode()
            yield SavedState(node, state.name, state.kind, registered, each.keys, each.expired)

    def _sizes(
        self, node: str, savers: Sequence[_StateOfGroups]
    ) -> Iterator[tuple[int, list[int]]]:
        """Of each key group: sizes of the states, then of what is beside them."""
        per_group = len(savers) + len(SIDE_STREAMS) + len(SIDE_HASHES)
        for start in range(0, self._max_parallelism, _GROUPS_PER_TRIP):
            numbers = range(start, min(start + _GROUPS_PER_TRIP, self._max_parallelism))
            commands = []
            for number in numbers:
                prefix = key_group_prefix(self._pipeline, node, number)
                commands += [(each.size_command, prefix + each.name) for each in savers]
                commands += [("XLEN", prefix + each) for each in SIDE_STREAMS]
                commands += [("HLEN", prefix + each) for each in SIDE_HASHES]
            replies = iter(self._pages.ask(*commands))
            for number in numbers:
                yield number, [int(next(replies)) for _ in range(per_group)]

    def _side_records(self, prefix: bytes) -> Iterator[Record]:
        for name in SIDE_STREAMS:
            for entries in self._pages.entries(prefix + name):
                yield {"piece": name.decode(), "stream": _entries(entries)}
        for name in SIDE_HASHES:
            for flat in self._pages.fields(prefix + name):
                yield {"piece": name.decode(), "hash": [text_of(each) for each in flat]}

    def _slot_records(self, name: str, after: str) -> Iterator[Record]:
        """A structure of the pipeline's slot, whatever its type."""
        key = self._slot_prefix + name.encode()
        (kind,) = self._pages.ask(("TYPE", key))
        match kind:
            case b"hash":
                for flat in self._pages.fields(key):
                    yield {"slot": name, "hash": [text_of(each) for each in flat]}
            case b"list":
                for values in self._pages.members(key):
                    yield {"slot": name, "list": [text_of(each) for each in values]}
            case b"string":
                (value,) = self._pages.ask(("GET", key))
                yield {"slot": name, "string": text_of(value)}
            case b"stream":
                for entries in self._pages.entries(key, after.encode()):
                    yield {"slot": name, "stream": _entries(entries)}
                yield {"slot": name, "last": self._pages.last_id(key).decode()}
            case _:
                # A stream that was never there has a place all the same.
                if after:
                    yield {"slot": name, "last": after}


class _StateOfGroups:
    """One state, key group by key group."""

    def __init__(
        self, pages: Pages, state: RegisteredState, clock: TtlClock | None, expiry: Expiry
    ) -> None:
        self.state = state
        self.name = state.name.encode()
        self.is_timers = state.kind == "timers"
        self.size_command = "ZCARD" if self.is_timers else "HLEN"
        self.keys = 0
        self._pages = pages
        histories = expiry if state.kind == "history" else Expiry.ENTRY
        self._lives = Lives(TtlRules(state.ttl, state.enabled_ms), clock, histories)

    @property
    def expired(self) -> int:
        """Elements that were left out so far."""
        return self._lives.expired

    def records(self, prefix: bytes) -> Iterator[Record]:
        """What a key group holds of the state."""
        named = {"state": self.state.name}
        if self.is_timers:
            for members in self._pages.scores(prefix + self.name):
                self.keys += len(members)
                yield {**named, "sorted": scored(members)}
            return
        before = self.keys
        for flat in self._pages.fields(prefix + self.name):
            keys, texts = flat[0::2], flat[1::2]
            scores = self._scores(prefix, keys)
            for key, text, oldest_ms in zip(keys, texts, scores, strict=True):
                at = {**named, "key": text_of(key)}
                for record in self._key_records(prefix, key, text, oldest_ms):
                    yield {**at, **record}
        if self.keys > before:
            for flat in self._pages.fields(prefix + swept_name(self.name)):
                yield {**named, "piece": SWEPT, "hash": [text_of(each) for each in flat]}

    def _scores(self, prefix: bytes, keys: Sequence[bytes]) -> list[int | None]:
        """What the expiry index has of these keys."""
        if not self.state.is_stamped:
            return [None] * len(keys)
        (scores,) = self._pages.ask(("ZMSCORE", prefix + self.name + b":expiry", *keys))
        return [None if each is None else int(float(each)) for each in scores]

    def _key_records(
        self, prefix: bytes, key: bytes, text: bytes, oldest_ms: int | None
    ) -> Iterator[Record]:
        """A key: its pieces if it is spread, then its value, if anything is left of it."""
        kind, lives = self.state.kind, self._lives
        left: tuple[bytes, int | None] | None = (text, oldest_ms)
        # A value of JSON never begins so: spread collections and histories do.
        if kind not in PLAIN and is_spread(text):
            pieces = SpreadKey(self._pages, prefix + self.name + b":" + key, kind, text, lives)
            if lives.may_lack(oldest_ms):
                yield from pieces.filtered(oldest_ms)
            else:
                yield from pieces.copied(oldest_ms)
            left = pieces.left
        elif lives.may_lack(oldest_ms):
            left = lives.packed(kind, text, oldest_ms)
        if left is None:
            return
        self.keys += 1
        yield {"value": text_of(left[0])} | ({} if left[1] is None else {"oldest": left[1]})


def _entries(entries: Sequence[Entry]) -> list[Any]:
    return [[identity.decode(), [text_of(each) for each in flat]] for identity, flat in entries]
