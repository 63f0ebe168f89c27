"""Histories that were cut off, as the materializer meets them: refused, and left as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from state.backends.interface import HashGet, HashPut
from state.errors import StateCorrupt
from state.key_groups import key_group
from state.multiset import text
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import EpochTransaction

SPEC = MaterializerSpec(INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=None)
KEY = b"[1]"
GROUP = key_group(INTEGERS.types[1:2], [1], 4)
LENGTHS = pytest.mark.parametrize("is_long", [False, True], ids=["short text", "long text"])


def change(kind: RowKind, number: int = 1) -> tuple[int, Change]:
    return 0, Change(kind, (number, 1, "a"))


class Cut:
    """A harness whose stored texts can be replaced."""

    def __init__(self, strategy: Strategy, ttl_ms: int = 0) -> None:
        self.harness = MaterializerHarness.on_heap(replace(SPEC, strategy=strategy, ttl_ms=ttl_ms))
        self.harness.run_epoch([change(RowKind.INSERT)])

    def text(self, name: bytes, field: bytes) -> bytes:
        ((found,),) = self.harness.view().fetch([HashGet(GROUP, name, [field])])
        assert isinstance(found, bytes)
        return found

    def store(self, name: bytes, field: bytes, stored: bytes) -> None:
        def write(transaction: EpochTransaction, key_groups: Sequence[int]) -> None:
            transaction.fetch([])
            transaction.commit({GROUP: [HashPut(name, [field, stored])]})

        self.harness.run_epoch_by(write)

    def is_refused_wherever_it_is_cut(self, name: bytes, field: bytes) -> None:
        whole = self.text(name, field)
        for size in range(len(whole)):
            self.store(name, field, whole[:size])
            for kind in (RowKind.INSERT, RowKind.DELETE):
                with pytest.raises(StateCorrupt) as caught:
                    self.harness.run_epoch([change(kind)])
                assert caught.value.hint, whole[:size]
            assert self.text(name, field) == whole[:size]
            self.harness.restart(self.harness.spec)
        self.store(name, field, whole)
        assert [each.change.kind for each in self.harness.run_epoch([change(RowKind.DELETE)])] == [
            RowKind.DELETE
        ]


@pytest.fixture(autouse=True)
def _of_this_length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.callspec.params.get("is_long"):
        monkeypatch.setattr(text, "_SHORT_BYTES", -1)


@LENGTHS
@pytest.mark.parametrize("strategy", [Strategy.LEGACY, Strategy.VALUE])
@pytest.mark.parametrize("ttl_ms", [0, 1_000])
def test_a_packed_history(is_long: bool, strategy: Strategy, ttl_ms: int) -> None:
    Cut(strategy, ttl_ms).is_refused_wherever_it_is_cut(b"history", KEY)


@LENGTHS
@pytest.mark.parametrize(
    ("name", "field"),
    [(b"history", KEY), (b"history:[1]:blocks", b"0"), (b"history:[1]:index", b"0")],
)
def test_what_a_spread_history_consists_of(is_long: bool, name: bytes, field: bytes) -> None:
    Cut(Strategy.MAP).is_refused_wherever_it_is_cut(name, field)


@LENGTHS
def test_an_entry_whose_number_is_still_to_be_given(is_long: bool) -> None:
    cut = Cut(Strategy.VALUE)
    whole = cut.text(b"history", KEY)
    cut.store(b"history", KEY, b"1" + whole[1:])

    with pytest.raises(StateCorrupt):
        cut.harness.run_epoch([change(RowKind.INSERT)])

    assert cut.text(b"history", KEY) == b"1" + whole[1:]
