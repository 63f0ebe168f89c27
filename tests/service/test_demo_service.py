"""The demo's own service: its settings are the demo's, whatever lies where it was started."""

from __future__ import annotations

import os
import signal
from hashlib import sha256
from typing import TYPE_CHECKING

import httpx
import pytest

from service.demo.run import DemoOptions, EmbeddedService
from service.runtime.errors import LaunchError
from tests.conftest import free_port
from tests.service.app_client import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedService]:
    """Without Redis and Spark, which other tests of the demo have."""
    monkeypatch.chdir(tmp_path)
    options = DemoOptions(tmp_path / "demo", free_port(), 0, 0, year=False, stay=False)
    nowhere = free_port()
    made = EmbeddedService(options, f"redis://127.0.0.1:{nowhere}/0", f"sc://127.0.0.1:{nowhere}")
    try:
        yield made
    finally:
        made.stop()


def served(service: EmbeddedService, path: str) -> httpx.Response:
    """What it answers as soon as it answers at all."""
    replies: list[httpx.Response] = []

    def answers() -> bool:
        service.check()
        try:
            replies.append(httpx.get(f"{service.url}{path}", timeout=30))
        except httpx.TransportError:
            return False
        return True

    until(answers, timeout_s=60)
    return replies[-1]


def test_a_settings_file_where_the_demo_is_started_is_not_read(
    service: EmbeddedService, tmp_path: Path
) -> None:
    key = sha256(b"secret").hexdigest()
    (tmp_path / ".env").write_text(f'TAILRACE_AUTH__KEYS=["ops:operate:{key}"]\n')
    service.start()

    # Without Redis, which is another matter than without a key.
    assert served(service, "/v1/pipelines").status_code == 503


def test_settings_of_the_environment_hold_but_for_the_demos_own(
    service: EmbeddedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = sha256(b"secret").hexdigest()
    own = {"TAILRACE_AUTH__KEYS": f'["ops:operate:{key}"]', "TAILRACE_HTTP__PORT": "1"}
    for name, value in {**own, "TAILRACE_LIMITS__PIPELINES_MAX": "3"}.items():
        monkeypatch.setenv(name, value)
    service.start()

    answer = served(service, "/readyz").json()
    assert answer["limits"]["pipelines_max"] == 3
    # No key is asked for.
    assert served(service, "/v1/pipelines").status_code == 503
    assert service.not_taken(os.environ) == sorted(own)


def test_a_setting_that_is_none_is_said_in_its_own_words(
    service: EmbeddedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_LIMITS__PIPELINES_MAX", "many")
    service.start()

    with pytest.raises(LaunchError, match=r"ended while it started: setting .*PIPELINES_MAX"):
        service.wait(60)


def test_a_service_that_has_ended_is_found(service: EmbeddedService) -> None:
    service.start()
    service.check()
    assert service.pid is not None
    os.kill(service.pid, signal.SIGKILL)
    until(lambda: not service.running, timeout_s=30)

    with pytest.raises(LaunchError, match="The service has ended"):
        service.check()
