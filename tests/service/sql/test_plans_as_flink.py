"""The same SQL gives the same plan as Flink's planner."""

from __future__ import annotations

import pytest

from service.plan import load_plan
from service.sql import SqlError, compile_script
from tests.oracles import RECORDED
from tests.oracles.cases import Case, Kind, find_cases
from tests.oracles.compile import compile_case, edge_modes
from tests.service.sql.recorded_plans import RecordedPlan, recorded_plans, reduced

ORACLES = (RECORDED / "plans", RECORDED / "plans-more")
PLACE_IS_KEY = "the upsert key of ranks that show their number: Flink names the rows' own key"
DIFFERENT = {
    "joins 107": "an INNER JOIN is kept, too: else deletes of rows that are not found stay",
    "group-windows cascade": "the name of the time of windows of windows",
    "group-windows proctime": "Flink leaves the projection out, and counts the time's column wrong",
    "group-windows proctime aux": "as the one before",
    "grouping-sets sets repeated": "a set that comes twice is refused by name",
    "listagg split": "LISTAGG beside a DISTINCT goes by order: nothing is split",
    "over lag proctime": "the name of the column of processing time",
    "over lead": "LEAD: Flink refuses it over streams",
    "over lag of changes": "LAG over changes, in the order of a time: Flink refuses it",
    "subqueries correlated single": "a correlated subquery that is no aggregate is refused",
    "subqueries exists aggregate": "EXISTS of a correlated aggregate is refused",
    "subqueries exists grouped": "EXISTS of correlated groups is refused",
    "subqueries in correlated agg": "IN a correlated aggregate is refused",
    "window-tables dedup with number": "the name of a rank that is always 1",
    "window-tables full join then aggregate left edges": "Flink fails in a rule; we name why",
    "window-tables full join then aggregate right edges": "Flink fails in a rule; we name why",
    "window-tables left join then aggregate right edges": "Flink fails in a rule; we name why",
    "window-tables right join then aggregate left edges": "Flink fails in a rule; we name why",
    "window-tables rollup over session": "Flink cuts sessions of repeated rows; we refuse them",
    "window-tables sets over aggregated windows": "the order of columns below the repetition",
    "aggregates 032": "the order of two columns below an aggregate whose join was left out",
    "aggregates 059": "names of columns: a projection that only renames is left out over HAVING",
    "pipelines a21": "SUM over the unique side of a join: Flink aggregates the other side first",
    "groups over sum": PLACE_IS_KEY,
    "groups over two aggregates": PLACE_IS_KEY,
    "ranks 039": PLACE_IS_KEY,
    "ranks 074": PLACE_IS_KEY,
    "ranks 029": "RANK() <= n: Flink plans a rank that it cannot run; we filter what OVER gives",
    "ranks 014": "ORDER BY a value without LIMIT: Flink plans it and cannot run it; we refuse it",
    "by-value beside a cast key": "a cast below the window: ours is above it",
    "by-value below a maximum": "Flink keeps a maximum that is gone",
    "by-value below a filter": "one projection more, of the columns that are used",
    "by-value below a rank": "Flink takes a count of rows that go for one that only grows",
    "by-value below a sum": "the name of a column that is only renamed",
    "by-value lag by two columns": "Flink plans LAG by one column, and cannot run it",
    "by-value lead": "LEAD: Flink refuses it over streams",
    "json json array order": "ORDER BY in it is refused: Flink drops it",
    "two-phase array two phase of row": "ARRAY_AGG of a row in two phases is refused by name",
    "merged-columns natural key column": "a plain name of NATURAL JOIN: Flink calls it ambiguous",
    "merged-columns natural where key": "as the one before",
    "merged-columns natural three": "Flink merges all three columns, of which one is enough",
    "merged-columns using three": "merged twice after a FULL JOIN: Flink compares half of it",
    "merged-columns using three inner": "as NATURAL JOIN of three",
    "merged-columns using three left": "as NATURAL JOIN of three",
    "merged-columns using three star": "as NATURAL JOIN of three",
    "merged-columns using full group": "the name of a merged column that is grouped by",
    "subqueries in or two": "what every part of an OR asks for is not asked for below",
    "correlated exists or null": "Flink joins by what is NULL, and finds nothing; we refuse it",
    "correlated in nullable above": "IN of what may be NULL, by other than equality, is refused",
    "correlated in right known": "as the one before: Flink counts rows of which none is NULL",
    "correlated in same key": "as the one before",
    "correlated in two columns": "correlated IN of several columns inside of OR is refused",
    "correlated in two known columns": "as the one before",
    "correlated not in nullable": "correlated NOT IN of what may be NULL is refused inside of OR",
    "subqueries not exists of the outer row": "the join asks what Flink computes below it",
    "subqueries in or expression": "the name of a column that a join compares",
    "conditions where false left join": "LEFT JOIN ON FALSE is a join",
    "set-operations-all except all one col used": "Flink leaves out columns that are compared",
    "set-operations-all intersect all one col used": "as the one before: another result",
    "unnest rank over unnest": "the name of an element below a rank",
    "unnest where eq": "the name of an element that is compared with a constant",
    "unnest where ord": "as the one before",
    "unnest where two": "the name of an element that is compared with a column beside it",
    "monotonicity mono semi a up": "a maximum of rows that deletions take back: Flink keeps it",
    "monotonicity mono top3 asc": "a minimum that NULL pushes out: Flink keeps it",
    "monotonicity mono top3 two": "as the one before",
    "pipelines q9": "a first row that another one replaces: Flink never takes it back",
    "hints-and-columns hint rank": "as q9",
    "hints-and-columns hint session rank": "as q9",
    "qualify qual x": "as q9",
    "qualify qual x desc, id": "as q9",
    "qualify qual rn column one": "as q9",
    "qualify qual expr": "as q9",
    "qualify qual distinct": "as q9",
    "ranks 019": "as q9",
    "unique-groups over rank": "as q9",
    "quantified above all": "rows that a condition of a join lets go: Flink keeps them",
    **dict.fromkeys(
        [
            *("quantified above all not null", "quantified above all not null right"),
            *("quantified above all not null left", "quantified at least all"),
            *("quantified below all", "quantified at most all", "quantified equal all not null"),
            *("quantified not any", "quantified or", "quantified having all"),
            *("quantified double", "repeated above"),
        ],
        "as the one before",
    ),
    "groups group window": "the name of a constant beside GROUP BY TUMBLE(..)",
    "groups twice": "a column that is grouped by under two names is grouped by twice",
    "groups split grouped": "a split DISTINCT of what is grouped by is spread, too",
    "groups average in group windows": "AVG of a group by TUMBLE(..) is computed",
    "monotonicity rank agg left v desc": "groups of padded rows go and come back",
    "quantified correlated": "a correlated subquery of ANY is refused by name",
    "quantified rows": "Flink compares the first columns alone; we refuse it",
    "quantified rows other": "as the one before",
    "neighbours default text to number": "a cast of a constant is a constant: Flink has a column",
    "neighbours offset column": "Flink forgets rows that the smallest offset does not reach",
    "repeated in and not": "what is asked for being true and for being false is joined twice",
    "repeated exists otherwise written": "EXISTS of other columns is joined once more",
    "metadata no cast": "Flink's message has the two types the other way round",
    "metadata of datagen": "Flink's message has the source's class in the place of the table",
    "written-metadata bigint": "told as of any type that is not cast",
    "written-metadata key in metadata": "as of any column that is not physical",
    "metadata where": "Flink's source of files takes the filter over, too",
    "quantified column named d": "Flink takes a column d of the input for its count",
}
"""Recorded plans that ours differ from, with the reason."""

cases = [
    case
    for folder in ORACLES
    for case in find_cases(folder)
    if case.kind is Kind.PLAN and (case.folder / "query.sql").exists()
]

KEYS_OF_PLACES = dict.fromkeys(
    ("A29_rank_sum_update_number", "A30_rank_min_update_fast"), "sink_2 /inputUpsertKey/1: 3, not 1"
)
"""`PLACE_IS_KEY`, where nothing reads the key: the sinks take retractions."""


@pytest.mark.parametrize("case", cases, ids=lambda case: case.folder.name)
def test_oracle(case: Case) -> None:
    """Every case of the recorded plans compiles to the plan that is recorded."""
    outcome = compile_case(case)
    difference = KEYS_OF_PLACES.get(case.folder.name)
    assert (outcome.difference, outcome.unsupported) == (difference, None)


@pytest.mark.parametrize("case", recorded_plans(), ids=lambda case: case.name)
def test_recorded(case: RecordedPlan) -> None:
    """Every recorded case compiles to Flink's plan, or is refused as by Flink, or is listed."""
    found = _difference(case)
    assert (found is not None) == (case.name in DIFFERENT), found


def _difference(case: RecordedPlan) -> str | None:
    try:
        planned = compile_script(case.sql)[-1]
    except SqlError as refusal:
        if case.plan is not None:
            return f"refused: {refusal}"
        is_same = refusal.reason.strip() in case.error or case.error in refusal.reason
        return None if is_same else f"another message: {refusal.reason}"
    if case.plan is None:
        return "the statement compiles"
    given = reduced(planned.document)
    if given != case.plan:
        return f"the plan is {given}"
    if case.modes and edge_modes(planned) != case.modes:
        return f"the edges carry {edge_modes(planned)}"
    if "TEMPORARY TABLE" not in case.sql:
        load_plan(planned.document)
    return None
