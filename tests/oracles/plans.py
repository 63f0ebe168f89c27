"""Plan cases: a whole compiled plan over its inputs, on real Spark with state in Redis."""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.errors import PySparkException

from service.plan import PlanError, explain, load_plan, unsupported
from service.plan.durations import parse_duration_ms
from service.plan.nodes import Sink
from service.runtime.dataflow import PipelineJob, start_query
from service.runtime.dataflow_errors import UnsupportedConnector, UnsupportedNode
from service.runtime.expressions.errors import UnsupportedExpression
from service.runtime.launcher import package_version
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from state.epochs import EpochLedger
from tests.oracles.cases import Case, Outcome, read_lines
from tests.oracles.changelogs import SinkRows, difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from service.plan import CompiledPlan, ExecNode, Unsupported
    from tests.oracles.engines import Engines

MAX_PARALLELISM = 8
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
    must_fail = (case.folder / "error.txt").exists()
    try:
        plan = load_plan(document)
    except PlanError as refusal:
        yield Outcome(case.name, None if must_fail else f"the plan is refused: {refusal}")
        return
    missing = unsupported(plan)
    if missing:
        yield Outcome(case.name, unsupported=_what(missing[0]))
    elif not must_fail and not (case.folder / "expected_changelog.jsonl").exists():
        # Recorded as a plan only: Flink was not asked to run it.
        explain(plan)
        yield Outcome(case.name)
    elif "spark" not in engine_names or "redis" not in backends:
        yield Outcome(case.name, unsupported="plans without engine spark and backend redis")
    else:
        yield _execute(case, document, engines, must_fail=must_fail)


def _what(missing: Unsupported) -> str:
    """The node, or what of it is not run yet."""
    if missing.path.endswith("/conflictStrategy/behavior"):
        return "watermark-compacting-sink-materializer"
    return missing.type if missing.reason.startswith("nodes of type") else missing.reason


def _execute(case: Case, document: dict[str, Any], engines: Engines, *, must_fail: bool) -> Outcome:
    """Run the plan on copies of the inputs, and compare what its sink wrote."""
    name = f"{_NO_NAME.sub('-', case.folder.name.lower())[:40]}-{next(_numbers)}"
    work = engines.folder / "plans" / name
    shutil.copytree(case.folder / "inputs", work / "inputs", copy_function=shutil.copyfile)
    plan = load_plan(_with_time(document))
    ledger = EpochLedger(engines.redis_client(), name)
    ledger.drop()
    job = _job(case, plan, name, work, engines)
    run = ledger.open_run([each.id for each in job.operators()], MAX_PARALLELISM)
    try:
        query = start_query(engines.spark_session(), replace(job, run=run))
    except (UnsupportedConnector, UnsupportedExpression, UnsupportedNode) as refusal:
        return Outcome(case.name, unsupported=str(refusal))
    try:
        query.processAllAvailable()
    except PySparkException as failure:
        wrong = None if must_fail else f"the query failed: {str(failure).splitlines()[0]}"
        return Outcome(case.name, wrong)
    finally:
        query.stop()
    if must_fail:
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
    )
