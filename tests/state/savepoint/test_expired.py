"""What is left of histories, by examples: whole ones of LEGACY, and rows that a sink shows."""

from __future__ import annotations

import pytest

from state.errors import StateCorrupt
from state.savepoint.expired import Expiry, Kept, Lives
from state.ttl import DISABLED, TtlClock, TtlConfig, TtlRules

TTL_MS = 10
NOW_MS = 20


def lives(expiry: Expiry = Expiry.ENTRY, *, ttl: TtlConfig | None = None) -> Lives:
    return Lives(TtlRules(ttl or TtlConfig(TTL_MS)), TtlClock(NOW_MS), expiry)


def history(header: str, *entries: tuple[int, int]) -> bytes:
    """A packed history of entries given as number and time."""
    return "\n".join((header, *(f"{n}\t{ms}\t[{n}]" for n, ms in entries))).encode()


@pytest.mark.parametrize(
    ("stored", "left"),
    [
        (history("3", (1, 5), (2, 11)), history("3", (2, 11))),
        # The newest one was shown, and it is gone: the sink shows a row that state has not.
        (history("3", (1, 11), (2, 5)), history("3\t!", (1, 11))),
        # An older one was shown since it was replaced in its place.
        (history("3\t=1", (1, 11), (2, 5)), history("3\t=1", (1, 11))),
        (history("3\t=1", (1, 5), (2, 11)), history("3\t!", (2, 11))),
        (history("3\t!", (1, 5), (2, 11)), history("3\t!", (2, 11))),
        (history("3", (1, 11), (2, 12)), history("3", (1, 11), (2, 12))),
        (history("3", (1, 9), (2, 10)), None),
    ],
)
def test_each_entry_lives_for_itself(stored: bytes, left: bytes | None) -> None:
    found = lives().packed("history", stored, None)

    assert found == (None if left is None else Kept(left, None))


@pytest.mark.parametrize(
    ("stored", "expiry", "is_left"),
    [
        (history("3\t11", (1, 5), (2, 5)), Expiry.WHOLE, True),
        (history("3\t10", (1, 5), (2, 5)), Expiry.WHOLE, False),
        # Another strategy reads what LEGACY wrote entry by entry: none can be younger.
        (history("3\t11", (1, 5), (2, 11)), Expiry.ENTRY, True),
        (history("3\t10", (1, 5), (2, 5)), Expiry.ENTRY, False),
        # What another strategy wrote, LEGACY counts by its newest entry.
        (history("3", (1, 5), (2, 11)), Expiry.WHOLE, True),
        (history("3", (1, 5), (2, 10)), Expiry.WHOLE, False),
    ],
)
def test_a_history_of_legacy_lives_as_a_whole(stored: bytes, expiry: Expiry, is_left: bool) -> None:
    found = lives(expiry).packed("history", stored, 5)

    assert found == (Kept(stored, 5) if is_left else None)


def test_what_is_emitted_when_it_expires_is_never_left_out() -> None:
    for each in (lives(Expiry.EMITTED), lives(ttl=DISABLED)):
        assert not each.may_lack(0)
    assert lives().may_lack(10)
    assert lives().may_lack(None)
    assert not lives().may_lack(11)


def test_what_remains_is_indexed_by_its_oldest_if_it_was_indexed() -> None:
    stored = history("4", (1, 5), (2, 12), (3, 11))

    assert lives().packed("history", stored, 5) == Kept(history("4", (2, 12), (3, 11)), 11)
    assert lives().packed("list", b"packed\t1\t3\n@5 1\n@12 2\n@11 3", 5) == Kept(
        b"packed\t2\t2\t3\t11\t1\n@12 2\n3", 11
    )


def test_a_history_that_was_cut_off_stops_a_filtered_savepoint() -> None:
    with pytest.raises(StateCorrupt):
        lives().packed("history", b"3\n1\t5", 5)
    with pytest.raises(StateCorrupt):
        lives().packed("list", b"packed\t1", 5)
