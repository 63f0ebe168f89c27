"""Look-up joins: what is emitted, what is asked for and when, and tables of every kind."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec, LookupFailed
from operators.join.lookup import LookupJoin, LookupJoinSpec, LookupKey
from operators.join.lookup_table import (
    CachedTable,
    FileTable,
    HashTable,
    LookupCache,
    LookupRetry,
    MemoryTable,
    RetryingTable,
    TableFiles,
    TableHash,
    TableRows,
    open_table,
)
from operators.spec import InputSpec, RowSpec
from operators.testing.joins import bags, changelogs, join_of, never_below_zero
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.types import parse_type
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import redis

    from operators.changelog import Row

INT, STRING = parse_type("INT"), parse_type("STRING")
TABLE = RowSpec(types=(INT, STRING), names=("pid", "nm"))
ROWS = ('[1,"one"]', '[2,"two"]', '[2,"deux"]', '[null,"none"]')


def spec(join_type: str = "LEFT", **fields: Any) -> LookupJoinSpec:
    """Orders (id, pid) with the table by pid."""
    row = InputSpec(types=(INT, INT), names=("id", "pid"), key=(1,))
    materializes = fields.get("materializes", False)
    given: dict[str, Any] = {
        "inputs": (row.model_copy(update={"key": (0,)}) if materializes else row,),
        "output": RowSpec(types=(*row.types, *TABLE.types), names=("id", "pid", "pid0", "nm")),
        "join_type": join_type,
        "table": TableRows(rows=ROWS),
        "table_row": TABLE,
        "projected": TABLE,
        "keys": (LookupKey(column=0, field=1),),
        **fields,
    }
    return LookupJoinSpec.build(**given)


ONE, TWO, DEUX, NONE = (1, "one"), (2, "two"), (2, "deux"), (None, None)


def test_each_row_meets_all_rows_of_its_key() -> None:
    steps = [insert(10, 1), insert(11, 2), insert(12, 9), insert(13, None)]
    assert OperatorHarness.on_heap(spec()).run(steps) == [
        insert(10, 1, *ONE),
        insert(11, 2, *TWO),
        insert(11, 2, *DEUX),
        insert(12, 9, *NONE),
        insert(13, None, *NONE),
    ]
    assert OperatorHarness.on_heap(spec("INNER")).run(steps[2:]) == []


def test_without_materialization_kinds_pass_and_nothing_is_kept() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [update_before(10, 1), update_after(10, 9), delete(10, 9)]
    assert harness.run(steps) == [
        update_before(10, 1, *ONE),
        update_after(10, 9, *NONE),
        delete(10, 9, *NONE),
    ]
    assert harness.stored_names() == set()


@pytest.mark.parametrize("join_type", ["LEFT", "INNER"])
def test_materialization_takes_back_what_was_emitted(join_type: str) -> None:
    harness = OperatorHarness.on_heap(spec(join_type, materializes=True))
    padded = [insert(11, 9, *NONE), delete(11, 9, *NONE)] if join_type == "LEFT" else []
    assert harness.run([insert(10, 2)]) == [insert(10, 2, *TWO), insert(10, 2, *DEUX)]
    harness.restart(spec(join_type, materializes=True, table=TableRows(rows=('[2,"new"]',))))
    assert harness.run([update_before(10, 2), update_after(10, 2)]) == [
        delete(10, 2, *TWO),
        delete(10, 2, *DEUX),
        update_after(10, 2, 2, "new"),
    ]
    assert harness.run([insert(11, 9), delete(11, 9)]) == padded
    harness.run([delete(10, 2)])
    assert harness.stored_names() == set()


def test_an_update_without_minus_u_replaces_what_is_kept() -> None:
    harness = OperatorHarness.on_heap(spec("INNER", materializes=True))
    assert harness.run([insert(10, 2), update_after(10, 1), delete(10, 1)])[2:] == [
        update_after(10, 1, *ONE),
        delete(10, 1, *ONE),
    ]


def test_a_retraction_of_what_is_not_kept_is_an_orphan() -> None:
    left = OperatorHarness.on_heap(spec("LEFT", materializes=True, ttl_ms=(10,)))
    assert left.run([insert(10, 1), At(10), delete(10, 1)])[1:] == [delete(10, 1, *NONE)]
    assert left.statistics[-1]["orphans"] == 1
    inner = OperatorHarness.on_heap(spec("INNER", materializes=True))
    assert inner.run([delete(10, 1)]) == []


def test_keys_may_hold_constants() -> None:
    keys = (LookupKey(column=0, field=1), LookupKey(column=1, constant='["deux"]'))
    harness = OperatorHarness.on_heap(spec("INNER", keys=keys))
    assert harness.run([insert(10, 1), insert(11, 2)]) == [insert(11, 2, *DEUX)]


class CountingTable:
    """Counts what a table is asked for."""

    def __init__(self) -> None:
        rows: list[Row] = [ONE, TWO, DEUX]
        self._table = MemoryTable(rows, TABLE, (0,))
        self.asked: list[list[bytes]] = []

    def begin(self, now_ms: int) -> None:
        self._table.begin(now_ms)

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        self.asked.append(list(keys))
        return self._table.fetch(keys)


def test_an_epoch_asks_for_all_its_keys_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = CountingTable()
    monkeypatch.setattr("operators.join.lookup.open_table", lambda *given: table)
    harness = OperatorHarness.on_heap(spec())
    harness.run([insert(at, at % 7) for at in range(1, 50)])
    (asked,) = table.asked
    assert sorted(asked) == [b"[%d]" % at for at in range(7)]
    harness.run([insert(1, 1), insert(2, 1), insert(3, 1)])
    assert table.asked[1:] == [[b"[1]"]]


def test_a_spec_refuses_keys_that_do_not_fit() -> None:
    for keys in (
        (),
        (LookupKey(column=7, field=0),),
        (LookupKey(column=0, field=7),),
        (LookupKey(column=0),),
        (LookupKey(column=0, field=0, constant="[1]"),),
    ):
        with pytest.raises(InvalidSpec):
            spec(keys=keys)


CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from(list(RowKind)),
        st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 9, None])),
    ),
    max_size=12,
)


@given(changes=CHANGES, size=st.integers(1, 4), materializes=st.booleans(), data=st.data())
def test_the_same_whatever_is_answered_when(
    changes: list[Change], size: int, materializes: bool, data: st.DataObject
) -> None:
    joined = spec(materializes=materializes)
    plain = OperatorHarness.on_heap(joined)
    other = answered_any_way(joined, data)
    assert other.run(changes, epoch_changes=size) == plain.run(changes)


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    joined = spec(materializes=True)
    changes = [insert(1, 1), insert(2, 2), delete(1, 1), update_after(2, 1), delete(2, 1)]
    heap, remote = OperatorHarness.on_heap(joined), OperatorHarness.on_redis(joined, redis_client)
    assert remote.run(changes, epoch_changes=2) == heap.run(changes, epoch_changes=2)
    remote.close()


KEY = b"[2]"


def files(tmp_path: Path, text: str, *, with_op: bool = True, path: str = "d.jsonl") -> FileTable:
    (tmp_path / "d.jsonl").write_text(text)
    source = TableFiles(root=str(tmp_path), path=path, with_op=with_op)
    return FileTable(source, TABLE, (0,))


def test_a_file_of_changes_is_what_is_left_of_them(tmp_path: Path) -> None:
    lines = [
        '{"op":"+I","data":{"pid":2,"nm":"two"}}',
        '{"op":"+I","data":{"pid":2,"nm":"deux"}}',
        '{"op":"+I","data":{"pid":2,"nm":"two"}}',
        '{"op":"-D","data":{"pid":2,"nm":"two"}}',
        '{"op":"-D","data":{"pid":5,"nm":"never"}}',
    ]
    table = files(tmp_path, "\n".join(lines))
    assert table.fetch([KEY, b"[5]"]) == [[DEUX, TWO], ()]


def test_a_changed_file_counts_from_the_next_epoch_on(tmp_path: Path) -> None:
    table = files(tmp_path, '{"pid":2,"nm":"two"}\n', with_op=False)
    assert table.fetch([KEY]) == [[TWO]]
    (tmp_path / "d.jsonl").write_text('{"pid":2,"nm":"deux"}\n')
    os.utime(tmp_path / "d.jsonl", ns=(1, 1))
    assert table.fetch([KEY]) == [[TWO]]
    table.begin(1)
    assert table.fetch([KEY]) == [[DEUX]]


def test_a_folder_is_all_its_visible_files(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    (folder / "part").mkdir(parents=True)
    (folder / "b.jsonl").write_text('{"pid":2,"nm":"deux"}')
    (folder / "a.jsonl").write_text('{"pid":2,"nm":"two"}')
    (folder / "part" / "_hidden").write_text("no row")
    table = files(tmp_path, "", with_op=False, path="table")
    assert table.fetch([KEY]) == [[TWO, DEUX]]


def test_files_that_cannot_be_a_table_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text('{"pid":2,"nm":"secret"}')
    (root / "link").symlink_to(tmp_path / "secret")
    for path, reason in (("link", "out of"), ("../secret", "out of"), ("none", "no file")):
        with pytest.raises(LookupFailed, match=reason):
            files(root, "", path=path).fetch([KEY])
    with pytest.raises(LookupFailed, match="1 lines are not valid rows"):
        files(root, '{"op":"+I","data":{"pid":"x"}}').fetch([KEY])
    with pytest.raises(LookupFailed, match="without the folder"):
        FileTable(TableFiles(path="d.jsonl"), TABLE, (0,))


def test_files_may_have_so_many_bytes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is far above what a test should write."""
    line = '{"pid":2,"nm":"two"}\n'
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "a.jsonl").write_text(line)
    monkeypatch.setattr("operators.join.lookup_table.BYTES_MAX", 2 * len(line) - 1)
    table = files(tmp_path, "", with_op=False, path="table")
    assert table.fetch([KEY]) == [[TWO]]
    (folder / "b.jsonl").write_text(line)
    table.begin(1)
    with pytest.raises(LookupFailed, match="more than 41 bytes"):
        table.fetch([KEY])
    monkeypatch.setattr("operators.join.lookup_table.BYTES_MAX", 2 * len(line))
    assert table.fetch([KEY]) == [[TWO, TWO]]


def test_states_are_known_without_the_table() -> None:
    """Whoever registers them has neither the files' root nor the address of Redis."""
    for table in (TableFiles(path="d.jsonl"), TableHash(name="t")):
        operator = spec(table=table, materializes=True).operator()
        assert [each.name for each in operator.descriptors] == ["lookupJoinState"]


def test_a_join_with_files(tmp_path: Path) -> None:
    files(tmp_path, '{"op":"+I","data":{"pid":1,"nm":"one"}}')
    table = TableFiles(root=str(tmp_path), path="d.jsonl")
    joined = spec("INNER", table=table, cache=LookupCache())
    assert OperatorHarness.on_heap(joined).run([insert(10, 1)]) == [insert(10, 1, *ONE)]
    assert isinstance(joined.operator(), LookupJoin)


def test_a_hash_in_redis_is_asked_by_its_primary_key(redis_client: redis.Redis) -> None:
    redis_client.hset("t", "[1]", '{"pid":1,"nm":"one"}')
    redis_client.hset("t", "[3]", '{"pid":"no"}')
    port = redis_client.connection_pool.connection_kwargs["port"]
    source = TableHash(url=f"redis://localhost:{port}", name="t")
    assert HashTable(source, TABLE).fetch([b"[1]", KEY]) == [(ONE,), ()]
    with pytest.raises(LookupFailed, match="not a row of it"):
        HashTable(source, TABLE).fetch([b"[3]"])
    joined = OperatorHarness.on_heap(spec("INNER", table=source))
    assert joined.run([insert(10, 1), insert(11, 2)]) == [insert(10, 1, *ONE)]


def test_a_hash_that_nobody_keeps_any_more_fails_the_look_up(redis_client: redis.Redis) -> None:
    port = redis_client.connection_pool.connection_kwargs["port"]
    source = TableHash(url=f"redis://localhost:{port}", name="t", owner="record")
    table = HashTable(source, TABLE)
    redis_client.set("record", "there")
    assert table.fetch([KEY]) == [()]
    redis_client.delete("record")
    with pytest.raises(LookupFailed, match="not there any more"):
        table.fetch([KEY])


def test_a_redis_that_is_away_fails_the_look_up() -> None:
    away = TableHash(url="redis://localhost:1", name="t", timeout_ms=200)
    with pytest.raises(LookupFailed, match="ConnectionError"):
        HashTable(away, TABLE).fetch([KEY])


@given(
    given=changelogs(
        [st.tuples(st.integers(10, 12), st.sampled_from([None, 1, 2, 9]))], [(0,)], size_max=10
    ),
    join_type=st.sampled_from(["INNER", "LEFT"]),
    materializes=st.booleans(),
    size=st.integers(1, 4),
)
def test_of_a_table_that_stays_the_join_is_that_of_a_batch(
    given: list[Of], join_type: str, materializes: bool, size: int
) -> None:
    harness = OperatorHarness.on_heap(spec(join_type, materializes=materializes))
    table = Counter([ONE, TWO, DEUX, (None, "none")])
    emitted: list[Change] = []
    for at in range(0, len(given), size):
        emitted += harness.run(given[at : at + size])
        (orders,) = bags(given[: at + size], 1)
        matches = join_of(
            orders,
            table,
            join_type,
            lambda one, other: one[1] is not None and one[1] == other[0],
            (2, 2),
        )
        assert never_below_zero(emitted) == matches


@pytest.mark.parametrize(
    ("cache", "asked"),
    [
        (LookupCache(), [[0, 2], [], []]),
        (LookupCache(caches_missing=False), [[0, 2], [0], [0]]),
        (LookupCache(expire_after_write_ms=6), [[0, 2], [], [0, 2]]),
        (LookupCache(expire_after_access_ms=6), [[0, 2], [], []]),
        (LookupCache(expire_after_access_ms=5), [[0, 2], [0, 2], [0, 2]]),
        (LookupCache(keys_max=1), [[0, 2], [0], [2]]),
    ],
)
def test_what_a_cache_remembers(cache: LookupCache, asked: list[list[int]]) -> None:
    table = CountingTable()
    cached = CachedTable(table, cache)
    found = []
    for now_ms in (0, 5, 10):
        cached.begin(now_ms)
        before = len(table.asked)
        assert cached.fetch([b"[0]", KEY]) == [(), [TWO, DEUX]]
        found.append([int(key[1:-1]) for keys in table.asked[before:] for key in keys])
    assert found == asked


class LateRows:
    """A table to which a row comes with each wait; it stands still while it is asked."""

    def __init__(self, *rows: Row) -> None:
        self.coming = [*rows]
        self.here: list[Row] = []
        self.seen: list[Row] = []
        self.waits: list[float] = []
        self.asked: list[Sequence[bytes]] = []

    def begin(self, now_ms: int) -> None:
        self.seen = [*self.here]

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        self.asked.append(keys)
        return MemoryTable(self.seen, TABLE, (0,)).fetch(keys)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.here += [self.coming.pop(0)] if self.coming else []


def test_keys_without_rows_are_asked_for_again_together() -> None:
    late = LateRows(ONE, TWO)
    table = RetryingTable(late, LookupRetry(retries_max=3, delay_ms=500), late.wait)
    table.begin(0)

    assert table.fetch([b"[1]", b"[2]", b"[9]"]) == [[ONE], [TWO], ()]
    first = [b"[1]", b"[2]", b"[9]"]
    assert late.asked == [first, first, [b"[2]", b"[9]"], [b"[9]"]]
    assert late.waits == [0.5] * 3

    assert table.fetch([b"[1]"]) == [[ONE]]
    assert late.waits == [0.5] * 3


def test_the_waits_of_an_epoch_are_bounded() -> None:
    late = LateRows()
    table = RetryingTable(late, LookupRetry(retries_max=2, delay_ms=25_000), late.wait)
    for _ in range(2):
        late.waits.clear()
        table.begin(0)
        assert table.fetch([b"[1]"]) == table.fetch([b"[2]"]) == [()]
        assert late.waits == [25.0] * 2


def test_a_join_asks_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file gets its row while the epoch waits."""
    file = tmp_path / "d.jsonl"
    file.write_text("")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        file.write_text('{"op":"+I","data":{"pid":1,"nm":"one"}}\n')

    def opened(source: Any, row: RowSpec, key: Any, cache: Any, retry: Any) -> RetryingTable:
        assert isinstance(open_table(source, row, key, cache, retry), RetryingTable)
        return RetryingTable(open_table(source, row, key, cache), retry, wait)

    monkeypatch.setattr("operators.join.lookup.open_table", opened)
    files = TableFiles(root=str(tmp_path), path="d.jsonl")
    harness = OperatorHarness.on_heap(
        spec(table=files, retry=LookupRetry(retries_max=5, delay_ms=100))
    )

    assert harness.run([insert(10, 1), insert(11, 1)]) == [
        insert(10, 1, *ONE),
        insert(11, 1, *ONE),
    ]
    assert waits == [0.1]
