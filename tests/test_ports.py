"""Test processes that run side by side are given different ports."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import free_port, lock_port


def told_by_another(expression: str) -> str:
    """What an expression comes to in a process of its own, which has ended then."""
    code = f"from tests.conftest import free_port, lock_port; print({expression})"
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().strip()


def test_a_port_is_of_the_process_that_it_was_given_to() -> None:
    port = free_port()
    assert told_by_another(f"lock_port({port})") == "False"


def test_a_process_that_ended_keeps_no_port() -> None:
    assert lock_port(int(told_by_another("free_port()")))


def test_a_process_is_given_a_port_once() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
