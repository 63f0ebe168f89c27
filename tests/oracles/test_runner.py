"""The oracle runner itself: what it finds, what it says, how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from operators.expressions.errors import EvaluationFailed
from service.sql import compile_script
from state.types import parse_type
from tests.integration.pipelines import PlanBuilder, call, ref
from tests.oracles.__main__ import main
from tests.oracles.changelogs import SinkRows, difference
from tests.oracles.failures import difference_of_failures
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    from pathlib import Path

ON_HEAP = ["--backend", "heap"]
SPEC: dict[str, Any] = {
    "columns": [{"name": "id", "type": "BIGINT"}, {"name": "k", "type": "INT NOT NULL"}],
    "primary_key": ["k"],
    "upsert_key": ["id"],
    "strategy": "LEGACY",
    "adaptive_high": None,
    "adaptive_low": None,
    "ttl_ms": 0,
}


def change(op: str, identity: int, **more: Any) -> dict[str, Any]:
    return {"op": op, "data": {"id": identity, "k": 1}} | more


def write_lines(path: Path, lines: list[Any]) -> None:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def materializer_case(folder: Path, expected: list[Any], **spec: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "spec.json").write_bytes(orjson.dumps(SPEC | spec))
    write_lines(folder / "input.jsonl", [change("+I", 1), change("+I", 2), change("-D", 2)])
    write_lines(folder / "expected.jsonl", expected)
    return folder


RIGHT = [
    {"op": "+I", "data": {"id": 1, "k": 1}, "in": 0},
    {"op": "+U", "data": {"id": 2, "k": 1}, "in": 1},
    {"op": "+U", "data": {"id": 1, "k": 1}, "in": 2},
]


def plan_case(folder: Path, plan: dict[str, Any], **meta: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "plan.json").write_bytes(orjson.dumps(plan))
    (folder / "meta.json").write_bytes(orjson.dumps(meta))
    return folder


def test_cases_are_found_at_any_depth_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    materializer_case(tmp_path / "a" / "any name", RIGHT)
    materializer_case(tmp_path / "b", RIGHT)

    status = main([str(tmp_path), *ON_HEAP, "--strategy", "legacy,MAP"])

    assert (status, capsys.readouterr().out) == (0, "4 passed, 0 failed\n")


def test_a_failing_case_says_its_first_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = materializer_case(tmp_path / "wrong", RIGHT[:2])

    status = main([str(folder), *ON_HEAP, "--strategy", "VALUE"])

    first, last = capsys.readouterr().out.splitlines()
    assert status == 1
    assert first.startswith(f"{folder} [heap, VALUE]: ")
    assert "emission 2" in first
    assert last == "0 passed, 1 failed"


def test_a_case_that_breaks_the_runner_fails_and_the_next_one_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    materializer_case(tmp_path / "a", RIGHT, upsert_key=["no such column"])
    materializer_case(tmp_path / "b", RIGHT)

    status = main([str(tmp_path), *ON_HEAP, "--strategy", "VALUE"])

    assert status == 1
    assert capsys.readouterr().out.endswith("\n1 passed, 1 failed\n")


def test_a_file_of_a_case_stands_for_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = materializer_case(tmp_path / "a", RIGHT)

    assert main([str(folder / "spec.json"), *ON_HEAP, "--strategy", "VALUE"]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


WAITING = [change("+I", 1, ts=50), change("+I", 2, ts=50), {"op": "@watermark", "ts": 60}]
VIOLATED = {"op": "!error", "message": "Primary key constraint violation", "in": 2}
KEPT = {"op": "+I", "data": {"id": 1, "k": 1}, "in": 2}


@pytest.mark.parametrize(
    ("strategy", "expected", "difference"),
    [
        ("DO_ERROR", [VIOLATED], None),
        ("DO_ERROR", [KEPT], "line 2 failed: distinct records"),
        ("DO_ERROR", [VIOLATED | {"message": "NOT NULL"}], "fails otherwise than Flink"),
        ("DO_NOTHING", [KEPT], None),
        ("DO_NOTHING", [VIOLATED], "Flink fails at line 2; nothing failed"),
        ("DO_NOTHING", [KEPT | {"in": 1}], "emission 0"),
        ("DO_NOTHING", [], "emission 0"),
    ],
)
def test_compacting_cases_are_compared_by_emission_or_failure(
    tmp_path: Path,
    strategy: str,
    expected: list[Any],
    difference: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = materializer_case(tmp_path / "a", expected, strategy=strategy)
    write_lines(folder / "input.jsonl", WAITING)

    status = main([str(folder), *ON_HEAP])

    out = capsys.readouterr().out
    assert status == int(difference is not None)
    assert difference is None or difference in out
    assert out.endswith("1 passed, 0 failed\n" if difference is None else "0 passed, 1 failed\n")


def test_what_is_not_run_yet_is_listed_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_case(tmp_path / "delta", with_delta_join(recorded_plan("070_")), pk=None)

    status = main([str(tmp_path), *ON_HEAP])

    line, total, last = capsys.readouterr().out.splitlines()
    assert status == 0
    assert line.endswith(": unsupported: stream-exec-delta-join_1")
    assert total.startswith("1 unsupported (")
    assert last == "0 passed, 0 failed"


def test_a_plan_that_flink_only_compiled_must_be_one_that_would_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = plan_case(tmp_path / "compiled", recorded_plan("070_"), pk=None)
    (folder / "meta.json").write_text('{"executed": false}')

    assert main([str(tmp_path), *ON_HEAP]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def with_delta_join(document: dict[str, Any]) -> dict[str, Any]:
    """The plan with the one node that is not run, in place of a join."""
    for node in document["nodes"]:
        node["type"] = node["type"].replace("stream-exec-join", "stream-exec-delta-join")
    return document


INCONSISTENT = (
    ": java.lang.IllegalArgumentException: The compiled plan contains inconsistent state metadata "
    "configuration.\nReceived 2 state meta for a OneInputStreamOperator."
)


def test_a_plan_that_must_be_refused_passes_by_being_refused_for_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = plan_case(tmp_path / "bad", recorded_plan("153_", "plan.edited.json"))

    assert main([str(tmp_path)]) == 1
    assert "the plan is refused: 2 states" in capsys.readouterr().out
    (bad / "error.txt").write_text("Unknown Flink version '9.9'")
    assert main([str(tmp_path)]) == 1
    assert "fails otherwise than Flink: InvalidStateMetadata" in capsys.readouterr().out
    (bad / "error.txt").write_text(INCONSISTENT)
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_a_plan_without_a_recorded_changelog_is_not_counted_as_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_case(tmp_path / "compiled only", recorded_plan("100_"))

    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "unsupported: plans without a recorded changelog" in out
    assert out.endswith("\n0 passed, 0 failed\n")


@pytest.mark.parametrize("error", [None, INCONSISTENT])
def test_an_expression_that_is_not_run_is_unsupported_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: str | None
) -> None:
    columns = {"k": "STRING"}
    builder = PlanBuilder()
    options = {"connector": "filesystem", "format": "changelog-json", "path": "in"}
    scan = builder.scan("s", columns, **options)
    calc = builder.calc(columns, scan, [call("NO_SUCH", "STRING", ref(0, "STRING"))])
    builder.sink("snk", columns, calc, **options)
    folder = plan_case(tmp_path / "expression", builder.document())
    write_lines(folder / "expected_changelog.jsonl", [])
    if error is not None:
        (folder / "error.txt").write_text(error)

    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"{folder}: unsupported: NO_SUCH\n1 unsupported (NO_SUCH 1)\n0 passed, 0 failed\n"
    )


class InvalidStateMetadata(Exception):
    pass


class PySparkException(Exception):
    pass


NULL = PySparkException("x\n[tailrace:sink-refused] column k of sink snk is null")
CONFLICT = PySparkException("[tailrace:conflict] distinct records with one primary key")
VIOLATION = (
    ": java.util.concurrent.ExecutionException: Failed to wait job finish\n"
    "Caused by: org.apache.flink.table.api.TableRuntimeException: Primary key constraint "
    "violation: multiple distinct records with the same primary key detected.\n"
)
ZERO = "division by zero"
NO_INT = EvaluationFailed("a text is no INT")
NOT_NULL = "Caused by: org.apache.flink.table.api.TableRuntimeException: Column 'k' is NOT NULL"


@pytest.mark.parametrize(
    ("recorded", "failure", "is_same"),
    [
        (INCONSISTENT, InvalidStateMetadata("2 states"), True),
        (INCONSISTENT, NULL, False),
        (VIOLATION, CONFLICT, True),
        (VIOLATION, NULL, False),
        (NOT_NULL, NULL, True),
        (NOT_NULL, CONFLICT, False),
        (VIOLATION, FileNotFoundError("no such file"), False),
        ("Caused by: java.lang.ArithmeticException: / by zero", EvaluationFailed(ZERO), True),
        ("Caused by: java.lang.NumberFormatException: For input string: 'a'", NO_INT, True),
        ("Caused by: java.lang.NumberFormatException: For input string: 'a'", CONFLICT, False),
        ("Caused by: java.lang.ArithmeticException: / by zero", NO_INT, False),
    ],
)
def test_a_failure_is_the_recorded_one_by_class_or_by_what_it_says(
    recorded: str, failure: Exception, *, is_same: bool
) -> None:
    assert (difference_of_failures(recorded, failure) is None) is is_same


SCRIPT = """
CREATE TABLE s (k STRING, v INT) WITH ({0} = 'I');
CREATE TABLE o (k STRING, v INT) WITH ({0} = 'retract');
{1} INSERT INTO o SELECT k, v FROM s WHERE v > {2};
"""
OPTIONS = "'connector' = 'filesystem', 'format' = 'changelog-json', 'changelog-mode'"


def compile_folder(folder: Path, sql: str, recorded: str) -> Path:
    """A case whose SQL is `sql` and whose plan is that of `recorded`."""
    [planned] = compile_script(recorded)
    plan_case(folder, planned.document)
    (folder / "query.sql").write_text(sql)
    return folder


@pytest.mark.parametrize(
    ("sql", "status", "last"),
    [
        (SCRIPT.format(OPTIONS, "", 3), 0, "1 passed, 0 failed, 0 unsupported"),
        (SCRIPT.format(OPTIONS, "", "3 AND k = 'a'"), 0, "1 passed, 0 failed, 0 unsupported"),
        (SCRIPT.format(OPTIONS, "", "0 LIMIT 3"), 1, "0 passed, 1 failed, 0 unsupported"),
        (
            SCRIPT.format(OPTIONS, "", "ANY (SELECT v FROM s AS t WHERE t.k = s.k)"),
            0,
            "0 passed, 0 failed, 1 unsupported",
        ),
    ],
)
def test_compiled_cases_are_compared_with_the_plan(
    tmp_path: Path, sql: str, status: int, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = compile_folder(tmp_path / "a", sql, SCRIPT.format(OPTIONS, "", 3))

    found = main([str(folder), "--compile"])

    lines = capsys.readouterr().out.splitlines()
    assert (found, lines[-1]) == (status, last)
    assert len(lines) == (1 if last.startswith("1") else 2)


def test_validation_cases_use_the_catalog_that_the_file_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = recorded_plan("100_")
    by_name, other = recorded_plan("100_"), recorded_plan("100_")
    del by_name["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]
    table = other["nodes"][0]["scanTableSource"]["table"]
    table["resolvedTable"]["schema"]["columns"][2]["dataType"] = "BIGINT"
    taken = {"load": "ok", "explain": "ok", "execute": "ok"}
    refused = taken | {"load": ["TableException: no"]}
    entries = [
        {"case": "as compiled", "plan": plan} | taken,
        {"case": "the same", "plan": plan} | taken,
        {"case": "identifier only", "plan": by_name} | taken,
        {"case": "schema differs", "plan": other} | refused,
        {"case": "text", "plan": "hello"} | refused,
        {"case": "wrongly refused", "plan": plan} | refused,
    ]
    file = tmp_path / "any name.json"
    file.write_bytes(orjson.dumps(entries))

    status = main([str(file)])

    line, last = capsys.readouterr().out.splitlines()
    assert status == 1
    assert line == f"{file}: wrongly refused: Flink refuses it at load; accepted"
    assert last == "5 passed, 1 failed"


@pytest.mark.parametrize("content", [None, "", "[1, 2]", "{not json"])
def test_a_path_without_cases_is_an_error(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "x.json").write_text(content)

    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err


def test_unknown_choices_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["x", "--backend", "disk"])

    assert "'disk' is none of heap, redis" in capsys.readouterr().err


def rows(key: list[str]) -> SinkRows:
    return SinkRows.of([parse_type("INT"), parse_type("DECIMAL(4, 2)")], ["k", "d"], key)


def test_within_a_key_the_order_counts_and_between_keys_it_does_not() -> None:
    keyed = rows(["k"])
    first = keyed.change({"op": "+I", "data": {"k": 1, "d": 1.5}})
    second = keyed.change({"op": "+U", "data": {"k": 1, "d": "2.00"}})
    other = keyed.change({"op": "+I", "data": {"k": 2, "d": None}})
    final = [second[1], other[1]]

    assert difference(keyed, [other, first, second], [first, second, other], final) is None
    assert difference(keyed, [second, first, other], [first, second, other], final) == (
        'change 0 of key 1: +U [1,"2.00"], expected +I [1,"1.50"]'
    )
    assert difference(keyed, [first], [first], []) == (
        'the table at the end: [1,"1.50"] stands 1 times, expected 0'
    )


def test_without_a_key_rows_are_a_bag() -> None:
    bag = rows([])
    plus = bag.change({"op": "+I", "data": {"k": 1, "d": 1}})
    minus = bag.change({"op": "-D", "data": {"k": 1, "d": 1}})

    assert difference(bag, [plus, plus, minus], [plus, plus, minus], [plus[1]]) is None
    assert difference(bag, [plus, minus, plus], [plus, plus, minus], [plus[1]]) == (
        'change 1 of key 1, Decimal(\'1.00\'): -D [1,"1.00"], expected +I [1,"1.00"]'
    )
