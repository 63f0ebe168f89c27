"""What a TTL adds to each primitive, in instructions of this process: the same whatever else runs.

Two pipelines on heap hold the same keys, one with a TTL (OnCreateAndWrite, one hour: nothing
expires), one without. Each runs epochs of the operations of `bench_state_ttl`, every key touched
once; callgrind counts the instructions of the last one: prefetch, operations, clean-up, writes,
commit, close and promotion. `ratio` is with TTL by without.

It needs valgrind with its header `valgrind/callgrind.h`, and a C compiler.

    python -m benchmarks.count_ttl_instructions [--keys 2000] [--collection-keys 500]
                [--kind value,...]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench_state_ttl import CASES, GOAL, Arm
from benchmarks.state_epochs import ground
from state.ttl import TtlConfig

if TYPE_CHECKING:
    from benchmarks.bench_state_ttl import Case
    from benchmarks.state_epochs import Ground

COLLECTIONS = {"list", "map", "sorted_map", "multiset"}
ACCESSES = ("read", "write")
WARM_EPOCHS = 2
"""Before what is counted, so that it is no first time for anything."""
_COUNTER = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *label) { CALLGRIND_DUMP_STATS_AT(label); CALLGRIND_STOP_INSTRUMENTATION; }
"""
"""Callgrind is spoken to by instructions that only a compiler of C writes."""


def missing() -> str:
    """What is not there that counting needs; empty if all is."""
    if shutil.which("valgrind") is None:
        return "valgrind"
    if shutil.which("cc") is None:
        return "a C compiler named cc"
    header = subprocess.run(
        ["cc", "-fsyntax-only", "-include", "valgrind/callgrind.h", "-x", "c", os.devnull],
        capture_output=True,
        check=False,
    )
    return "" if header.returncode == 0 else "the header valgrind/callgrind.h"


def counted_case(case: Case, keys: int, counter: ctypes.CDLL, place: Ground) -> None:
    """Run a case; called under callgrind."""
    on = replace(case.descriptor, ttl=TtlConfig(3_600_000))
    for access in ACCESSES:
        operation = getattr(case, access)
        for name, descriptor in (("with", on), ("without", case.descriptor)):
            arm = Arm(place.pipeline("bench"), descriptor, keys)
            arm.fill(case)
            for _ in range(WARM_EPOCHS):
                arm.epoch(operation, keys)
            if case.grows and operation is case.write:
                arm.fill(case)
            counter.begin()
            arm.epoch(operation, keys)
            counter.end(f"{case.descriptor.kind} {access} {name}".encode())


def run_counted(library: str, given: argparse.Namespace) -> None:
    """Run all cases that are asked for; called under callgrind."""
    counter = ctypes.CDLL(library)
    with ground("heap") as place:
        for case in chosen(given):
            counted_case(case, keys_of(case, given), counter, place)


def chosen(given: argparse.Namespace) -> list[Case]:
    """The cases that are asked for."""
    kinds = given.kind.split(",")
    return [each for each in CASES if not given.kind or each.descriptor.kind in kinds]


def keys_of(case: Case, given: argparse.Namespace) -> int:
    """How many keys a case has."""
    keys: int = given.collection_keys if case.descriptor.kind in COLLECTIONS else given.keys
    return keys


def counts(given: argparse.Namespace) -> dict[str, int]:
    """Instructions of each counted epoch, by its label."""
    with tempfile.TemporaryDirectory() as folder:
        library, out = Path(folder, "counter.so"), Path(folder, "out")
        source = Path(folder, "counter.c")
        source.write_text(_COUNTER)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        command = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]
        command += [f"--callgrind-out-file={out}", sys.executable]
        command += ["-m", "benchmarks.count_ttl_instructions", *sys.argv[1:]]
        # Equal hashes of text, so that every run does the same.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": given.tree}
        subprocess.run(
            [*command, "--library", library], env=environment, cwd=given.tree, check=True
        )
        found: dict[str, int] = {}
        for dump in Path(folder).glob("out.*"):
            text = dump.read_text()
            label = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
            total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
            if label and total:
                found[label[1].strip()] = int(total[1])
        return found


def main() -> None:
    """Count what the command line asks for, and print a table of instructions an operation."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=2_000, help="of states of one element a key")
    parser.add_argument("--collection-keys", type=int, default=500)
    parser.add_argument("--kind", default="", help="only these primitives")
    parser.add_argument("--library", default="", help="as which it calls itself")
    given = parser.parse_args()
    given.tree = str(Path(__file__).parent.parent)
    if given.library:
        run_counted(given.library, given)
        return
    if lacking := missing():
        sys.exit(f"not counted: this needs {lacking}")
    found = counts(given)
    print("| primitive | read: without TTL | ratio with | write: without TTL | ratio with | goal |")
    print("|---|---:|---:|---:|---:|---:|")
    for case in chosen(given):
        kind, keys = case.descriptor.kind, keys_of(case, given)
        cells: list[str] = []
        for access in ACCESSES:
            plain, stamped = (found[f"{kind} {access} {name}"] for name in ("without", "with"))
            cells += [f"{plain / keys:,.0f}", f"{stamped / plain:.3f}"]
        print(f"| {kind.replace('_', ' ')} | {' | '.join(cells)} | {GOAL} |")


if __name__ == "__main__":
    main()
