"""What the planner refuses of windows and grouping sets, by name."""

from __future__ import annotations

import pytest

from service.sql import SqlError, UnsupportedSql, compile_script

TABLE = """CREATE TABLE {name} (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH
('connector' = 'filesystem', 'format' = 'changelog-json', 'changelog-mode' = 'I', 'path' = 'x');
"""
SINK = """CREATE TABLE snk ({columns}) WITH
('connector' = 'filesystem', 'format' = 'changelog-json',
 'changelog-mode' = 'retract', 'path' = 'o');
COMPILE PLAN 'plan.json' FOR INSERT INTO snk {query};
"""


def windows(name: str, seconds: int) -> str:
    return (
        f"(SELECT * FROM TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND)))"
    )


@pytest.mark.parametrize(("seconds", "is_refused"), [(10, False), (5, True)])
def test_joined_windows_are_cut_in_one_way(seconds: int, *, is_refused: bool) -> None:
    same = "l.window_start = r.window_start AND l.window_end = r.window_end AND l.k = r.k"
    query = f"SELECT l.k FROM {windows('a', 10)} l JOIN {windows('b', seconds)} r ON {same}"
    script = TABLE.format(name="a") + TABLE.format(name="b")
    script += SINK.format(columns="k STRING", query=query)
    if is_refused:
        with pytest.raises(SqlError, match="different window table function"):
            compile_script(script)
        return
    kinds = [node["type"] for node in compile_script(script)[-1].document["nodes"]]
    assert "stream-exec-window-join_1" in kinds


def test_a_cube_of_many_columns_is_refused() -> None:
    columns = ", ".join(f"v + {number}" for number in range(13))
    query = f"SELECT COUNT(*) FROM a GROUP BY CUBE ({columns})"
    script = TABLE.format(name="a") + SINK.format(columns="c BIGINT", query=query)
    with pytest.raises(UnsupportedSql, match="CUBE of more than 12"):
        compile_script(script)
