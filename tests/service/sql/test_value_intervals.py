"""Between which numbers values lie: it decides whether a rank by a sum can keep its rows."""

from __future__ import annotations

import pytest

from service.sql import compile_script

WITH = "WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'changelog-mode' = '{}')"
TABLES = (
    f"CREATE TABLE a (id INT, k STRING, x INT) {WITH.format('I')};"
    f"CREATE TABLE snk (k STRING, id INT, v BIGINT) {WITH.format('I,UB,UA,D')};"
)


@pytest.mark.parametrize(
    ("total", "order", "grows"),
    [
        ("SUM(x) AS v FROM a WHERE x >= 0", "DESC", True),
        ("SUM(x) AS v FROM a WHERE 0 < x AND k = 'a'", "DESC", True),
        ("SUM(x) AS v FROM a WHERE x > -1", "DESC", False),
        ("SUM(x) AS v FROM a WHERE x >= 0", "ASC", False),
        ("SUM(x) AS v FROM a WHERE x <= 0", "ASC", True),
        ("SUM(x) AS v FROM a WHERE x IN (1, 2, 9)", "DESC", True),
        ("SUM(x) AS v FROM a WHERE x IN (-1, 2, 9)", "DESC", False),
        ("SUM(x) AS v FROM a WHERE x BETWEEN 0 AND 9", "DESC", True),
        ("SUM(x) AS v FROM a WHERE x > 0 OR k = 'a'", "DESC", False),
        ("SUM(CASE WHEN x > 1 THEN 2 ELSE 0 END) AS v FROM a", "DESC", True),
        ("SUM(CASE WHEN x > 1 THEN 2 ELSE -1 END) AS v FROM a", "DESC", False),
        ("SUM(x) FILTER (WHERE x > 0) AS v FROM a", "DESC", True),
        ("SUM(x) FILTER (WHERE k = 'a') AS v FROM a", "DESC", False),
        ("SUM(x + 1) AS v FROM a WHERE x > 0", "DESC", False),
    ],
)
def test_a_sum_of_one_sign_never_falls_back(total: str, order: str, *, grows: bool) -> None:
    number = f"ROW_NUMBER() OVER (PARTITION BY k ORDER BY v {order}) AS rn"
    inner = f"SELECT k, id, {total} GROUP BY k, id"
    [planned] = compile_script(
        f"{TABLES}INSERT INTO snk SELECT k, id, v FROM (SELECT *, {number} FROM ({inner})) "
        "WHERE rn <= 2"
    )
    [rank] = [each for each in planned.document["nodes"] if "rank" in each["type"]]
    assert (rank["rankStrategy"]["type"] == "UpdateFast") is grows
