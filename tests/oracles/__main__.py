"""Run recorded cases: `python -m tests.oracles PATH... [--backend heap,redis] [--strategy ...]`.

With `--compile`, plan cases are not run: their SQL is compiled, and the plan compared with Flink's.
With `--jobs N`, so many cases run at once, on one Spark Connect server if they need any.

Every case at or below each PATH is run; the kind of a case is told by its files, not by its place
(`README.md` beside this file has the format). One line is printed for each failing case with its
first difference; cases of which nothing is run here, or not yet, are listed as
`unsupported: WHAT` and counted apart; the last line is `N passed, M failed`. The exit
status is 0 only if no case failed and there was one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracles.cases import Case, Kind, NoCases, Outcome, find_cases
from tests.oracles.compacting import run_compacting
from tests.oracles.engines import Engines
from tests.oracles.materializer import run_materializer
from tests.oracles.ttl import run_ttl
from tests.oracles.validation import run_validation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BACKENDS = ("heap", "redis")
STRATEGIES = ("LEGACY", "VALUE", "MAP", "ADAPTIVE")
ENGINES = ("harness", "spark")


def main(arguments: Sequence[str]) -> int:
    """Run the cases that the command line names; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        cases = [case for path in options.paths for case in find_cases(path)]
    except NoCases as problem:
        print(problem, file=sys.stderr)
        return 2
    if options.compile:
        return _compile(cases)
    passed = failed = 0
    unsupported: Counter[str] = Counter()
    engines = Engines(redis_url=options.redis_url, spark_remote=options.spark_remote)
    with engines, ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda case: list(_outcomes(case, options, engines)), cases):
            for outcome in found:
                if outcome.unsupported is not None:
                    unsupported[outcome.unsupported] += 1
                    print(f"{outcome.name}: unsupported: {outcome.unsupported}")
                elif outcome.difference is not None:
                    failed += 1
                    print(f"{outcome.name}: {outcome.difference}", flush=True)
                else:
                    passed += 1
    if unsupported:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(unsupported.items()))
        print(f"{unsupported.total()} unsupported ({counts})")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or not passed + unsupported.total())


def _compile(cases: Sequence[Case]) -> int:
    """Compile the SQL of plan cases; returns the exit status."""
    from tests.oracles.compile import compile_case

    counts: Counter[str] = Counter()
    for case in cases:
        if case.kind is not Kind.PLAN:
            continue
        try:
            outcome = compile_case(case)
        except Exception as problem:  # one case that breaks us must not hide those after it
            outcome = Outcome(case.name, f"{type(problem).__name__}: {problem}")
        if outcome.unsupported is not None:
            counts["unsupported"] += 1
            print(f"{outcome.name}: unsupported: {outcome.unsupported}")
        elif outcome.difference is not None:
            counts["failed"] += 1
            print(f"{outcome.name}: {outcome.difference}")
        else:
            counts["passed"] += 1
    print(
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['unsupported']} unsupported"
    )
    return int(counts["failed"] > 0 or not counts.total())


def _outcomes(case: Case, options: argparse.Namespace, engines: Engines) -> Iterator[Outcome]:
    """The outcomes of a case; one that breaks us fails, and must not hide those after it."""
    try:
        yield from _run(case, options, engines)
    except Exception as problem:  # as the docstring says
        lines = str(problem).splitlines() or [""]
        yield Outcome(case.name, f"{type(problem).__name__}: {lines[0]}")


def _run(case: Case, options: argparse.Namespace, engines: Engines) -> Iterator[Outcome]:
    match case.kind:
        case Kind.MATERIALIZER if "harness" not in options.engine:
            yield Outcome(case.name, unsupported="materializer cases without engine harness")
        case Kind.MATERIALIZER:
            yield from run_materializer(case, options.backend, options.strategy, engines)
        case Kind.PLAN:
            yield from _plan_runner()(case, options.engine, options.backend, engines)
        case Kind.VALIDATION:
            yield run_validation(case)
        case Kind.COMPACTING if "harness" not in options.engine:
            yield Outcome(case.name, unsupported="compacting cases without engine harness")
        case Kind.COMPACTING:
            yield from run_compacting(case, options.backend, engines)
        case Kind.TTL:
            yield from run_ttl(case, options.backend, engines)


def _plan_runner() -> Callable[..., Iterator[Outcome]]:
    """Imported when a plan is run: only plans need Spark's client, which warns of newer pandas."""
    with warnings.catch_warnings():
        # pyspark has an opinion about pandas, which we hand no rows.
        warnings.simplefilter("ignore", FutureWarning)
        from tests.oracles.plans import run_plan
    return run_plan


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.oracles", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--backend", type=_choice(BACKENDS), default=BACKENDS)
    parser.add_argument("--strategy", type=_choice(STRATEGIES), default=STRATEGIES)
    parser.add_argument("--engine", type=_choice(ENGINES), default=ENGINES)
    parser.add_argument(
        "--compile", action="store_true", help="compile the SQL of plan cases instead of running"
    )
    parser.add_argument("--jobs", type=int, default=1, help="so many cases at once; 1 if not given")
    parser.add_argument("--redis-url", help="a Redis to use; without, one is started and ended")
    parser.add_argument(
        "--spark-remote", help="a Spark Connect server of this machine to use; as with --redis-url"
    )
    return parser


def _choice(allowed: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = {name.lower(): name for name in allowed}
        try:
            return tuple(names[part.strip().lower()] for part in text.split(","))
        except KeyError as unknown:
            raise argparse.ArgumentTypeError(
                f"{unknown.args[0]!r} is none of {', '.join(allowed)}"
            ) from None

    return parse


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
