"""OVER by the name of a window, and what follows the name."""

from __future__ import annotations

from typing import Any

import pytest

from service.sql import SqlError, compile_script

SCRIPT = """
CREATE TABLE t (k STRING NOT NULL, x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'a', 'format' = 'changelog-json',
        'changelog-mode' = 'I');
CREATE TABLE snk (k STRING, y INT)
  WITH ('connector' = 'filesystem', 'path' = 'b', 'format' = 'changelog-json',
        'changelog-mode' = 'retract');
COMPILE PLAN 'p' FOR INSERT INTO snk SELECT {};
"""


def planned(select: str) -> dict[str, Any]:
    return compile_script(SCRIPT.format(select))[-1].document


@pytest.mark.parametrize(
    ("named", "written"),
    [
        (
            "OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)",
            "OVER (PARTITION BY k ORDER BY ts) FROM t",
        ),
        (
            "OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t "
            "WINDOW w AS (PARTITION BY k ORDER BY ts)",
            "OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        ),
        (
            "OVER v FROM t WINDOW w AS (PARTITION BY k), v AS (w ORDER BY ts)",
            "OVER (PARTITION BY k ORDER BY ts) FROM t",
        ),
    ],
)
def test_a_window_is_all_that_its_names_say(named: str, written: str) -> None:
    assert planned(f"k, SUM(x) {named}") == planned(f"k, SUM(x) {written}")


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("(w PARTITION BY x) FROM t WINDOW w AS (ORDER BY ts)", "cannot be extended"),
        ("(w ORDER BY ts) FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)", "cannot be extended"),
        ("w FROM t WINDOW w AS (w ORDER BY ts)", "there is no window 'w'"),
        ("(ORDER BY ts GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t", "GROUPS"),
    ],
)
def test_a_window_that_means_nothing_is_refused(window: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        planned(f"k, SUM(x) OVER {window}")


def test_a_sum_of_texts_is_refused() -> None:
    for function in ("SUM", "AVG", "STDDEV_POP"):
        with pytest.raises(SqlError, match=f"{function} needs a number"):
            planned(f"k, {function}(k) OVER (ORDER BY ts) FROM t")


def test_what_a_grouping_set_lacks_may_be_null() -> None:
    (calc,) = [
        each
        for each in planned("k || '!', CAST(COUNT(*) AS INT) FROM t GROUP BY ROLLUP (k)")["nodes"]
        if "EXPR$0" in str(each["outputType"]) and "calc" in each["type"]
    ]

    assert calc["outputType"].startswith("ROW<`EXPR$0` VARCHAR(2147483647),")
