"""What a sink asks for: a materializer, ON CONFLICT, casts, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan import load_plan, unsupported
from service.sql import SqlError, compile_script
from tests.service.sql.scripts import TABLES, WITH

SINKS = (
    f"CREATE TABLE keyed (id INT NOT NULL, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
    f" WITH ({WITH} = 'upsert');"
    f"CREATE TABLE adds (id INT, n BIGINT) WITH ({WITH} = 'append');"
    f"CREATE TABLE all_changes (id INT, n BIGINT) WITH ({WITH} = 'retract');"
)


def sink(sql: str) -> dict[str, Any]:
    """The sink of the plan of one INSERT."""
    [planned] = compile_script(f"{TABLES}{SINKS}{sql}")
    return dict(planned.document["nodes"][-1])


def test_keys_that_match_need_no_materializer() -> None:
    node = sink("INSERT INTO keyed SELECT id, COUNT(*) FROM c GROUP BY id")
    assert not node.get("requireUpsertMaterialize", False)
    assert "conflictStrategy" not in node


def test_inserts_into_a_sink_without_key_need_nothing() -> None:
    node = sink("INSERT INTO adds SELECT id, CAST(v AS BIGINT) FROM s")
    assert not node.get("requireUpsertMaterialize", False)
    assert node["inputChangelogMode"] == ["INSERT"]


def test_all_changes_reach_a_sink_that_takes_them() -> None:
    node = sink("INSERT INTO all_changes SELECT v, COUNT(*) FROM c GROUP BY v")
    assert set(node["inputChangelogMode"]) == {
        "INSERT",
        "UPDATE_BEFORE",
        "UPDATE_AFTER",
        "DELETE",
    }


@pytest.mark.parametrize(
    ("of", "to", "is_key"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("BIGINT", "STRING", True),
        ("BIGINT", "VARCHAR(20)", True),
        ("BIGINT", "VARCHAR(19)", False),
        ("VARCHAR(5)", "VARCHAR(4)", False),
    ],
)
def test_a_key_that_is_cast_is_a_key_where_no_two_values_become_one(
    of: str, to: str, is_key: bool
) -> None:
    tables = (
        f"CREATE TABLE of_keys (k {of} NOT NULL, PRIMARY KEY (k) NOT ENFORCED) WITH ({WITH}"
        f" = 'upsert'); CREATE TABLE to_keys (k {to} NOT NULL, PRIMARY KEY (k) NOT ENFORCED)"
        f" WITH ({WITH} = 'upsert');"
    )
    insert = f"INSERT INTO to_keys SELECT CAST(k AS {to}) FROM of_keys"
    [planned] = compile_script(f"{tables}{insert} ON CONFLICT DO DEDUPLICATE")
    node = planned.document["nodes"][-1]
    assert node.get("requireUpsertMaterialize", False) != is_key


OTHER_KEY = "INSERT INTO keyed SELECT COALESCE(v, 0), COUNT(*) FROM c GROUP BY COALESCE(v, 0), id"


def test_other_keys_need_on_conflict() -> None:
    with pytest.raises(SqlError, match="ON CONFLICT"):
        sink(OTHER_KEY)
    node = sink(f"{OTHER_KEY} ON CONFLICT DO DEDUPLICATE")
    assert node["requireUpsertMaterialize"] is True
    assert node["conflictStrategy"]["behavior"] == "DEDUPLICATE"


@pytest.mark.parametrize("behavior", ["ERROR", "NOTHING"])
def test_what_compacts_by_watermark_needs_watermarks(behavior: str) -> None:
    with pytest.raises(SqlError, match="Please add a WATERMARK declaration"):
        sink(f"{OTHER_KEY} ON CONFLICT DO {behavior}")


WRONG = [
    ("INSERT INTO adds SELECT id, COUNT(*) FROM c GROUP BY id", "doesn't support consuming update"),
    ("INSERT INTO adds SELECT id FROM s", "Different number of columns"),
    ("INSERT INTO adds SELECT id, k FROM s", "Incompatible types for sink column 'n'"),
    ("INSERT INTO keyed SELECT id, CAST(v AS BIGINT) FROM s ON CONFLICT DO 3", "DEDUPLICATE"),
    (
        "INSERT INTO adds SELECT id, CAST(v AS BIGINT) FROM s ON CONFLICT DO ERROR",
        "only allowed for upsert",
    ),
]


@pytest.mark.parametrize(("sql", "reason"), WRONG)
def test_what_a_sink_cannot_take(sql: str, reason: str) -> None:
    with pytest.raises(SqlError) as caught:
        sink(sql)
    assert reason in str(caught.value)
    assert caught.value.position is not None


UPSERT_KAFKA = (
    "WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', "
    "'key.format' = 'json', 'value.format' = 'json')"
)
KAFKA = "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', "


def test_an_upsert_kafka_table_needs_no_rows_before_and_a_materializer_for_other_keys() -> None:
    """Source: Flink `UpsertKafkaDynamicSink`."""
    columns = "(id INT NOT NULL, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
    table = f"CREATE TABLE up {columns} {UPSERT_KAFKA};"
    same = sink(f"{table}INSERT INTO up SELECT id, COUNT(*) FROM c GROUP BY id")
    assert set(same["inputChangelogMode"]) == {"INSERT", "UPDATE_AFTER", "DELETE"}
    assert "requireUpsertMaterialize" not in same

    of_v = "SELECT CAST(v AS INT), COUNT(*) FROM c GROUP BY id, v"
    other = sink(f"{table}INSERT INTO up {of_v} ON CONFLICT DO DEDUPLICATE")
    assert other["requireUpsertMaterialize"]


@pytest.mark.parametrize("form", ["format", "value.format"])
def test_a_kafka_table_takes_all_kinds_by_its_format_alone(form: str) -> None:
    counts = "INSERT INTO k SELECT id, COUNT(*) FROM c GROUP BY id"
    columns = "CREATE TABLE k (id INT, n BIGINT)"
    every = sink(f"{columns} {KAFKA} '{form}' = 'changelog-json');{counts}")
    assert len(every["inputChangelogMode"]) == 4
    with pytest.raises(SqlError, match=r"changes|update"):
        sink(f"{columns} {KAFKA} '{form}' = 'json');{counts}")


JDBC = "WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:d', 'table-name' = 't')"


def test_a_jdbc_table_takes_upserts_by_its_key_and_inserts_without_one() -> None:
    """Source: Flink `JdbcDynamicTableSink`."""
    keyed = f"CREATE TABLE db (id INT NOT NULL, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) {JDBC};"
    without = f"CREATE TABLE db (id INT, n BIGINT) {JDBC};"
    counts = "INSERT INTO db SELECT id, COUNT(*) FROM c GROUP BY id"

    assert set(sink(keyed + counts)["inputChangelogMode"]) == {
        "INSERT",
        "UPDATE_AFTER",
        "DELETE",
    }
    added = sink(f"{without}INSERT INTO db SELECT id, CAST(v AS BIGINT) FROM s")
    assert added["inputChangelogMode"] == ["INSERT"]
    with pytest.raises(SqlError, match=r"changes|update"):
        sink(without + counts)


def sinks_of_two(first: str, second: str) -> list[dict[str, Any]]:
    """The sinks of two statements that write one table by a key that is not theirs."""
    tables = (
        f"CREATE TABLE d (id INT NOT NULL, k INT NOT NULL, v INT, at TIMESTAMP(3),"
        f" WATERMARK FOR at AS at, PRIMARY KEY (id) NOT ENFORCED) WITH ({WITH} = 'I,UB,UA,D');"
    )
    inserts = f"{first}; {second};"
    [planned] = compile_script(f"{TABLES}{SINKS}{tables}EXECUTE STATEMENT SET BEGIN {inserts} END;")
    return [node for node in planned.document["nodes"] if "sink" in node["type"]]


INSERT = "INSERT INTO keyed SELECT k, CAST(v AS BIGINT) FROM d"


def test_statements_that_settle_conflicts_alike_have_one_sink() -> None:
    asked = f"{INSERT} ON CONFLICT DO NOTHING"
    assert len(sinks_of_two(asked, asked)) == 1


def test_what_each_statement_asks_for_on_conflict_holds() -> None:
    made = sinks_of_two(f"{INSERT} ON CONFLICT DO NOTHING", f"{INSERT} ON CONFLICT DO ERROR")
    assert [node["conflictStrategy"]["behavior"] for node in made] == ["NOTHING", "ERROR"]


def test_rows_are_found_again_by_the_key_of_their_own_statement() -> None:
    made = sinks_of_two(
        "INSERT INTO keyed SELECT k, CAST(id AS BIGINT) FROM d ON CONFLICT DO DEDUPLICATE",
        f"{INSERT} ON CONFLICT DO DEDUPLICATE",
    )
    assert [node.get("inputUpsertKey") for node in made] == [[1], None]


PARTS = """
CREATE TABLE a (id INT NOT NULL, x INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress');
CREATE TABLE b (id INT NOT NULL, y INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress');
CREATE TABLE t (id INT NOT NULL, x INT, y INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = '{connector}');
EXECUTE STATEMENT SET BEGIN {inserts} END;
"""
OF_A, OF_B = (
    "INSERT INTO t (id, x) SELECT id, x FROM a;",
    "INSERT INTO t (id, y) SELECT id, y FROM b;",
)
WHOLE = "INSERT INTO t SELECT id, x, 1 FROM a;"


@pytest.mark.parametrize("inserts", [OF_A + OF_B, OF_B + WHOLE, WHOLE + WHOLE + OF_A])
@pytest.mark.parametrize(
    "connector", ["redis", "jdbc', 'url' = 'jdbc:sqlite:f', 'table-name' = 't"]
)
def test_statements_that_write_different_columns_by_one_key_are_refused(
    inserts: str, connector: str
) -> None:
    with pytest.raises(SqlError, match="sets them to NULL") as error:
        compile_script(PARTS.format(inserts=inserts, connector=connector))
    assert "FULL JOIN" in error.value.hint


@pytest.mark.parametrize(
    ("inserts", "connector"), [(OF_A + OF_A, "redis"), (OF_A, "redis"), (OF_A + OF_B, "print")]
)
def test_statements_that_write_the_same_columns_or_a_log_are_not(
    inserts: str, connector: str
) -> None:
    assert compile_script(PARTS.format(inserts=inserts, connector=connector))


def test_a_plan_whose_sinks_write_different_columns_by_one_key_is_refused() -> None:
    """As Flink compiles it."""
    [planned] = compile_script(PARTS.format(inserts=OF_A + OF_B, connector="print"))
    sinks = [each for each in planned.document["nodes"] if "sink" in each["type"]]
    for each in sinks:
        each["dynamicTableSink"]["table"]["resolvedTable"]["options"] = {"connector": "redis"}

    (found,) = unsupported(load_plan(planned.document))

    assert "another sink writes other columns" in found.reason
    assert found.node_id == sinks[-1]["id"]
    sinks[0]["dynamicTableSink"]["targetColumns"] = [[0], [2]]
    assert unsupported(load_plan(planned.document)) == []


@pytest.mark.parametrize(
    ("query", "cure"),
    [
        ("SELECT id, v FROM loose", "PRIMARY KEY (id) NOT ENFORCED"),
        ("SELECT v, id FROM loose WHERE v > 1", "PRIMARY KEY (v) NOT ENFORCED"),
        ("SELECT id + 1, v FROM loose", ""),
        ("SELECT v, COUNT(*) FROM c GROUP BY id, v", ""),
    ],
)
def test_who_copies_a_table_without_a_key_learns_to_declare_it(query: str, cure: str) -> None:
    loose = f"CREATE TABLE loose (id INT NOT NULL, v INT NOT NULL) WITH ({WITH} = 'I,UB,UA,D');"

    with pytest.raises(SqlError, match="upsert key that differs") as error:
        sink(f"{loose}INSERT INTO keyed {query}")

    assert cure in error.value.hint
    assert bool(error.value.hint) == bool(cure)
