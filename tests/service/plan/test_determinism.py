"""What is computed anew when a row is taken back is found wherever it had to be what it was.

Which cases are right or wrong follows from what a row's retraction looks like: the columns that
depend on the time differ, and all others do not.
"""

from __future__ import annotations

from collections import Counter

import pytest

from operators.changelog import materialize, materialize_upserts
from service.plan import explain, load_plan, validate
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql.errors import PlanningError
from service.sql.session import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

CODE = "plan.non-deterministic-update"
SCRIPT = """
CREATE TABLE t (id INT NOT NULL, grp STRING, amt INT, at TIMESTAMP_LTZ(3), PRIMARY KEY(id) NOT
  ENFORCED) WITH ('connector'='ingress','format'='debezium-json');
CREATE TABLE loose (id INT, grp STRING, amt INT) WITH ('connector'='ingress');
CREATE TABLE logs (id INT NOT NULL, grp STRING, amt INT) WITH
  ('connector'='ingress','changelog-mode'='I');
CREATE TABLE ups (id INT NOT NULL, grp STRING, amt INT, PRIMARY KEY(id) NOT ENFORCED) WITH
  ('connector'='ingress','format'='debezium-json','changelog-mode'='I,UA,D');
CREATE TABLE kaf (id INT NOT NULL, amt INT, part INT METADATA FROM 'partition' VIRTUAL,
  PRIMARY KEY(id) NOT ENFORCED) WITH
  ('connector'='kafka','topic'='k','properties.bootstrap.servers'='h:1','format'='debezium-
  json', 'scan.startup.mode'='earliest-offset');
CREATE TABLE dim (pid STRING NOT NULL, nm STRING, PRIMARY KEY(pid) NOT ENFORCED) WITH
  ('connector'='filesystem','path'='d','format'='json','lookup'='true');
CREATE TABLE by_id (id INT NOT NULL, v STRING, at TIMESTAMP_LTZ(3), PRIMARY KEY(id) NOT
  ENFORCED) WITH ('connector'='redis');
CREATE TABLE by_grp (grp STRING NOT NULL, v INT, at TIMESTAMP_LTZ(3), PRIMARY KEY(grp) NOT
  ENFORCED) WITH ('connector'='redis');
CREATE TABLE by_both (grp STRING NOT NULL, id INT, at TIMESTAMP_LTZ(3), PRIMARY KEY(grp) NOT
  ENFORCED) WITH ('connector'='redis');
CREATE TABLE log_sink (id INT, v STRING, at TIMESTAMP_LTZ(3)) WITH
  ('connector'='filesystem','path'='o','format'='changelog-json');
CREATE TABLE counts (k STRING NOT NULL, n BIGINT, PRIMARY KEY(k) NOT ENFORCED) WITH
  ('connector'='redis');
CREATE TABLE nums (id INT NOT NULL, n INT, PRIMARY KEY(id) NOT ENFORCED) WITH
  ('connector'='redis');
"""
SOUND_CASES = """
-- by the key of the rows
INSERT INTO by_id SELECT id, grp, CURRENT_TIMESTAMP FROM t;
-- of inserts
INSERT INTO log_sink SELECT id, grp, CURRENT_TIMESTAMP FROM logs;
-- a column that nobody reads
INSERT INTO counts SELECT grp, SUM(amt) FROM (SELECT grp, amt, DATE_FORMAT(CURRENT_TIMESTAMP,
  'yyMMdd') AS d FROM t) GROUP BY grp;
-- groups of inserts
INSERT INTO counts SELECT DATE_FORMAT(CURRENT_TIMESTAMP, 'yyMMdd'), COUNT(*) FROM logs GROUP
  BY DATE_FORMAT(CURRENT_TIMESTAMP, 'yyMMdd');
-- a condition over inserts
INSERT INTO log_sink SELECT id, grp, CURRENT_TIMESTAMP FROM logs WHERE YEAR(CURRENT_DATE) >
  amt;
-- after the key of groups
INSERT INTO by_grp SELECT grp, MAX(amt), CURRENT_TIMESTAMP FROM t GROUP BY grp;
-- a materializer that knows the rows
INSERT INTO by_both SELECT grp, id, CURRENT_TIMESTAMP FROM t ON CONFLICT DO DEDUPLICATE;
-- a normalizer keeps the row
INSERT INTO counts SELECT grp, SUM(amt) FROM ups GROUP BY grp;
-- metadata that nobody finds rows by
INSERT INTO nums SELECT id, part FROM kaf;
-- a look-up by upserts, padded
INSERT INTO by_id SELECT a.id, d.nm, CAST(NULL AS TIMESTAMP_LTZ(3)) FROM (SELECT *, PROCTIME()
  AS p FROM t) a LEFT JOIN dim FOR SYSTEM_TIME AS OF a.p AS d ON a.grp = d.pid;
"""
BROKEN_CASES = """
-- a materializer of whole rows: CURRENT_TIMESTAMP
INSERT INTO by_grp SELECT grp, amt, CURRENT_TIMESTAMP FROM t WHERE grp IS NOT NULL ON CONFLICT
  DO DEDUPLICATE;
-- a log of changes: NOW
INSERT INTO log_sink SELECT id, grp, NOW() FROM t;
-- groups: CURRENT_TIMESTAMP
INSERT INTO counts SELECT DATE_FORMAT(CURRENT_TIMESTAMP, 'yyMMdd'), COUNT(*) FROM t GROUP BY
  DATE_FORMAT(CURRENT_TIMESTAMP, 'yyMMdd');
-- what is summed: UNIX_TIMESTAMP
INSERT INTO counts SELECT grp, SUM(UNIX_TIMESTAMP() - amt) FROM t GROUP BY grp;
-- a condition: NOW
INSERT INTO by_id SELECT id, grp, at FROM t WHERE at > NOW() - INTERVAL '1' DAY;
-- a condition of a join: CURRENT_TIMESTAMP
INSERT INTO nums SELECT t.id, ups.amt FROM t JOIN ups ON t.id = ups.id AND t.at <
  CURRENT_TIMESTAMP;
-- a side without a key: CURRENT_TIMESTAMP
INSERT INTO log_sink SELECT t.id, l.d, CAST(NULL AS TIMESTAMP_LTZ(3)) FROM t JOIN (SELECT id,
  DATE_FORMAT(CURRENT_TIMESTAMP, 'yyMMdd') AS d FROM loose) l ON t.id = l.id;
-- ranks: CURRENT_TIMESTAMP
INSERT INTO by_id SELECT id, grp, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY grp ORDER
  BY amt) AS r FROM (SELECT id, grp, amt, CURRENT_TIMESTAMP AS d FROM loose)) WHERE r < 3 ON
  CONFLICT DO DEDUPLICATE;
-- metadata in a materializer: metadata
INSERT INTO counts SELECT CAST(amt AS STRING), part FROM kaf ON CONFLICT DO DEDUPLICATE;
-- a look-up that is summed: look-up
INSERT INTO counts SELECT d.nm, COUNT(*) FROM (SELECT *, PROCTIME() AS p FROM t) a LEFT JOIN
  dim FOR SYSTEM_TIME AS OF a.p AS d ON a.grp = d.pid GROUP BY d.nm;
-- rows that are looked up: look-up
INSERT INTO by_id SELECT a.id, a.grp, a.at FROM (SELECT *, PROCTIME() AS p FROM t) a JOIN dim
  FOR SYSTEM_TIME AS OF a.p AS d ON a.grp = d.pid;
"""


def cases(text: str) -> dict[str, str]:
    """Statements by what their comments say."""
    found = (each.split("\n", 1) for each in text.removeprefix("\n-- ").split("\n-- "))
    return {name: statement.strip().removesuffix(";") for name, statement in found}


SOUND = cases(SOUND_CASES)
BROKEN = {tuple(name.split(": ")): sql for name, sql in cases(BROKEN_CASES).items()}


def found(statement: str, before: str = "") -> list[str]:
    (planned,) = compile_script(f"{before}{SCRIPT}{statement};")
    plan = load_plan(planned.document)
    said = [each.message for each in validate(plan) if each.code == CODE]
    assert said == [each.message for each in explain(plan).warnings if each.code == CODE]
    return said


KEPT = {
    "a materializer of whole rows",
    "a log of changes",
    "groups",
    "what is summed",
    "a look-up that is summed",
    "rows that are looked up",
}
"""What TRY_RESOLVE keeps beside the row that it was made for; the others have no key, or are
conditions, or metadata."""
RESOLVE = "SET 'table.optimizer.non-deterministic-update.strategy' = 'TRY_RESOLVE';"


@pytest.mark.parametrize("name", SOUND)
def test_what_is_found_by_other_columns_is_sound(name: str) -> None:
    assert found(SOUND[name]) == []
    assert found(SOUND[name], RESOLVE) == []


@pytest.mark.parametrize("case", BROKEN, ids=" by ".join)
def test_what_rows_are_found_by_is_warned_of_once_and_resolved_or_refused(
    case: tuple[str, str],
) -> None:
    statement, by = BROKEN[case], case[1]

    (said,) = found(statement)

    named = {"metadata": "what records tell", "look-up": "what it looks up"}.get(by, by)
    assert named in said
    if case[0] in KEPT:
        assert found(statement, RESOLVE) == []
        return
    with pytest.raises(PlanningError, match=r"determinis|metadata column") as error:
        found(statement, RESOLVE)
    assert by in str(error.value)


TIMES = (0, 5_000, 9_000)
CHANGES = {
    # Kinds, keys and groups of rows, one at each time.
    "deleted": [("+I", 1, "A"), ("-D", 1, "A")],
    "moved": [("+I", 1, "A"), ("-U", 1, "A"), ("+U", 1, "B")],
    "one of two": [("+I", 1, "A"), ("+I", 2, "A"), ("-D", 1, "A")],
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(
    "case",
    [case for case in BROKEN if case[0] in {"a materializer of whole rows", "a log of changes"}],
    ids=lambda case: case[0],
)
def test_what_is_kept_leaves_the_rows_that_there_are(case: tuple[str, str], name: str) -> None:
    """Run by hand, each change at another time: groups of the rows that are left, at the end."""
    (planned,) = compile_script(f"{RESOLVE}{SCRIPT}{BROKEN[case]};")
    plan = load_plan(planned.document)
    harness = PlanHarness(plan, PipelineOptions().resolved(ExecutionSettings()))

    harness.run(
        [
            Line(at, "t", {"op": op, "data": {"id": key, "grp": group, "amt": 1, "at": None}})
            for at, (op, key, group) in zip(TIMES, CHANGES[name], strict=False)
        ]
    )

    left: Counter[tuple[int, str]] = Counter()
    for op, key, group in CHANGES[name]:
        left[key, group] += 1 if op in ("+I", "+U") else -1
    (changes,) = harness.collected.values()
    if case[0] == "a log of changes":
        groups = [row[1] for row in materialize(changes).elements()]
    else:
        groups = [group for (group,) in materialize_upserts(changes, (0,))]
    assert sorted(groups) == sorted({group for _, group in (+left)})
