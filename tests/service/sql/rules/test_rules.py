"""Each rule on its own: a query, the relation before the rule, the relation after it.

`fixtures/RULE/CASE.txt` is written by hand: SQL, `-- before` and `-- after`. The relation before is
what the binder made, through the rules that stand before this one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from service.sql.binder.query import QueryBinder
from service.sql.options import Options
from service.sql.rules import AFTER, BEFORE, NARROWING, Rule
from service.sql.rules.merge_joins import merge_joins
from service.sql.rules.split_distinct import split_distinct
from service.sql.script import parse_script
from service.sql.session import Session
from service.sql.statements import ExecuteInserts
from tests.service.sql.relations import show

FIXTURES = Path(__file__).parent / "fixtures"
WITH = "WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'changelog-mode' = 'I')"
TABLES = f"""
CREATE TABLE t (id INT NOT NULL, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) {WITH};
CREATE TABLE u (id INT NOT NULL, k STRING, w INT, PRIMARY KEY (id) NOT ENFORCED) {WITH};
CREATE TABLE e (k STRING, v INT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) {WITH};
CREATE TABLE out (a INT) {WITH};
"""


def fixtures() -> list[Path]:
    return sorted(FIXTURES.glob("*/*.txt"))


def steps(session: Session) -> list[tuple[str, Rule]]:
    """Every rule by its name, in the order in which they run."""
    options = Options(session.catalogue.options)
    with_options: list[tuple[str, Rule]] = [
        ("merge_joins", partial(merge_joins, options=options)),
        ("split_distinct", partial(split_distinct, options=options)),
    ]
    before, narrowing, after = (
        [(rule.__name__, rule) for rule in rules] for rules in (BEFORE, NARROWING, AFTER)
    )
    return [*before, with_options[0], *narrowing, with_options[1], *after]


@pytest.mark.parametrize("path", fixtures(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_rule(path: Path) -> None:
    sql, rest = path.read_text().split("-- before\n")
    before, after = rest.split("-- after\n")
    session = Session()
    session.run_script(TABLES)
    *settings, insert = parse_script(sql)
    for setting in settings:
        session.run(setting)
    assert isinstance(insert, ExecuteInserts)
    relation = QueryBinder(session.catalogue, insert.inserts[0].query).bind()
    for name, rule in steps(session):
        if name == path.parent.name:
            assert show(relation) == before.strip()
            assert show(rule(relation)) == after.strip()
            return
        relation = rule(relation)
    pytest.fail("there is no such rule")


def test_every_rule_has_a_fixture() -> None:
    assert {name for name, _ in steps(Session())} == {path.parent.name for path in fixtures()}
