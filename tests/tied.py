"""Processes of tests that end with the process that runs the tests, also where it is killed."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def tied(
    command: Sequence[str],
    *,
    by: signal.Signals = signal.SIGKILL,
    user: tuple[int, int] | None = None,
) -> list[str]:
    """A command that gets a signal when the thread that starts it ends, or that thread's process.

    The guard under which the service starts its servers holds for any thread, but its start takes
    50 ms of processor time; tests start hundreds of servers, all in the thread that runs them.

    Args:
        command: Program and arguments; its process is the one that is started.
        by: The signal.
        user: Ids of the user and group that it is to run as; None for ours.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None and user is None:
        return list(command)  # not on Linux: what is killed there leaves its servers
    if setpriv is None:
        raise RuntimeError("setpriv is not installed (Debian: util-linux)")
    rights = ["--pdeathsig", by.name.removeprefix("SIG")]
    if user is not None:
        rights += [f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups"]
    return [setpriv, *rights, *command]
