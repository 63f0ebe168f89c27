"""Runs one command and makes sure that it ends with the process that asked for it.

Run as a script by the launcher, in a session of its own, with the standard library only:

    guard.py PID_FILE LOG_FILE GRACE_S COMMAND...     stdin: a pipe that only the launcher holds

It writes the command's process id to its output (one line) and to PID_FILE, and waits. When the
pipe closes (the launcher says stop, or died of anything, SIGKILL too) it sends SIGTERM, after
GRACE_S SIGKILL. When the command has ended, for whatever reason, what it left behind is ended too.

Three ties hold, so that no single death leaves something running:
- the pipe: the launcher's end is seen by the guard, whatever the launcher died of;
- the parent-death signal: the guard's own end kills the command (Linux);
- the subreaper flag: processes whose parent died, as the Python daemons and workers of a killed
  JVM, become children of the guard, which can therefore find them (Linux).
A parent-death signal set by the launcher itself would not do: the kernel sends it when the
*thread* that started the child ends, and servers are started from pool threads.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ORPHAN_GRACE_S = 1.0
"""A daemon sees the end of its JVM by itself and tells its workers; this long it may take."""


def main(arguments: list[str]) -> int:
    """Run the command of the command line; returns its exit status as a shell would."""
    pid_file, log_file, grace, *command = arguments
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wakeup = _wake_on_signals()
    with open(log_file, "ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            # Safe here: this process has one thread.
            preexec_fn=_die_with_the_guard,
        )
    with open(pid_file, "w", encoding="ascii") as file:
        file.write(f"{child.pid}\n")
    os.write(sys.stdout.fileno(), b"%d\n" % child.pid)

    if _wait_for_end_or_order(child, wakeup) is None:
        _end(child, float(grace))
    _end_orphans()
    status = child.returncode
    return 128 - status if status < 0 else status


def _die_with_the_guard() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _wake_on_signals() -> int:
    """A descriptor that becomes readable when the child ends or we are told to end."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda *_: None)
    return reader


def _wait_for_end_or_order(child: subprocess.Popen[bytes], wakeup: int) -> int | None:
    """The child's status once it ended by itself; None once it is to be ended."""
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), wakeup], [], [])
        if (status := child.poll()) is not None:
            return status
        if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 64):
            return None
        if wakeup in ready and set(os.read(wakeup, 64)) - {signal.SIGCHLD}:
            return None


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_orphans() -> None:
    """End every process that descends from us, first by leaving it time, then by SIGKILL."""
    deadline = time.monotonic() + ORPHAN_GRACE_S
    while orphans := _descendants(os.getpid()):
        if time.monotonic() > deadline:
            for pid in orphans:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        _reap()
        time.sleep(0.02)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def _descendants(root: int) -> list[int]:
    """Process ids below one, from /proc; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    found, level = [], [root]
    while level:
        level = [child for each in level for child in children.get(each, ())]
        found += level
    return found


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name is in parentheses and may hold blanks and parentheses itself.
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
