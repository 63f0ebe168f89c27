"""The batch definitions of `operators.testing` say what SQL says: DuckDB computes the same tables.

The laws hold operators to these definitions, so a definition that is wrong would hold them to what
is wrong. Rows are few and small, with nulls and repeats.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.errors import PrimaryKeyConflict
from operators.testing.batch import UpsertView
from operators.testing.batch_aggregate import grouped
from operators.testing.batch_compacting import CompactedView
from operators.testing.batch_over import frames
from operators.testing.batch_rank import by_columns, live_rows, newest_versions, ranked
from operators.testing.batch_windows import sessions_of, windows_of
from operators.testing.joins import join_of
from tests.batch_sql import batch_sql
from tests.operators.aggregate import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row

NUMBERS = st.sampled_from([None, 0, 1, 2])
SIDES = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=7)


def sql(query: str, *arguments: object, **tables: tuple[str, Iterable[Row]]) -> Counter[Row]:
    """The bag that a query gives; see `batch_sql`."""
    return Counter(map(hashable, batch_sql(query, *arguments, **tables)))


def hashable(value: Any) -> Any:
    """A row or list as a tuple, a map as the tuple of its entries in order."""
    if isinstance(value, dict):
        return hashable(sorted(value.items()))
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else value


@st.composite
def streams(draw: st.DrawFn, rows: st.SearchStrategy[Row], identity: int) -> list[Change]:
    """Changes that take back rows that are there, or others that begin with as many columns."""
    live: list[Row] = []
    found = []
    for _ in range(draw(st.integers(0, 16))):
        row = draw(rows)
        if live and draw(st.sampled_from([True, False, False])):
            there = live.pop(draw(st.integers(0, len(live) - 1)))
            found.append(Change(RowKind.DELETE, there[:identity] + row[identity:]))
        else:
            if identity < len(row):
                live = [each for each in live if each[:identity] != row[:identity]]
            live.append(row)
            found.append(Change(RowKind.INSERT, row))
    return found


@given(
    left=SIDES,
    right=SIDES,
    join_type=st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]),
    is_null_safe=st.booleans(),
    has_condition=st.booleans(),
)
def test_joins(
    left: list[Row], right: list[Row], join_type: str, is_null_safe: bool, has_condition: bool
) -> None:
    def matches(one: Any, other: Any) -> bool:
        keys_match = one[0] == other[0] and (is_null_safe or one[0] is not None)
        if not has_condition:
            return bool(keys_match)
        return bool(keys_match and None not in (one[1], other[1]) and one[1] < other[1])

    on = "l.k IS NOT DISTINCT FROM r.k" if is_null_safe else "l.k = r.k"
    on += " AND l.v < r.v" if has_condition else ""
    if join_type in ("SEMI", "ANTI"):
        found = "EXISTS" if join_type == "SEMI" else "NOT EXISTS"
        query = f"SELECT k, v FROM l WHERE {found} (SELECT 1 FROM r WHERE {on})"
    else:
        query = f"SELECT l.k, l.v, r.k, r.v FROM l {join_type} JOIN r ON {on}"

    said = sql(query, l=("k INTEGER, v INTEGER", left), r=("k INTEGER, v INTEGER", right))

    assert join_of(Counter(left), Counter(right), join_type, matches, (2, 2)) == said


IN_ANY_ORDER = {
    "COUNT": "COUNT({})",
    "SUM": "SUM({})",
    "$SUM0": "COALESCE(SUM({}), 0)",
    "AVG": "CAST(TRUNC(AVG({})) AS INTEGER)",
    "MIN": "MIN({})",
    "MAX": "MAX({})",
    "VAR_POP": "CAST(TRUNC(ROUND(VAR_POP({}), 6)) AS INTEGER)",
    "VAR_SAMP": "CAST(TRUNC(ROUND(VAR_SAMP({}), 6)) AS INTEGER)",
    "BIT_AND": "BIT_AND({})",
    "BIT_OR": "BIT_OR({})",
    "BIT_XOR": "BIT_XOR({})",
}


@given(changes=calls.changelogs())
def test_group_aggregates(changes: list[Change]) -> None:
    """Each plainly, with DISTINCT, with FILTER, and with both; of what was not taken back."""
    wanted, said = [calls.call("COUNT", [])], ["COUNT(*)"]
    for function, text in IN_ANY_ORDER.items():
        for is_distinct in (False, True):
            for column in (None, 3):
                wanted.append(calls.call(function, [1], is_distinct=is_distinct, filter=column))
                argument = "v" if column is None else "CASE WHEN b THEN v END"
                said.append(text.format(f"DISTINCT {argument}" if is_distinct else argument))
    wanted += [calls.call("BOOL_AND"), calls.call("BOOL_OR"), calls.call("COLLECT")]
    said += ["BOOL_AND(b)", "BOOL_OR(b)", "COALESCE(HISTOGRAM(s), MAP {})"]

    left = [row for rows in live_rows(changes, (0,)) for row in rows]
    query = f"SELECT k, {', '.join(said)} FROM t GROUP BY k"
    found = Counter(hashable((*key, *row)) for key, row in grouped(wanted, (0,), changes).items())

    assert found == sql(query, t=("k VARCHAR, v INTEGER, s VARCHAR, b BOOLEAN", left))


IN_ORDER = {
    "LISTAGG": "STRING_AGG(s, ',' ORDER BY n)",
    "FIRST_VALUE": "FIRST(s ORDER BY n) FILTER (s IS NOT NULL)",
    "LAST_VALUE": "LAST(s ORDER BY n) FILTER (s IS NOT NULL)",
    "ARRAY_AGG": "LIST(s ORDER BY n) FILTER (s IS NOT NULL)",
}
NOT_TAKEN_BACK = """
    SELECT p.* EXCLUDE (nth)
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, s ORDER BY n) AS nth FROM t WHERE adds) AS p
    LEFT JOIN (SELECT k, s, COUNT(*) AS times FROM t WHERE NOT adds GROUP BY k, s) AS g
    ON p.k = g.k AND p.s IS NOT DISTINCT FROM g.s
    WHERE nth > COALESCE(times, 0)
"""
"""What is taken back of a text is the oldest that is equal."""


@given(changes=streams(calls.rows, 4))
def test_group_aggregates_in_the_order_of_rows(changes: list[Change]) -> None:
    wanted = [*map(calls.call, IN_ORDER), calls.call("ARRAY_AGG", ignores_null=False)]
    said = [*IN_ORDER.values(), "LIST(s ORDER BY n)"]
    came = [(each.row[0], each.row[2], not each.kind.is_retraction) for each in changes]
    query = f"SELECT k, {', '.join(said)} FROM ({NOT_TAKEN_BACK}) GROUP BY k"

    found = Counter(hashable((*key, *row)) for key, row in grouped(wanted, (0,), changes).items())

    assert found == sql(query, t=("k VARCHAR, s VARCHAR, adds BOOLEAN", came))


ENTRIES = st.tuples(st.sampled_from("aab"), st.integers(1, 2), st.sampled_from([None, 1, 2]))
"""The sink's key, the stream's, and a value."""
TOLD = "k VARCHAR, id INTEGER, v INTEGER, adds BOOLEAN, stamp INTEGER"


def told(changes: Iterable[Change], stamp: int = 0) -> list[Row]:
    return [(*each.row, not each.kind.is_retraction, stamp) for each in changes]


def histories_by_sql(query: str, changes: list[Change]) -> list[list[Row]]:
    histories: dict[object, list[Row]] = {}
    for row in batch_sql(f"SELECT k, id, v FROM ({query}) ORDER BY k, n", t=(TOLD, told(changes))):
        histories.setdefault(row[0], []).append(row)
    return list(histories.values())


@given(changes=streams(ENTRIES, 3))
def test_histories_without_an_upsert_key(changes: list[Change]) -> None:
    """A retraction takes the oldest equal row; the newest of what is left is shown."""
    query = NOT_TAKEN_BACK.replace("k, s", "k, id, v").replace(
        "p.s IS NOT DISTINCT FROM g.s", "p.id = g.id AND p.v IS NOT DISTINCT FROM g.v"
    )
    histories, view = histories_by_sql(query, changes), UpsertView((0,), None)

    table: dict[object, Row] = {}
    apply(filter(None, map(view.apply, changes)), table)

    assert sorted(view.histories(), key=repr) == sorted(histories, key=repr)
    assert table == {history[0][0]: history[-1] for history in histories}


@given(changes=streams(ENTRIES, 2))
def test_histories_with_an_upsert_key(changes: list[Change]) -> None:
    """A row takes the place of the one that has its upsert key, unless that was taken back.

    What is shown need not be the newest then, and is not compared.
    """
    query = """
        SELECT k, id, FIRST(v ORDER BY n DESC) AS v, MIN(n) AS n
        FROM (SELECT *, MAX(n) FILTER (NOT adds) OVER (PARTITION BY k, id) AS taken FROM t)
        WHERE n > COALESCE(taken, -1)
        GROUP BY k, id
    """
    view = UpsertView((0,), (0, 1))
    for each in changes:
        view.apply(each)
    histories = histories_by_sql(query, changes)
    assert sorted(view.histories(), key=repr) == sorted(histories, key=repr)


def apply(changes: Iterable[Change], table: dict[object, Row]) -> None:
    """Apply changes to a table whose key is the first column."""
    for change in changes:
        if change.kind is RowKind.DELETE:
            del table[change.row[0]]
        else:
            table[change.row[0]] = change.row


@pytest.mark.parametrize("keeps_first", [False, True], ids=["DO ERROR", "DO NOTHING"])
@given(changes=streams(ENTRIES, 3), ends=st.sets(st.integers(1, 15)), data=st.data())
def test_what_a_watermark_compacts(
    keeps_first: bool, changes: list[Change], ends: set[int], data: st.DataObject
) -> None:
    """Up to the first conflict: two rows of a key are there at one time.

    What DO NOTHING keeps from there on depends on all that was refused before, and is not compared.
    """
    bounds = [0, *sorted(ends), len(changes)]
    parts = [changes[start:end] for start, end in pairwise(bounds)]
    came = [row for stamp, each in enumerate(parts) for row in told(each, stamp)]
    query = """
        SELECT moment, k, FIRST(id), FIRST(v), SUM(times)
        FROM (SELECT moment, k, id, v, SUM(CASE WHEN adds THEN 1 ELSE -1 END) AS times
              FROM (SELECT DISTINCT stamp AS moment FROM t) JOIN t ON stamp <= moment
              GROUP BY moment, k, id, v)
        WHERE times > 0
        GROUP BY moment, k
    """
    tables: dict[int, dict[object, Row]] = {}
    conflicts = []
    for moment, key, identity, value, count in batch_sql(query, t=(TOLD, came)):
        tables.setdefault(moment, {})[key] = (key, identity, value)
        conflicts += [moment] if count > 1 else []

    view = CompactedView((0,), (), keeps_first=keeps_first)
    table: dict[object, Row] = {}
    for stamp, part in enumerate(parts):
        for change in data.draw(st.permutations(part)):
            view.put(change, stamp)
        if stamp in conflicts and keeps_first:
            return
        if stamp in conflicts:
            with pytest.raises(PrimaryKeyConflict):
                view.advance(stamp + 1)
            return
        apply(view.advance(stamp + 1), table)
        if part:
            assert table == tables.get(stamp, {})


RANKED = st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.sampled_from([None, 1, 2]))


@given(
    rows=st.lists(RANKED, max_size=10),
    limits=st.sampled_from([(1, 1), (1, 2), (2, 3), (2, None)]),
    is_descending=st.booleans(),
    nulls_last=st.booleans(),
)
def test_ranks_and_first_rows(
    rows: list[Row], limits: tuple[int, int | None], is_descending: bool, nulls_last: bool
) -> None:
    """Deduplication by time is the first rank."""
    start, end = limits
    order = f"p {'DESC' if is_descending else 'ASC'} NULLS {'LAST' if nulls_last else 'FIRST'}, n"
    query = f"""
        SELECT id, cat, p, rn
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cat ORDER BY {order}) AS rn FROM t)
        WHERE rn BETWEEN ? AND ?
    """
    keys = live_rows([Change(RowKind.INSERT, row) for row in rows], (1,))
    by = by_columns((2, is_descending, nulls_last))

    found = ranked(keys, by, start=start, end=end, with_number=True)

    assert Counter(found) == sql(
        query, start, end or 1_000, t=("id INTEGER, cat VARCHAR, p INTEGER", rows)
    )


@given(rows=st.lists(RANKED, max_size=10))
def test_last_rows(rows: list[Row]) -> None:
    query = """
        SELECT id, cat, p
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cat, id ORDER BY n DESC) AS rn FROM t)
        WHERE rn = 1
    """
    found = newest_versions([Change(RowKind.INSERT, row) for row in rows], (0, 1))
    assert Counter(found) == sql(query, t=("id INTEGER, cat VARCHAR, p INTEGER", rows))


TIMED = st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 9), NUMBERS)


@given(rows=st.lists(TIMED, max_size=10), preceding=st.sampled_from([None, 0, 1, 3]))
def test_frames_of_over(rows: list[Any], preceding: int | None) -> None:
    reach = "UNBOUNDED" if preceding is None else str(preceding)
    for is_rows in (True, False):
        frame, order = ("ROWS", "ts, n") if is_rows else ("RANGE", "ts")
        over = (
            f"(PARTITION BY k ORDER BY {order} {frame} BETWEEN {reach} PRECEDING AND CURRENT ROW)"
        )
        query = f"SELECT k, ts, v, SUM(v) OVER {over}, COUNT(*) OVER {over} FROM t"
        given_rows = [(key, ts, (key, ts, value)) for key, ts, value in rows]

        found = frames(given_rows, is_rows=is_rows, preceding=preceding)

        said = sql(query, t=("k VARCHAR, ts INTEGER, v INTEGER", rows))
        assert (
            Counter((*row, _sum(frame_rows), len(frame_rows)) for row, frame_rows in found) == said
        )


def _sum(rows: Sequence[Any]) -> int | None:
    values = [value for _, _, value in rows if value is not None]
    return sum(values) if values else None


@given(
    times=st.lists(st.integers(-20, 20), max_size=8),
    shape=st.sampled_from(
        [(5, 5, False), (6, 3, False), (5, 2, False), (2, 5, False), (6, 2, True)]
    ),
)
def test_tumbling_hopping_and_cumulating_windows(
    times: list[int], shape: tuple[int, int, bool]
) -> None:
    size, every, cumulates = shape
    starts = f"SELECT i * {size if cumulates else every} AS start FROM RANGE(-60, 60) AS r(i)"
    ends = f"SELECT start, start + {size} AS finish FROM s"
    if cumulates:
        steps = f"RANGE(1, {size // every + 1}) AS r(i)"
        ends = f"SELECT start, start + i * {every} AS finish FROM s, {steps}"
    query = f"""
        WITH s AS ({starts}), w AS ({ends})
        SELECT ts, start, finish FROM t JOIN w ON ts >= start AND ts < finish
    """
    found = Counter(
        (at, span.start, span.end)
        for at in times
        for span in windows_of(at, size, every, cumulates=cumulates)
    )
    assert found == sql(query, t=("ts INTEGER", [(each,) for each in times]))


@given(times=st.lists(st.integers(0, 25), max_size=8), gap=st.integers(1, 4))
def test_sessions(times: list[int], gap: int) -> None:
    query = """
        WITH marked AS (SELECT ts, n, ts - LAG(ts) OVER (ORDER BY ts, n) > ? AS is_first FROM t),
             numbered AS (SELECT ts, COUNT(*) FILTER (COALESCE(is_first, true))
                              OVER (ORDER BY ts, n) AS session
                          FROM marked)
        SELECT MIN(ts), MAX(ts) + ?, COUNT(*) FROM numbered GROUP BY session
    """
    found = Counter((span.start, span.end, len(mine)) for span, mine in sessions_of(times, gap))
    assert found == sql(query, gap, gap, t=("ts INTEGER", [(each,) for each in times]))
