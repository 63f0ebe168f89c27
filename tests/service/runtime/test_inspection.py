"""What inspection shows of an operator whose state the real materializer made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.runtime.explanation import explain
from service.runtime.inspection import OperatorInspector, glob_of
from service.runtime.inspection_errors import KeyExpired, KeyNotFound
from state.multiset.strategy import Strategy
from state.reader import CommittedReader
from tests.service.prepared import MAX_PARALLELISM, PreparedPipeline, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from operators.upsert_materializer import MaterializerSpec

COLUMNS = {"id": "INT NOT NULL", "name": "STRING NOT NULL", "at": "TIMESTAMP(3)"}
STRATEGIES = ("LEGACY", "VALUE", "MAP", "ADAPTIVE")


class Look:
    """A pipeline and its inspector, with a clock that the test sets."""

    def __init__(self, client: redis.Redis, spec: MaterializerSpec) -> None:
        self.spec = spec
        self.now_ms = 2_000
        self.step_ms = 0
        """How far the clock goes with each reading."""
        self.reader = CommittedReader(client, "p")
        self.pipeline = PreparedPipeline(client, "p", spec)
        self.inspector = OperatorInspector(
            self.reader,
            self.pipeline.node,
            spec,
            MAX_PARALLELISM,
            descriptors=[spec.descriptor],
            clock=self.read_clock,
        )

    def read_clock(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms


@pytest.fixture
def looks(redis_client: redis.Redis) -> Iterator[Any]:
    """Makes `Look`s and closes their readers."""
    made: list[Look] = []

    def make(**more: Any) -> Look:
        made.append(Look(redis_client, spec_of(COLUMNS, ["name"], **more)))
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_history_lists_live_entries_oldest_first_and_says_which_is_current(
    looks: Any, strategy: str
) -> None:
    look = looks(strategy=Strategy(strategy))
    look.pipeline.run_epoch([("+I", (1, "a", None)), ("+I", (2, "a", None))], time_ms=1_000)
    look.pipeline.run_epoch([("+U", (3, "a", None)), ("-D", (2, "a", None))], time_ms=1_500)

    history = look.inspector.history(("a",), limit=10)

    assert history.epoch == 2
    assert [each.row["id"] for each in history.entries] == [1, 3]
    assert [each.current for each in history.entries] == [False, True]
    assert [each.written_ms for each in history.entries] == [1_000, 1_500]
    assert history.entries[0].sequence_number < history.entries[1].sequence_number
    assert history.size == 2
    assert history.shown == history.current.sequence_number


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pages_of_a_history_join_to_the_whole(looks: Any, strategy: str) -> None:
    look = looks(strategy=Strategy(strategy))
    look.pipeline.run_epoch([("+I", (n, "a", None)) for n in range(7)])

    after, seen = 0, []
    while True:
        page = look.inspector.history(("a",), after=after, limit=3)
        seen += [each.row["id"] for each in page.entries]
        if page.next_after is None:
            break
        after = page.next_after

    assert seen == list(range(7))


def test_what_if_looks_at_both_times_to_live_at_one_time(looks: Any) -> None:
    look = looks(ttl_ms=1_000)
    look.pipeline.run_epoch([("+I", (1, "a", None))], time_ms=1_000)
    look.now_ms, look.step_ms = 1_989, 10

    found = look.inspector.compare(("a",), look.spec, limit=10)

    assert found.states[0].counts == (1, 1)
    assert found.current is not None
    assert found.current.then == found.current.now is not None
    assert look.now_ms == 1_999


def test_an_epoch_that_is_not_closed_is_not_seen(looks: Any) -> None:
    look = looks()
    look.pipeline.run_epoch([("+I", (1, "a", None))])
    look.pipeline.run_epoch([("+I", (2, "a", None)), ("+I", (3, "b", None))], close=False)

    assert look.inspector.history(("a",), limit=10).size == 1
    with pytest.raises(KeyNotFound):
        look.inspector.history(("b",))


def test_a_key_whose_rows_are_all_retracted_is_unknown_again(looks: Any) -> None:
    look = looks()
    look.pipeline.run_epoch([("+I", (1, "a", None))])
    look.pipeline.run_epoch([("-D", (1, "a", None))])

    with pytest.raises(KeyNotFound):
        look.inspector.history(("a",))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_key_is_expired_at_its_ttl_to_the_millisecond(looks: Any, strategy: str) -> None:
    look = looks(strategy=Strategy(strategy), ttl_ms=100)
    look.pipeline.run_epoch([("+I", (1, "a", None))], time_ms=1_000)

    look.now_ms = 1_099
    entry = look.inspector.history(("a",)).current
    assert entry.expires_ms == 1_100

    look.now_ms = 1_100
    with pytest.raises(KeyExpired):
        look.inspector.history(("a",))


TTL_CHANGES = {
    "off to on": (0, 1_500),
    "on to off": (1_500, 0),
    "shorter": (5_000, 1_500),
    "longer": (1_500, 5_000),
}


def cases(*strategies: str) -> list[Any]:
    """Strategies with each change of the TTL."""
    return [
        pytest.param(strategy, change, id=f"{strategy} {change}")
        for strategy in strategies
        for change in TTL_CHANGES
    ]


def written_then_started_anew(looks: Any, strategy: str, change: str) -> Look:
    """Rows 1 and 2, written at 1000 and 2000 under one TTL; then a run under another."""
    before, after = TTL_CHANGES[change]
    first = looks(strategy=Strategy(strategy), ttl_ms=before)
    first.pipeline.run_epoch([("+I", (1, "a", None))], time_ms=1_000)
    first.pipeline.run_epoch([("+I", (2, "a", None))], time_ms=2_000)
    anew: Look = looks(strategy=Strategy(strategy), ttl_ms=after)
    return anew


def ids(look: Look) -> list[int]:
    """What is listed, in agreement with what is counted and with each way of asking."""
    history = look.inspector.history(("a",), limit=10)
    (key,) = look.inspector.list_keys("", None, 10).items
    found = [each.row["id"] for each in history.entries]
    assert history.size == len(found) <= key.entries
    assert history.current.row["id"] == found[-1]
    assert (history.fallback and history.fallback.row["id"]) == (found[-2:-1] or [None])[0]
    return found


@pytest.mark.parametrize(("strategy", "change"), cases("VALUE", "MAP"))
def test_after_a_change_of_the_ttl_entries_live_by_the_new_one(
    looks: Any, strategy: str, change: str
) -> None:
    look = written_then_started_anew(looks, strategy, change)
    new_ttl_ms = TTL_CHANGES[change][1]

    look.now_ms = 2_600
    assert ids(look) == ([2] if new_ttl_ms == 1_500 else [1, 2])
    look.now_ms = 2_000 + new_ttl_ms
    if not new_ttl_ms:
        assert ids(look) == [1, 2]
        return
    with pytest.raises(KeyExpired, match="all 2 rows"):
        look.inspector.history(("a",))
    look.now_ms -= 1
    assert ids(look)[-1] == 2


@pytest.mark.parametrize(("strategy", "change"), cases(*STRATEGIES))
def test_after_a_change_of_the_ttl_readers_and_the_operator_see_the_same_entries(
    looks: Any, strategy: str, change: str
) -> None:
    look = written_then_started_anew(looks, strategy, change)
    look.now_ms = 2_600
    seen = ids(look)

    look.pipeline.run_epoch([("+I", (3, "a", None))], time_ms=2_600)

    assert ids(look) == [*seen, 3]
    look.pipeline.run_epoch([("-D", (n, "a", None)) for n in (1, 2, 3)], time_ms=2_600)
    with pytest.raises(KeyNotFound):
        look.inspector.history(("a",))
    assert look.inspector.counts()[:2] == (0, 3 - len([*seen, 3]))


def test_keys_are_paged_once_each_and_by_prefix(looks: Any) -> None:
    look = looks()
    names = [f"N{n:03d}" for n in range(40)] + ["a*b", "a?", 'say "hi"', "x,y", "日本"]
    look.pipeline.run_epoch([("+I", (n, name, None)) for n, name in enumerate(names)])

    def all_keys(prefix: str, limit: int) -> list[str]:
        found: list[str] = []
        start = None
        while True:
            part = look.inspector.list_keys(prefix, start, limit)
            assert len(part.items) <= limit
            found += [each.key[0] for each in part.items]
            start = part.position
            if start is None:
                return found

    for limit in (1, 3, 1_000):
        assert sorted(all_keys("", limit)) == sorted(names)
    assert sorted(all_keys("N01", 4)) == [f"N{n:03d}" for n in range(10, 20)]
    assert all_keys("a*", 4) == ["a*b"]
    assert all_keys('say "', 4) == ['say "hi"']
    assert all_keys("日", 4) == ["日本"]
    assert all_keys("nothing", 4) == []


def test_orphans_are_counted_and_listed_with_their_key(looks: Any) -> None:
    look = looks()
    look.pipeline.run_epoch([("-D", (n, f"k{n}", None)) for n in range(5)], time_ms=1_234)
    look.pipeline.run_epoch([("-U", (9, "k1", None))], time_ms=2_345)

    start, seen = None, []
    while True:
        part, count = look.inspector.orphans(start, 2)
        assert count == 6
        assert len(part.items) <= 2
        seen += part.items
        start = part.position
        if start is None:
            break

    assert sorted(
        (each["key"][0], each["op"], each["epoch"], each["time_ms"]) for each in seen
    ) == [
        ("k0", "-D", 1, 1_234),
        ("k1", "-D", 1, 1_234),
        ("k1", "-U", 2, 2_345),
        ("k2", "-D", 1, 1_234),
        ("k3", "-D", 1, 1_234),
        ("k4", "-D", 1, 1_234),
    ]
    assert look.inspector.counts() == (0, 6, 0, 2)


def test_rows_show_times_with_a_blank_and_nulls_as_null(looks: Any) -> None:
    from datetime import datetime

    look = looks()
    at = datetime(2013, 1, 1, 5, 15)  # noqa: DTZ001 - a TIMESTAMP has no zone
    look.pipeline.run_epoch([("+I", (1, "a", at)), ("+I", (2, "a", None))])

    rows = [each.row for each in look.inspector.history(("a",), limit=9).entries]

    assert rows == [
        {"id": 1, "name": "a", "at": "2013-01-01 05:15:00"},
        {"id": 2, "name": "a", "at": None},
    ]


def test_the_explanation_names_the_fallback(looks: Any) -> None:
    look = looks()
    look.pipeline.run_epoch([("+I", (n, "a", None)) for n in range(3)])

    history = look.inspector.history(("a",))
    why = explain(history)

    assert history.fallback is not None
    assert history.fallback.row["id"] == 1
    assert why.on_retraction == "update"
    assert "highest sequence number of the 3 live rows" in why.text
    assert "2 older rows wait behind it" in why.text
    assert f"falls back to entry {history.fallback.sequence_number}" in why.text


def test_the_explanation_of_a_single_row_says_that_it_would_be_deleted(looks: Any) -> None:
    look = looks()
    look.pipeline.run_epoch([("+I", (1, "a", None))])

    why = explain(look.inspector.history(("a",)))

    assert why.on_retraction == "delete"
    assert "only live row" in why.text
    assert "deleted from the sink" in why.text


def test_the_explanation_tells_when_the_sink_shows_another_row(looks: Any) -> None:
    look = looks(upsert_key=("id",))
    look.pipeline.run_epoch([("+I", (1, "a", None)), ("+I", (2, "a", None))])
    look.pipeline.run_epoch([("+U", (1, "a", None))])

    replaced = look.inspector.history(("a",), limit=9)
    assert [(each.row["id"], each.current, each.shown) for each in replaced.entries] == [
        (1, False, True),
        (2, True, False),
    ]
    assert "replaced in place" in explain(replaced).text

    look.pipeline.run_epoch([("-D", (1, "a", None))])
    gone = look.inspector.history(("a",))
    assert gone.shown is None
    assert "was retracted" in explain(gone).text


def test_a_glob_pattern_takes_nothing_of_a_prefix_for_a_wildcard() -> None:
    assert glob_of(b'["a*?[') == b'\\["a\\*\\?\\[*'
    assert glob_of(b"") is None
