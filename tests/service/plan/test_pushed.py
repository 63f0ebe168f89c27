"""What a source took over is done again above, applied, or refused; never dropped."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan import load_plan, unsupported
from service.plan.pushed import applied_filters
from service.sql.session import compile_script
from tests.service.plan.builders import STRING, call, literal, ref

TABLES = """
CREATE TABLE s (id INT NOT NULL, grp STRING, amt INT, PRIMARY KEY(id) NOT ENFORCED)
  WITH ('connector'='ingress','changelog-mode'='{mode}');
CREATE TABLE o (id INT NOT NULL, grp STRING, amt INT, PRIMARY KEY(id) NOT ENFORCED)
  WITH ('connector'='{sink}','changelog-mode'='{takes}');
CREATE TABLE lo (id INT, grp STRING) WITH ('connector'='print');
"""
AMT = call(">", ref(2), literal(1))
KEY = call(">", ref(0, "INT NOT NULL"), literal(1))
GRP = call("IS NOT NULL", ref(1, STRING), syntax="POSTFIX")
ALL, INSERTS, UPSERTS = "I,UB,UA,D", "I", "I,UA,D"


def plan(
    statement: str,
    *predicates: Any,
    mode: str = ALL,
    takes: str = "retract",
    more: Any = (),
    set_first: str = "",
) -> dict[str, Any]:
    """A plan whose source takes over these predicates."""
    tables = TABLES.format(mode=mode, takes=takes, sink="print" if takes == "retract" else "redis")
    document = compile_script(f"{set_first}{tables}{statement};")[-1].document
    scan = document["nodes"][0]["scanTableSource"]
    ability = {"type": "FilterPushDown", "predicates": list(predicates)}
    pushed = [ability] if predicates else []
    scan["abilities"] = [*pushed, *more, *scan.get("abilities", ())]
    return document


def judged(document: dict[str, Any]) -> tuple[int, list[str]]:
    """How many filters are applied, and why others are refused."""
    found = load_plan(document)
    return len(applied_filters(found, found.nodes[0])), [each.reason for each in unsupported(found)]


COPY = "INSERT INTO o SELECT * FROM s"


@pytest.mark.parametrize("mode", [ALL, INSERTS])
@pytest.mark.parametrize("predicates", [[AMT], [KEY], [AMT, GRP], [call("AND", AMT, GRP)]])
def test_a_filter_that_nobody_asks_again_is_applied(mode: str, predicates: list[Any]) -> None:
    assert judged(plan(COPY, *predicates, mode=mode)) == (1, [])


@pytest.mark.parametrize("condition", ["amt > 1", "amt > 1 AND grp IS NOT NULL"])
def test_a_filter_that_the_node_above_asks_again_only_saves_work(condition: str) -> None:
    assert judged(plan(f"{COPY} WHERE {condition}", AMT)) == (0, [])
    # In front of a normalizer, which is to hear of rows that do not pass any more.
    assert judged(plan(f"{COPY} WHERE {condition}", AMT, mode=UPSERTS)) == (0, [])
    assert judged(plan(f"{COPY} WHERE {condition}", AMT, call("<", ref(2), literal(9))))[0] == 1


def test_what_one_of_two_readers_asks_again_is_applied() -> None:
    other = "INSERT INTO lo SELECT id, grp FROM s WHERE amt > 1"

    assert judged(plan(f"EXECUTE STATEMENT SET BEGIN {COPY}; {other}; END", AMT)) == (1, [])


@pytest.mark.parametrize(
    ("mode", "takes"), [(ALL, "upsert"), (UPSERTS, "retract"), (UPSERTS, "upsert")]
)
def test_a_filter_of_upserts_may_read_their_key_alone(mode: str, takes: str) -> None:
    assert judged(plan(COPY, KEY, mode=mode, takes=takes)) == (1, [])

    _, (reason,) = judged(plan(COPY, AMT, mode=mode, takes=takes))

    assert "a row that does not pass any more would stay" in reason


def test_columns_are_those_that_the_abilities_before_leave() -> None:
    cut = {"type": "ProjectPushDown", "projectedFields": [[2], [0]]}
    produced = {"producedType": "ROW<`amt` INT, `id` INT NOT NULL> NOT NULL"}
    narrow = "INSERT INTO lo SELECT id, CAST(amt AS STRING) FROM s"
    first = {"type": "FilterPushDown", "predicates": [AMT]}
    last = {"type": "FilterPushDown", "predicates": [call("<", ref(1), literal(1))]}
    projected = {**cut, **produced}
    for abilities, read in (([first, projected], ("amt",)), ([projected, last], ("id",))):
        document = plan(narrow)
        document["nodes"][0]["scanTableSource"]["abilities"] = abilities
        loaded = load_plan(document)
        assert [each.read for each in applied_filters(loaded, loaded.nodes[0])] == [read]


def test_a_limit_is_that_of_the_node_above_or_refused() -> None:
    three = {"type": "LimitPushDown", "limit": 3}

    assert (
        judged(plan("INSERT INTO lo SELECT id, grp FROM s LIMIT 3", more=[three], mode="I"))[1]
        == []
    )
    assert (
        judged(plan("INSERT INTO lo SELECT id, grp FROM s LIMIT 2", more=[three], mode="I"))[1]
        == []
    )
    for statement in ("INSERT INTO lo SELECT id, grp FROM s LIMIT 4", COPY):
        (reason,) = judged(plan(statement, more=[three], mode="I"))[1]
        assert "no LIMIT above" in reason
