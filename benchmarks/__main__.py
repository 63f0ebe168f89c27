"""Run the benchmarks one after the other and keep what each prints in `benchmarks/results/`.

Figures are for comparing inside one run; `benchmarks/README.md` says what they mean.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run the benchmarks of these names (all without any); return how many failed."""
    chosen = names or sorted(path.stem for path in FOLDER.glob("bench_*.py"))
    results = FOLDER / "results"
    results.mkdir(exist_ok=True)
    failed = 0
    for name in chosen:
        print(f"== {name} (Python {platform.python_version()})", flush=True)
        run = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(run.stdout, flush=True)
        if run.returncode == 0:
            (results / f"{name}.md").write_text(run.stdout)
        failed += run.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
