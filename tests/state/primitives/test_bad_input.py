"""What is stored and cannot be read: its error, what to do, and that nothing is overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state.backends.interface import Drop, HashPut, HashScan
from state.codec import RowCodec
from state.descriptors import ListDescriptor, ValueDescriptor
from state.errors import CodecMismatch, FormatVersionMismatch, StateCorrupt, StateError
from state.execution.sync import run_now
from state.registry import register_states
from state.testing.sessions import LAYOUTS
from state.testing.stand import NODE
from state.ttl import DISABLED, TtlClock, TtlConfig
from state.types import parse_type
from state.values import StoredTextCorrupt
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand
    from tests.state.primitives.driver import Operation

KEY = b'["k"]'
ROW = ["row", 1]
FILL: dict[str, Operation] = {
    "value": lambda s: s.update(ROW),
    "list": lambda s: s.add(ROW),
    "map": lambda s: s.put("user", ROW),
    "sorted_map": lambda s: s.put((1,), [ROW]),
    "multiset": lambda s: s.add(ROW),
}
READ: dict[str, Operation] = {
    "value": lambda s: s.value(),
    "list": lambda s: s.get(),
    "map": lambda s: s.entries(),
    "sorted_map": lambda s: s.entries(),
    "multiset": lambda s: s.entries(),
}
OTHER_VERSION = {
    "list": b"packed\t7\t1\n@5 [1]",
    "map": b"spread\t2\t1\t1\t5",
    "sorted_map": b"packed\t9\t1\n1\t@5 [1]",
}
KINDS = pytest.mark.parametrize("kind", FILL)
BOTH = pytest.mark.parametrize("layout", LAYOUTS)


def refused(state: Driver, operation: Operation) -> StateError:
    """The error that an operation ends in, in an epoch that has then nothing to write."""
    session = state.session(10)
    handle = state.handle(session)
    session.set_key(KEY, 0)
    with pytest.raises(StateError) as caught:
        run_now(operation(handle), session)
    assert session.writes() == {}
    return caught.value


@KINDS
@BOTH
@pytest.mark.parametrize("ttl", [TtlConfig(100), DISABLED], ids=["with TTL", "without"])
def test_wherever_a_stored_text_is_cut_off_it_is_refused(
    stand: Stand, kind: str, layout: str, ttl: TtlConfig
) -> None:
    """The key's field, and what it refers to; each cut at every byte."""
    state = Driver(stand, descriptor(kind, ttl), LAYOUTS[layout])
    state.at(5, FILL[kind])
    (before,) = state.sessions.fetch(HashScan(0, b"state"))
    text = before[KEY]

    for size in range(len(text)):
        state.store(HashPut(b"state", [KEY, text[:size]]))

        error = refused(state, READ[kind])

        assert isinstance(error, StateCorrupt | FormatVersionMismatch), text[:size]
        assert error.hint
        assert "row" not in error.message.split()
        assert state.sessions.fetch(HashScan(0, b"state")) == [{KEY: text[:size]}]


MORE: dict[str, Operation] = {
    "list": lambda s: s.add_all([ROW, ["other", 2], ROW]),
    "map": lambda s: s.put_all({"user": ROW, "other": ["other", 2], "third": ROW}),
    "sorted_map": lambda s: s.put((1,), [ROW, ["other", 2], ROW]),
}


@pytest.mark.parametrize("kind", MORE)
@pytest.mark.parametrize("ttl", [TtlConfig(100), DISABLED], ids=["with TTL", "without"])
def test_a_packed_collection_that_lost_its_last_elements_is_refused(
    stand: Stand, kind: str, ttl: TtlConfig
) -> None:
    """Cut off behind a line, all that is left is as we write it."""
    state = Driver(stand, descriptor(kind, ttl), LAYOUTS["packed"])
    state.at(5, MORE[kind])
    (before,) = state.sessions.fetch(HashScan(0, b"state"))
    lines = before[KEY].split(b"\n")
    assert len(lines) == 4

    for count in range(1, 4):
        state.store(HashPut(b"state", [KEY, b"\n".join(lines[:count])]))

        error = refused(state, READ[kind])

        assert isinstance(error, StateCorrupt)
        assert state.sessions.fetch(HashScan(0, b"state")) == [{KEY: b"\n".join(lines[:count])}]


@pytest.mark.parametrize("kind", ["list", "map", "sorted_map", "multiset"])
def test_what_a_spread_collection_refers_to_must_be_there(stand: Stand, kind: str) -> None:
    state = Driver(stand, descriptor(kind), LAYOUTS["spread"])
    state.at(5, FILL[kind])
    side = {b"rows", b"order", b"blocks"}
    (gone,) = [each for each in state.names() if each.rpartition(b":")[2] in side - {b"order"}] or [
        b'state:["k"]:order'
    ]
    state.store(Drop(gone))
    (before,) = state.sessions.fetch(HashScan(0, b"state"))

    error = refused(state, READ[kind])

    assert isinstance(error, StateCorrupt)
    assert error.hint
    assert state.sessions.fetch(HashScan(0, b"state")) == [before]


@pytest.mark.parametrize("kind", OTHER_VERSION)
def test_another_format_version_says_both_and_what_to_do(stand: Stand, kind: str) -> None:
    state = Driver(stand, descriptor(kind), LAYOUTS["packed"])
    text = OTHER_VERSION[kind]
    state.store(HashPut(b"state", [KEY, text]))

    error = refused(state, READ[kind])

    assert isinstance(error, FormatVersionMismatch)
    known = "1" if text.startswith(b"spread") else "1, 2, 3"
    assert f"format version {text[7:8].decode()}, this version reads {known}" in error.message
    assert "savepoint" in error.hint
    assert state.sessions.fetch(HashScan(0, b"state")) == [{KEY: text}]


class Named(RowCodec):
    """A codec of rows that a descriptor can have."""

    @property
    def name(self) -> str:
        return ", ".join(map(str, self.types))


def rows_of(kind: str) -> Named:
    return Named([parse_type(kind)], ["f0"])


def test_a_wrong_codec_is_refused_before_anything_is_read(stand: Stand) -> None:
    numbers = ValueDescriptor(name="state", codec=rows_of("BIGINT"))
    register_states(stand.ledger, NODE, [numbers], TtlClock(0))
    before = stand.ledger.registered()

    for other in (
        ValueDescriptor(name="state", codec=rows_of("STRING")),
        ListDescriptor(name="state", codec=rows_of("BIGINT")),
    ):
        with pytest.raises(CodecMismatch) as caught:
            register_states(stand.ledger, NODE, [other], TtlClock(0))
        assert "is stored as value of " in caught.value.message
        assert "it is asked for as " in caught.value.message
        assert caught.value.hint

    assert stand.ledger.registered() == before


@pytest.mark.parametrize("text", [b'["a","b"]', b'["x"', b"7", b"", b'{"f0":"a"}', b"\xff"])
def test_what_a_rows_codec_cannot_read_is_corrupt_state(stand: Stand, text: bytes) -> None:
    state = Driver(stand, ValueDescriptor(name="state", codec=rows_of("STRING")), LAYOUTS["packed"])
    state.store(HashPut(b"state", [KEY, text]))

    error = refused(state, READ["value"])

    assert isinstance(error, StoredTextCorrupt)
    assert error.message == "stored text must be a canonical row of 1 columns, found other bytes"
    assert error.code == "state-corrupt"
    assert "savepoint" in error.hint
