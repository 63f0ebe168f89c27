"""What a TTL adds to each primitive, in instructions: the same whatever else runs.

Two pipelines hold the same keys, one with a TTL (OnCreateAndWrite, one hour: nothing expires), one
without. Each runs epochs of the operations of `bench_state_ttl`, every key touched once; callgrind
counts the instructions of the last one: prefetch, operations, clean-up, writes, commit, close and
promotion. `ratio` is with TTL by without. On Redis the epochs are run twice, once with this process
counted and once with redis-server, there the mean of four; `ratio of both` is of their sum.

`--misses` counts what costs time beside instructions: data that a cache of 1 MiB, as a core has of
its own, does not hold. With few keys everything is held; take 10,000.

It needs valgrind with its header `valgrind/callgrind.h`, and a C compiler.

    python -m benchmarks.count_ttl_instructions [--backend heap,redis] [--keys 2000]
                [--collection-keys 500] [--kind value,...] [--keep FOLDER] [--misses]
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
from collections import Counter as Counts
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.bench_state_ttl import CASES, COLLECTIONS, GOAL, Arm
from benchmarks.state_epochs import ground
from state.ttl import TtlConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench_state_ttl import Case
    from benchmarks.state_epochs import Ground

ACCESSES = ("read", "write")
WARM_EPOCHS = 20
"""Before what is counted, so that it is no first time for anything: CPython makes code that has run
a number of times quicker."""
TUNABLES = "glibc.cpu.hwcaps=-ERMS"
"""Callgrind counts each byte that a `rep movsb` copies as an instruction: copies do without."""
CACHES = ("--cache-sim=yes", "--D1=32768,8,64", "--LL=1048576,8,64")
"""A core's first cache, and as the last one that which it shares with none."""
SERVER_EPOCHS = 4
"""Epochs that are counted of redis-server, whose Lua collects garbage in some of them."""
_COUNTER = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *label) { CALLGRIND_DUMP_STATS_AT(label); CALLGRIND_STOP_INSTRUMENTATION; }
"""
"""Callgrind is spoken to by instructions that only a compiler of C writes."""


def missing() -> str:
    """What is not there that counting needs; empty if all is."""
    for name in ("valgrind", "vgdb", "cc"):
        if shutil.which(name) is None:
            return name
    header = subprocess.run(
        ["cc", "-fsyntax-only", "-include", "valgrind/callgrind.h", "-x", "c", os.devnull],
        capture_output=True,
        check=False,
    )
    return "" if header.returncode == 0 else "the header valgrind/callgrind.h"


class Counter(Protocol):
    """Counts instructions of epochs."""

    epochs: int
    """So many of each kind."""

    def begin(self) -> None:
        """From here."""

    def end(self, label: str) -> None:
        """To here, to be added to what has this name."""


class OwnCounter:
    """Of this process, which callgrind runs."""

    epochs = 1

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def begin(self) -> None:
        """From here."""
        self._library.begin()

    def end(self, label: str) -> None:
        """To here."""
        self._library.end(label.encode())


class ServerCounter:
    """Of redis-server, which callgrind runs."""

    epochs = SERVER_EPOCHS

    def __init__(self, place: Ground) -> None:
        if place.client is None:
            raise SystemExit("a heap has no server")
        told: Any = place.client.info("server")
        self._process = told["process_id"]
        # What it does by the clock would be counted as it falls.
        for name, value in (("hz", "1"), ("activerehashing", "no")):
            place.client.config_set(name, value)

    def begin(self) -> None:
        """From here."""
        self._tell("instrumentation on")
        self._tell("zero")

    def end(self, label: str) -> None:
        """To here."""
        self._tell(f"dump {label.replace(' ', '.')}")
        self._tell("instrumentation off")

    def _tell(self, command: str) -> None:
        subprocess.run(
            ["vgdb", f"--pid={self._process}", *command.split()], check=True, capture_output=True
        )


def counted_case(case: Case, keys: int, counter: Counter, place: Ground) -> None:
    """Run a case, and count in it."""
    on = replace(case.descriptor, ttl=TtlConfig(3_600_000))
    for access in ACCESSES:
        operation = getattr(case, access)
        for name, descriptor in (("with", on), ("without", case.descriptor)):
            arm = Arm(place.pipeline("bench"), descriptor, keys)
            arm.fill(case)
            for _ in range(WARM_EPOCHS):
                arm.epoch(operation, keys)
            for _ in range(counter.epochs):
                if case.grows and operation is case.write:
                    arm.fill(case)
                counter.begin()
                arm.epoch(operation, keys)
                counter.end(f"{case.descriptor.kind} {access} {name}")


def count_cases(counter: Counter, place: Ground, given: argparse.Namespace) -> None:
    """Count all cases that are asked for."""
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


@contextmanager
def dumps(given: argparse.Namespace, what: str) -> Iterator[Path]:
    """A folder for what callgrind writes, kept where that is asked for."""
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(given.keep, what) if given.keep else Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        for each in folder.glob("out*"):
            each.unlink()
        yield folder


def valgrind(folder: Path, given: argparse.Namespace) -> list[str]:
    """The command that runs another one, counting nothing yet."""
    out = f"--callgrind-out-file={folder / 'out'}"
    caches = CACHES if given.misses else ()
    return ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", *caches, out]


def own_counts(backend: str, given: argparse.Namespace) -> dict[str, int]:
    """What is counted of the process that runs the epochs, by label."""
    with dumps(given, f"{backend}-process") as folder:
        library, source = folder / "counter.so", folder / "counter.c"
        source.write_text(_COUNTER)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        command = [
            *valgrind(folder, given),
            sys.executable,
            "-m",
            "benchmarks.count_ttl_instructions",
        ]
        command += [*sys.argv[1:], "--backend", backend, "--library", str(library)]
        # Equal hashes of text, so that every run does the same.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": given.tree}
        subprocess.run(command, env=environment, cwd=given.tree, check=True)
        return read_dumps(folder, given)


def server_counts(given: argparse.Namespace) -> dict[str, int]:
    """What is counted of redis-server, by label."""
    with dumps(given, "redis-server") as folder:
        with ground("redis", valgrind(folder, given)) as place:
            count_cases(ServerCounter(place), place, given)
        return {
            label: of_all // SERVER_EPOCHS for label, of_all in read_dumps(folder, given).items()
        }


def read_dumps(folder: Path, given: argparse.Namespace) -> dict[str, int]:
    """The sums of dumps, by their labels."""
    found: Counts[str] = Counts()
    wanted = ("DLmr", "DLmw") if given.misses else ("Ir",)
    for dump in folder.glob("out.*"):
        text = dump.read_text()
        label = re.search(r"^desc: Trigger: (?:Client Request:|dump) (.*)$", text, re.MULTILINE)
        names = re.search(r"^events: (.*)$", text, re.MULTILINE)
        totals = re.search(r"^(?:summary|totals): (.*)$", text, re.MULTILINE)
        if label and names and totals:
            counted = dict(zip(names[1].split(), map(int, totals[1].split()), strict=True))
            found[label[1].strip().replace(".", " ")] += sum(map(counted.__getitem__, wanted))
    return found


def table(backend: str, given: argparse.Namespace) -> None:
    """Count a backend, and print what an operation has."""
    sides = {"process": own_counts(backend, given)}
    if backend == "redis":
        sides["server"] = server_counts(given)
    print(f"\n{backend}\n")
    titles = [f"{each} without TTL | ratio" for each in sides]
    titles += ["ratio of both"] if len(sides) > 1 else []
    print(f"| primitive | access | {' | '.join(titles)} | goal |")
    print("|---|---|" + "---:|" * (" | ".join(titles).count("|") + 2))
    for case in chosen(given):
        kind, keys = case.descriptor.kind, keys_of(case, given)
        for access in ACCESSES:
            cells: list[str] = []
            sums = [0, 0]
            for found in sides.values():
                plain, stamped = (found[f"{kind} {access} {name}"] for name in ("without", "with"))
                cells.append(f"{plain / keys:,.{given.misses:d}f} | {stamped / plain:.3f}")
                sums = [sums[0] + plain, sums[1] + stamped]
            if len(sides) > 1:
                cells.append(f"{sums[1] / sums[0]:.3f}")
            print(f"| {kind.replace('_', ' ')} | {access} | {' | '.join(cells)} | {GOAL} |")


def main() -> None:
    """Count what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--keys", type=int, default=2_000, help="of states of one element a key")
    parser.add_argument("--collection-keys", type=int, default=500)
    parser.add_argument("--kind", default="", help="only these primitives")
    parser.add_argument("--keep", default="", help="a folder for what callgrind writes")
    parser.add_argument("--misses", action="store_true", help="of a cache, not instructions")
    parser.add_argument("--library", default="", help="as which it calls itself")
    given = parser.parse_args()
    given.tree = str(Path(__file__).parent.parent)
    if given.library:
        with ground(given.backend) as place:
            count_cases(OwnCounter(given.library), place, given)
        return
    if lacking := missing():
        sys.exit(f"not counted: this needs {lacking}")
    os.environ["GLIBC_TUNABLES"] = TUNABLES
    for backend in given.backend.split(","):
        table(backend, given)


if __name__ == "__main__":
    main()
