"""What the helper processes beside the driver do at their first calls."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from service.runtime.helpers import settle

counts = [gc.get_freeze_count()]
for role, kept in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
    extra = [[n] for n in range(1_000)]
    globals()[f"kept_{kept}"] = extra
    settle(role)
    counts.append(gc.get_freeze_count())
print(*counts)
"""


def test_what_is_there_at_the_first_two_calls_of_a_role_is_out_of_collections() -> None:
    # In a process of its own: what is frozen stays so.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )

    before, first, second, third, other = map(int, done.stdout.split())
    assert before == 0
    assert first > 1_000
    assert second >= first + 1_000
    assert third == second
    assert other >= second + 1_000
