"""Plan cases: a whole compiled plan over its inputs, by hand and on real Spark."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.errors import PySparkException

from operators.errors import InvalidSpec, OperatorError
from operators.expressions.errors import ExpressionError, UnsupportedExpression
from service.plan import PlanError, explain, load_plan, unsupported
from service.plan.durations import parse_duration_ms
from service.plan.nodes import Sink
from service.runtime.dataflow import PipelineJob, check_plan, start_query
from service.runtime.dataflow_errors import (
    DataflowError,
    SinkRefused,
    UnsupportedConnector,
    UnsupportedNode,
)
from service.runtime.launcher import package_version
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings, FilesSettings, Settings
from state.epochs import EpochLedger
from state.errors import StateError
from tests.oracles.cases import Case, Outcome, read_lines
from tests.oracles.changelogs import SinkRows, difference, difference_of_tables
from tests.oracles.compile import compile_case
from tests.oracles.failures import difference_of_failures
from tests.oracles.plan_harness import WATERMARK_INTERVAL_MS, Line, PlanHarness
from tests.oracles.steps import MARK, write_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql.connect.session import SparkSession

    from service.plan import CompiledPlan, ExecNode, Unsupported
    from service.runtime.records import RunOptions
    from tests.oracles.changelogs import Change
    from tests.oracles.engines import Engines

MAX_PARALLELISM = 8
STARTS_MAX = 4
STARVED = "Python worker failed to connect back"
"""Spark gives a new Python process 10 s, which can be too few on a busy machine."""
_REFUSALS = (PlanError, DataflowError, ExpressionError, InvalidSpec)
_NO_NAME = re.compile(r"[^a-z0-9]+")
_numbers = itertools.count(1)
"""Two cases may have the same folder name; pipelines may not."""


def run_plan(
    case: Case, engine_names: Sequence[str], backends: Sequence[str], engines: Engines
) -> Iterator[Outcome]:
    """Load, run and compare; one outcome for each engine and backend."""
    plan_file = case.folder / str(case.content.get("executed_plan") or "plan.json")
    if not plan_file.exists():
        yield compile_case(case)
        return
    document = orjson.loads(plan_file.read_bytes())
    error = case.folder / "error.txt"
    recorded = error.read_text(encoding="utf-8") if error.exists() else None
    try:
        plan = load_plan(document)
        missing = unsupported(plan)
        if not missing:
            check_plan(plan, Settings(files=FilesSettings(root=case.folder)))
    except UnsupportedExpression as refusal:
        yield Outcome(case.name, unsupported=refusal.function)
        return
    except (UnsupportedConnector, UnsupportedNode) as refusal:
        yield Outcome(case.name, unsupported=refusal.message)
        return
    except _REFUSALS as refusal:
        yield Outcome(case.name, _failed("the plan is refused", recorded, refusal))
        return
    if missing:
        yield Outcome(case.name, unsupported=_what(missing[0]))
    elif recorded is None and not (case.folder / "expected_changelog.jsonl").exists():
        explain(plan)
        # Of a plan that Flink was not asked to run, it can be seen that it would run here.
        was_run = case.content.get("executed") is not False
        missing_rows = "plans without a recorded changelog" if was_run else None
        yield Outcome(case.name, unsupported=missing_rows)
    else:
        if "harness" in engine_names:
            for backend in backends:
                name = f"{case.name} [harness, {backend}]"
                yield Outcome(name, _in_harness(case, plan, backend, engines, recorded))
        if "spark" in engine_names and "redis" in backends:
            found = _on_spark(case, document, engines, recorded)
            yield Outcome(f"{case.name} [spark]", found)


def _failed(what: str, recorded: str | None, failure: Exception) -> str | None:
    """What is wrong with a failure: all of it, unless the same one was recorded."""
    if recorded is None:
        return f"{what}: {str(failure).splitlines()[0]}"
    return difference_of_failures(recorded, failure)


def _what(missing: Unsupported) -> str:
    """The node, or what of it is not run yet."""
    if missing.path.endswith("/conflictStrategy/behavior"):
        return "watermark-compacting-sink-materializer"
    return missing.type if missing.reason.startswith("nodes of type") else missing.reason


def _in_harness(
    case: Case, plan: CompiledPlan, backend: str, engines: Engines, recorded: str | None
) -> str | None:
    """Run the plan without Spark; the first difference, or how it failed."""
    client = engines.redis_client() if backend == "redis" else None
    harness = PlanHarness(
        plan,
        _options_of(case),
        client,
        files_root=str(case.folder),
        watermark_interval_ms=_watermark_interval_ms(case),
    )
    try:
        harness.run(_lines(case))
    except (OperatorError, DataflowError, StateError, SinkRefused) as failure:
        return _failed("the plan failed", recorded, failure)
    finally:
        harness.close()
    if recorded is not None:
        return "Flink fails on it; the plan ran"
    sinks = [node for node in plan.sinks if _options(node).get("connector") == "filesystem"]
    if len(sinks) != 1:
        return f"{len(sinks)} sinks write files, so the recorded changelog is nobody's"
    (sink,) = sinks
    rows = _sink_rows(case, sink)
    changes = harness.collected[sink.id]
    found = [(each.kind.short, rows.codec.encode(each.row)) for each in changes]
    return _difference(case, rows, found)


def _lines(case: Case) -> list[Line]:
    """The lines of all inputs, those of one file in order."""
    return [
        Line(int(content.get("t", 0)), path.stem, content)
        for path in sorted((case.folder / "inputs").glob("*.jsonl"))
        for content in read_lines(path)
    ]


def _on_spark(
    case: Case, document: dict[str, Any], engines: Engines, recorded: str | None
) -> str | None:
    """Run the plan on copies of the inputs; the first difference, or how it failed."""
    name = f"{_NO_NAME.sub('-', case.folder.name.lower())[:40]}-{next(_numbers)}"
    work = engines.folder / "plans" / name
    epochs = write_inputs(case.folder / "inputs", work / "inputs", document)
    plan = load_plan(_in_step(document, epochs))
    ledger = EpochLedger(engines.redis_client(), name)
    ledger.drop()
    job = _job(case, plan, name, work, engines)
    failure = _run_query(job, ledger, engines.spark_session())
    if failure is not None:
        return _failed("the query failed", recorded, failure)
    if recorded is not None:
        return "Flink fails on it; the query ran"
    return _compare(case, plan, work)


def _run_query(
    job: PipelineJob, ledger: EpochLedger, session: SparkSession
) -> PySparkException | None:
    """Run a job until its input is read; why it failed. Starved ones go on, as in service."""
    nodes = [each.id for each in job.operators()]
    failed: PySparkException | None = None
    for _ in range(STARTS_MAX):
        query = start_query(session, replace(job, run=ledger.open_run(nodes, MAX_PARALLELISM)))
        try:
            query.processAllAvailable()
        except PySparkException as failure:
            failed = failure
        else:
            return None
        finally:
            query.stop()
        if STARVED not in str(failed):
            break
    return failed


def _compare(case: Case, plan: CompiledPlan, work: Path) -> str | None:
    """The first difference of what the sink wrote; a recorded case has one file sink."""
    sinks = [node for node in plan.sinks if _options(node).get("connector") == "filesystem"]
    if len(sinks) != 1:
        return f"{len(sinks)} sinks write files, so the recorded changelog is nobody's"
    rows = _sink_rows(case, sinks[0])
    parts = sorted((work / _options(sinks[0])["path"]).glob("part-*"))
    found = [rows.change(line) for part in parts for line in read_lines(part)]
    return _difference(case, rows, found)


def _sink_rows(case: Case, sink: ExecNode) -> SinkRows:
    assert isinstance(sink.view, Sink)
    names = [column.name for column in sink.view.table.schema.persisted]
    # What is left of a group may be null in a column that is NOT NULL, once values have expired.
    types = [each.with_nullable(True) for each in sink.output_type.children]
    return SinkRows.of(types, names, case.content.get("pk") or ())


def _difference(case: Case, rows: SinkRows, found: Sequence[Change]) -> str | None:
    final = [rows.row(line) for line in read_lines(case.folder / "expected_final.jsonl")]
    if "only_final" in case.content:
        return difference_of_tables(rows, found, final)
    changes = read_lines(case.folder / "expected_changelog.jsonl")
    return difference(rows, found, [rows.change(line) for line in changes], final)


def _options(node: ExecNode) -> Mapping[str, str]:
    assert isinstance(node.view, Sink)
    return node.view.table.options


def _in_step(document: dict[str, Any], epochs: Sequence[tuple[int | None, int]]) -> dict[str, Any]:
    """The plan with sources that go in step through these epochs."""
    document = orjson.loads(orjson.dumps(document))
    for node in document["nodes"]:
        if "scanTableSource" in node:
            options = node["scanTableSource"]["table"]["resolvedTable"]["options"]
            if options.get("connector") == "filesystem":
                options["testing.time-field"] = MARK
                options["testing.epochs"] = orjson.dumps(epochs).decode()
    return document


def _options_of(case: Case) -> RunOptions:
    config = case.content.get("config") or {}
    options = PipelineOptions(
        trigger_interval_ms=0,
        max_parallelism=MAX_PARALLELISM,
        default_ttl_ms=parse_duration_ms(str(config.get("table.exec.state.ttl", "0 ms"))),
        on_malformed="fail",
    )
    return options.resolved(ExecutionSettings())


def _watermark_interval_ms(case: Case) -> int:
    """How far a watermark of the recorded job was ahead of the one before it; 0: at all."""
    config = case.content.get("config") or {}
    stated = config.get("pipeline.auto-watermark-interval")
    return WATERMARK_INTERVAL_MS if stated is None else parse_duration_ms(str(stated))


def _job(case: Case, plan: CompiledPlan, name: str, work: Path, engines: Engines) -> PipelineJob:
    return PipelineJob(
        pipeline=name,
        plan=plan,
        run=0,
        incarnation=None,
        redis_url=engines.redis_url,
        checkpoint=str(work / "checkpoint"),
        options=_options_of(case),
        parallelism=2,
        max_parallelism=MAX_PARALLELISM,
        files_root=str(work),
        version=package_version(),
        allow_testing=True,
    )
