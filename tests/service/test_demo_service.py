"""The demo's own service: its settings are the demo's, whatever lies where it was started."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import httpx

from service.demo.run import DemoOptions, _start_service, _stop
from tests.conftest import free_port
from tests.service.app_client import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_settings_file_where_the_demo_is_started_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = sha256(b"secret").hexdigest()
    (tmp_path / ".env").write_text(f'TAILRACE_AUTH__KEYS=["ops:operate:{key}"]\n')
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "demo"
    folder.mkdir()
    options = DemoOptions(folder, free_port(), 0, 0, year=False, stay=False)
    nowhere = free_port()
    service = _start_service(options, f"redis://127.0.0.1:{nowhere}/0", f"sc://127.0.0.1:{nowhere}")
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{options.port}") as client:

            def answers() -> bool:
                assert service.poll() is None
                try:
                    return client.get("/healthz").is_success
                except httpx.TransportError:
                    return False

            until(answers, timeout_s=60)
            # Without Redis, which is another matter than without a key.
            assert client.get("/v1/pipelines").status_code == 503
    finally:
        _stop(service)
