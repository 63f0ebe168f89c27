"""Plan cases: a whole compiled plan over its inputs, on real Spark with state in Redis."""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.errors import PySparkException

from operators.errors import InvalidSpec
from service.plan import PlanError, explain, load_plan, unsupported
from service.plan.durations import parse_duration_ms
from service.plan.nodes import Sink
from service.runtime.dataflow import PipelineJob, check_plan, start_query
from service.runtime.dataflow_errors import (
    DataflowError,
    UnsupportedConnector,
    UnsupportedNode,
)
from service.runtime.expressions.errors import ExpressionError, UnsupportedExpression
from service.runtime.launcher import package_version
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings, FilesSettings, Settings
from state.epochs import EpochLedger
from tests.oracles.cases import Case, Outcome, read_lines
from tests.oracles.changelogs import SinkRows, difference
from tests.oracles.failures import difference_of_failures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from service.plan import CompiledPlan, ExecNode, Unsupported
    from tests.oracles.engines import Engines

MAX_PARALLELISM = 8
_REFUSALS = (PlanError, DataflowError, ExpressionError, InvalidSpec)
_NO_NAME = re.compile(r"[^a-z0-9]+")
_numbers = itertools.count(1)
"""Two cases may have the same folder name; pipelines may not."""


def run_plan(
    case: Case, engine_names: Sequence[str], backends: Sequence[str], engines: Engines
) -> Iterator[Outcome]:
    """Load, run and compare; one outcome."""
    plan_file = case.folder / str(case.content.get("executed_plan") or "plan.json")
    if not plan_file.exists():
        yield Outcome(case.name, unsupported="compiling SQL")
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
        # Recorded as a plan only: Flink was not asked to run it, so nothing is known of its rows.
        explain(plan)
        yield Outcome(case.name, unsupported="plans without a recorded changelog")
    elif "spark" not in engine_names or "redis" not in backends:
        yield Outcome(case.name, unsupported="plans without engine spark and backend redis")
    else:
        yield _execute(case, document, engines, recorded)


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


def _execute(
    case: Case, document: dict[str, Any], engines: Engines, recorded: str | None
) -> Outcome:
    """Run the plan on copies of the inputs, and compare what its sink wrote, or how it failed."""
    name = f"{_NO_NAME.sub('-', case.folder.name.lower())[:40]}-{next(_numbers)}"
    work = engines.folder / "plans" / name
    shutil.copytree(case.folder / "inputs", work / "inputs", copy_function=shutil.copyfile)
    plan = load_plan(_with_time(document))
    ledger = EpochLedger(engines.redis_client(), name)
    ledger.drop()
    job = _job(case, plan, name, work, engines)
    run = ledger.open_run([each.id for each in job.operators()], MAX_PARALLELISM)
    query = start_query(engines.spark_session(), replace(job, run=run))
    try:
        query.processAllAvailable()
    except PySparkException as failure:
        return Outcome(case.name, _failed("the query failed", recorded, failure))
    finally:
        query.stop()
    if recorded is not None:
        return Outcome(case.name, "Flink fails on it; the query ran")
    return Outcome(case.name, _compare(case, plan, work))


def _compare(case: Case, plan: CompiledPlan, work: Path) -> str | None:
    """The first difference of what the sink wrote; a recorded case has one file sink."""
    sinks = [node for node in plan.sinks if _options(node).get("connector") == "filesystem"]
    if len(sinks) != 1:
        return f"{len(sinks)} sinks write files, so the recorded changelog is nobody's"
    key = case.content.get("pk") or ()
    view = sinks[0].view
    assert isinstance(view, Sink)
    names = [column.name for column in view.table.schema.persisted]
    rows = SinkRows.of(sinks[0].output_type.children, names, key)
    parts = sorted((work / _options(sinks[0])["path"]).glob("part-*"))
    found = [rows.change(line) for part in parts for line in read_lines(part)]
    changes = read_lines(case.folder / "expected_changelog.jsonl")
    final = read_lines(case.folder / "expected_final.jsonl")
    return difference(
        rows, found, [rows.change(line) for line in changes], [rows.row(line) for line in final]
    )


def _options(node: ExecNode) -> Mapping[str, str]:
    assert isinstance(node.view, Sink)
    return node.view.table.options


def _with_time(document: dict[str, Any]) -> dict[str, Any]:
    """The plan with sources that take their time from the lines' `t`."""
    document = orjson.loads(orjson.dumps(document))
    for node in document["nodes"]:
        if "scanTableSource" in node:
            options = node["scanTableSource"]["table"]["resolvedTable"]["options"]
            if options.get("connector") == "filesystem":
                options["testing.time-field"] = "t"
    return document


def _job(case: Case, plan: CompiledPlan, name: str, work: Path, engines: Engines) -> PipelineJob:
    config = case.content.get("config") or {}
    options = PipelineOptions(
        trigger_interval_ms=0,
        max_parallelism=MAX_PARALLELISM,
        default_ttl_ms=parse_duration_ms(str(config.get("table.exec.state.ttl", "0 ms"))),
        on_malformed="fail",
    )
    return PipelineJob(
        pipeline=name,
        plan=plan,
        run=0,
        incarnation=None,
        redis_url=engines.redis_url,
        checkpoint=str(work / "checkpoint"),
        options=options.resolved(ExecutionSettings()),
        parallelism=2,
        max_parallelism=MAX_PARALLELISM,
        files_root=str(work),
        version=package_version(),
        allow_testing=True,
    )
