"""The batch definitions of `operators.testing` say what SQL says: SQLite computes the same tables.

The laws hold operators to these definitions, so a definition that is wrong would hold them to what
is wrong. Rows are few and small, with nulls and repeats; what SQLite has no word for (LISTAGG in
order, variances, the upsert view of a materializer) is not compared.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.testing.batch_aggregate import grouped
from operators.testing.batch_over import frames
from operators.testing.batch_rank import by_columns, live_rows, newest_versions, ranked
from operators.testing.batch_windows import sessions_of, windows_of
from operators.testing.joins import join_of
from tests.operators.aggregate import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row

NUMBERS = st.sampled_from([None, 0, 1, 2])
SIDES = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=7)


def sql(query: str, *arguments: object, **tables: tuple[str, Iterable[Row]]) -> Counter[Row]:
    """The bag that a query gives.

    Args:
        query: In SQLite's SQL.
        arguments: For its question marks.
        tables: By name, the columns and rows of each; `at` says the order of rows.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        for name, (columns, rows) in tables.items():
            database.execute(f"CREATE TABLE {name} ({columns}, at)")
            marks = ", ".join("?" * (columns.count(",") + 2))
            numbered = [(*row, at) for at, row in enumerate(rows)]
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", numbered)
        return Counter(database.execute(query, arguments).fetchall())


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

    said = sql(query, l=("k, v", left), r=("k, v", right))

    assert join_of(Counter(left), Counter(right), join_type, matches, (2, 2)) == said


AGGREGATES = {
    "COUNT": "COUNT({})",
    "SUM": "SUM({})",
    "$SUM0": "COALESCE(SUM({0}){1}, 0)",
    "AVG": "CAST(AVG({0}){1} AS INTEGER)",
    "MIN": "MIN({})",
    "MAX": "MAX({})",
}


@given(changes=calls.changelogs())
def test_group_aggregates(changes: list[Change]) -> None:
    """Each plainly, with DISTINCT, with FILTER, and with both; of what was not taken back."""
    wanted, said = [calls.call("COUNT", [])], ["COUNT(*)"]
    for function, text in AGGREGATES.items():
        for is_distinct in (False, True):
            for column in (None, 3):
                wanted.append(calls.call(function, [1], is_distinct=is_distinct, filter=column))
                argument = "DISTINCT v" if is_distinct else "v"
                chosen = "" if column is None else " FILTER (WHERE b)"
                whole = text.format(argument, chosen)
                said.append(whole if "FILTER" in whole or not chosen else whole + chosen)
    wanted += [calls.call("BOOL_AND"), calls.call("BOOL_OR")]
    said += ["MIN(b)", "MAX(b)"]

    left = [row for rows in live_rows(changes, (0,)) for row in rows]
    query = f"SELECT k, {', '.join(said)} FROM t GROUP BY k"
    found = Counter((*key, *row) for key, row in grouped(wanted, (0,), changes).items())

    assert found == sql(query, t=("k, v, s, b", left))


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
    order = f"p {'DESC' if is_descending else 'ASC'} NULLS {'LAST' if nulls_last else 'FIRST'}, at"
    query = f"""
        SELECT id, cat, p, rn
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cat ORDER BY {order}) AS rn FROM t)
        WHERE rn BETWEEN ? AND ?
    """
    keys = live_rows([Change(RowKind.INSERT, row) for row in rows], (1,))
    by = by_columns((2, is_descending, nulls_last))

    found = ranked(keys, by, start=start, end=end, with_number=True)

    assert Counter(found) == sql(query, start, end or 1_000, t=("id, cat, p", rows))


@given(rows=st.lists(RANKED, max_size=10))
def test_last_rows(rows: list[Row]) -> None:
    query = """
        SELECT id, cat, p
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cat, id ORDER BY at DESC) AS rn FROM t)
        WHERE rn = 1
    """
    found = newest_versions([Change(RowKind.INSERT, row) for row in rows], (0, 1))
    assert Counter(found) == sql(query, t=("id, cat, p", rows))


TIMED = st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 9), NUMBERS)


@given(rows=st.lists(TIMED, max_size=10), preceding=st.sampled_from([None, 0, 1, 3]))
def test_frames_of_over(rows: list[Any], preceding: int | None) -> None:
    reach = "UNBOUNDED" if preceding is None else str(preceding)
    for is_rows in (True, False):
        frame, order = ("ROWS", "ts, at") if is_rows else ("RANGE", "ts")
        over = (
            f"(PARTITION BY k ORDER BY {order} {frame} BETWEEN {reach} PRECEDING AND CURRENT ROW)"
        )
        query = f"SELECT k, ts, v, SUM(v) OVER {over}, COUNT(*) OVER {over} FROM t"
        given_rows = [(key, ts, (key, ts, value)) for key, ts, value in rows]

        found = frames(given_rows, is_rows=is_rows, preceding=preceding)

        said = sql(query, t=("k, ts, v", rows))
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
    starts = f"SELECT at * {size if cumulates else every} AS begin FROM numbers"
    ends = (
        f"SELECT begin, begin + n * {every} AS finish FROM s, steps"
        if cumulates
        else f"SELECT begin, begin + {size} AS finish FROM s"
    )
    query = f"""
        WITH RECURSIVE numbers(at) AS (VALUES (-60) UNION ALL SELECT at + 1 FROM numbers
                                       WHERE at < 60),
             steps(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM steps WHERE n < {size // every}),
             s AS ({starts}), w AS ({ends})
        SELECT ts, begin, finish FROM t JOIN w ON ts >= begin AND ts < finish
    """
    found = Counter(
        (at, span.start, span.end)
        for at in times
        for span in windows_of(at, size, every, cumulates=cumulates)
    )
    assert found == sql(query, t=("ts", [(each,) for each in times]))


@given(times=st.lists(st.integers(0, 25), max_size=8), gap=st.integers(1, 4))
def test_sessions(times: list[int], gap: int) -> None:
    query = """
        WITH marked AS (SELECT ts, at, ts - LAG(ts) OVER (ORDER BY ts, at) > ? AS is_first FROM t),
             numbered AS (SELECT ts, SUM(COALESCE(is_first, 1)) OVER (ORDER BY ts, at) AS n
                          FROM marked)
        SELECT MIN(ts), MAX(ts) + ?, COUNT(*) FROM numbered GROUP BY n
    """
    found = Counter((span.start, span.end, len(mine)) for span, mine in sessions_of(times, gap))
    assert found == sql(query, gap, gap, t=("ts", [(each,) for each in times]))
