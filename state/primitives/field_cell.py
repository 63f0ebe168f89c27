"""Cells of one element a key, and the texts that were loaded for many of them.

What an epoch loads it mostly reads, each key once. So texts are not looked at one by one: the first
read of one of them judges and decodes the hundreds that came with it, in a few passes that take
no step of Python for each. With a TTL that is one pass more.
"""

from __future__ import annotations

from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from state.backends.interface import HashGet
from state.descriptors import decodes_at_once
from state.primitives.cells import UNKNOWN, Cell, Element
from state.ttl import STAMP_SIZE, stamp_of, unstamped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.primitives.cells import MaybeKnown, Unknown
    from state.primitives.value import FieldHandle
    from state.primitives.write_batch import WriteBatch

_AT_ONCE: Final = 200
"""Elements that are looked at together, at least: few enough that the processor still has them at
hand when they are read one by one."""
_AT_ONCE_MAX: Final = 1_000
_BYTES_AT_ONCE: Final = 24_000
"""Of short elements more are looked at, up to so many bytes. Stamps are looked for in one text of
all, and from 30,000 bytes on, CPython prepares each search for longer than it then searches."""
_SPACE: Final = ord(" ")
_BEHIND_DIGITS: Final = itemgetter(STAMP_SIZE - 1)
"""Where the space behind a usual stamp is."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""There is no value; None may be one."""


class FieldCell(Cell):
    """One element, in the field of its key."""

    __slots__ = ("_handle", "is_put", "loaded", "plain", "put_text", "ready", "stored")

    def __init__(self, handle: FieldHandle, key: bytes, key_group: int) -> None:
        # Not by the class above: an epoch makes one of these for each key that it touches.
        self.key = key
        self.key_group = key_group
        self.is_loaded = self.is_due = self.is_put = False
        self._handle = handle
        self.stored: bytes | Unknown | None = None
        """The text of the field, None if there is none."""
        self.loaded: LoadedTexts | None = None
        """What that text came with; None if it came alone, or there is none."""
        self.ready: Any = None  # of the handle's type, which is generic where a cell is not
        """The value of that text for the first one who reads it, who may change it; or None."""
        self.plain: bytes | None = None
        """The JSON that a read takes as it is; None: it must be looked at, or there is none."""
        self.put_text: bytes | None = None
        """What was put, as it is stored; None: nothing is there, or `plain` by an access of now."""

    @property
    def reads(self) -> Sequence[Read]:
        """The field."""
        return (HashGet(self.key_group, self._handle.state, [self.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Load, unless it is settled."""
        ((text,),) = replies
        self._handle.load_all((self,), [text])

    @property
    def element(self) -> Element | None:
        """What it holds now; stored text is taken apart only here, where a rule asks for it."""
        text = self.text
        return unstamped(text) if isinstance(text, bytes) else None

    @property
    def text(self) -> bytes | Unknown | None:
        """What it holds now, as it is stored."""
        if not self.is_put:
            return self.stored
        if self.put_text is None and self.plain is not None:
            return self._handle.stamp_text + self.plain
        return self.put_text

    def put(self, element: Element | None) -> None:
        """Set or remove the element; a cell that was not loaded needs no load any more."""
        self.put_now(None, None if element is None else self._handle.text_of(element))

    def put_now(self, json: bytes | None, text: bytes | None) -> None:
        """Set the element by an access of now: its JSON that a read takes as it is, or its text."""
        if not self.is_loaded:
            self.is_loaded = True
            self.stored = UNKNOWN
        self.is_put = True
        self.put_text = text
        self.plain = json
        self.ready = None

    def write(self, batch: WriteBatch) -> None:
        """The field, if it differs or if what is stored is not known."""
        self._handle.write_all((self,), batch)

    def oldest_ms(self) -> int | None:
        """The element's stamp."""
        element = self.element
        return element and element[0]

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The score that the expiry index is to have for the key, and what it has at most."""
        stored = self.stored
        return self.oldest_ms(), stamp_of(stored) if isinstance(stored, bytes) else stored

    def empty(self) -> None:
        """Remove the element."""
        self.put(None)

    def settle_text(self) -> None:
        """What was put keeps its stamp, though the clock is set."""
        if self.is_put and isinstance(text := self.text, bytes):
            self.put_text = text

    def judge_again(self) -> None:
        """Whether the element lives must be looked at again."""
        if self._handle.may_have_stamps:
            self.plain = None
            self.ready = None

    def stays_indexed(self) -> bool:
        """Whether the expiry index has its key by a stamp that is not newer than that of now."""
        stored = self.stored
        return (
            not self.is_due
            and isinstance(stored, bytes)
            and self._handle.is_no_newer(stored[:STAMP_SIZE])
        )

    async def clean(self, elements_max: int) -> int:
        """Remove the element if it is expired."""
        if not self.is_loaded:
            await self._handle.answered(self)
        element = self.element
        if element is None or not self._handle.is_expired(element) or not elements_max:
            return 0
        self.put(None)
        return 1


class LoadedTexts:
    """Texts that were loaded for some cells, to be looked at when the first of them is read.

    An epoch that only writes never looks, but for where the expiry index has their keys. They are
    let go as soon as they were looked at, while the processor has them at hand.
    """

    __slots__ = ("_cells", "_handle", "_texts", "are_indexed", "are_older")

    def __init__(
        self,
        handle: FieldHandle,
        cells: Sequence[FieldCell],
        texts: Sequence[bytes | None],
    ) -> None:
        """Load the cells, but those that are settled."""
        self._handle = handle
        self.are_indexed: bool | None = None
        """Whether the expiry index has all their keys by no newer a stamp than that of now; None
        before `look_at_stamps`."""
        self.are_older = True
        """Whether their stamps are all before that of now; of use once `are_indexed` is found."""
        is_whole = True
        for cell, text in zip(cells, texts, strict=True):
            if text is None or cell.is_loaded:
                cell.is_loaded = True
                is_whole = False
            else:
                cell.is_loaded = True
                cell.stored = text
                cell.loaded = self
        if _are_there(texts, is_whole):
            self._cells, self._texts = cells, texts
        else:
            mine = [
                (cell, text)
                for cell, text in zip(cells, texts, strict=True)
                if text is not None and cell.loaded is self
            ]
            self._cells, self._texts = [cell for cell, _ in mine], [text for _, text in mine]

    def read(self) -> bool:
        """Let each cell have what a read of it gives; whether this was the first time."""
        handle, cells, texts = self._handle, self._cells, self._texts
        if not cells:
            return False
        self._cells = ()
        values = handle.decoded_alike(texts)
        if values is not None and handle.has_usual_stamps:
            # What the first one has all have, and it is a usual one.
            head = texts[0][:STAMP_SIZE]
            now = handle.stamp_text
            self.are_indexed, self.are_older = head <= now, head < now
        if self.are_indexed is not None or not handle.may_have_stamps:
            self._texts = ()
        if values is None and handle.may_have_stamps:
            values = handle.decoded_apart(texts)
        if values is None:
            for cell, plain in zip(cells, handle.plain_jsons(texts), strict=True):
                if not cell.is_put:
                    cell.plain = plain
            return True
        for cell, value in zip(cells, values, strict=True):
            if not cell.is_put:
                cell.ready = value
        return True

    def look_at_stamps(self) -> bool:
        """Find `are_indexed`: with usual stamps they are, but by one that is newer than now."""
        handle, texts = self._handle, self._texts
        if self.are_indexed is not None or not texts:
            return self.are_indexed is not False
        head = texts[0][:STAMP_SIZE]
        oldest, newest = min(texts), max(texts)
        self.are_older = newest[:STAMP_SIZE] < handle.stamp_text
        self.are_indexed = handle.has_usual_stamps and (
            # What is not below a text, and below it with its last byte one higher, begins with it.
            (oldest >= head and newest < head[:-1] + b"!" and handle.is_no_newer(head))
            or (
                oldest > b"@"
                and newest < handle.stamp_text[:-1] + b"!"
                and min(map(len, texts)) >= STAMP_SIZE
                and {*map(_BEHIND_DIGITS, texts)} == {_SPACE}
            )
        )
        return self.are_indexed

    def close(self) -> None:
        """Let go of the cells, which refer to this."""
        self._cells = ()


class Loads:
    """What was loaded many at once, for the cells of one state.

    It is no attribute of the handle, as neither is what else is here: with more than 29 of them
    CPython looks all of them up more slowly.
    """

    __slots__ = ("_all", "decode_all", "was_set")

    def __init__(self, codec: object) -> None:
        self._all: list[LoadedTexts] = []
        self.decode_all = codec.decode_all if decodes_at_once(codec) else None
        """Decodes many values, where the codec can."""
        self.was_set = False
        """Whether the clock was set when something was loaded or put: stamps of then differ."""

    def load(
        self, handle: FieldHandle, cells: Sequence[FieldCell], texts: list[bytes | None]
    ) -> None:
        """Load cells, but those that are settled, and take the texts out of the list.

        To let go of the list later would touch each of them once more.
        """
        at_once = max(_AT_ONCE, min(_BYTES_AT_ONCE // len(texts[0] or b" "), _AT_ONCE_MAX))
        for start in reversed(range(0, len(cells), at_once)):
            end = start + at_once
            self._all.append(LoadedTexts(handle, cells[start:end], texts[start:end]))
            del texts[start:end]

    def are_indexed(self) -> bool:
        """Whether the expiry index has all keys that have a text here; see `LoadedTexts`."""
        return all(each.look_at_stamps() for each in self._all)

    def are_older(self) -> bool:
        """Whether all texts have stamps before that of now, where `are_indexed`."""
        return all(each.are_older for each in self._all)

    def set_clock(self, cells: Iterable[FieldCell]) -> None:
        """What was put keeps its stamp, and all must be looked at again."""
        for each in self._all:
            each.are_indexed = False
        for cell in cells:
            self.was_set = True
            cell.settle_text()

    def close(self) -> None:
        """Let go of all."""
        for each in self._all:
            each.close()
        self._all = []


def _are_there(texts: Sequence[bytes | None], is_whole: bool) -> TypeGuard[Sequence[bytes]]:
    """Whether each text is one, as their loading has found."""
    return is_whole
