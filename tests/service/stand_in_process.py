"""The service as a process, with a stand-in for Spark: `python -m` this module."""

from __future__ import annotations

import uvicorn

from service.app import create_app
from service.settings import Settings
from service.telemetry import configure_logging
from tests.service.app_client import StandInSpark, opener_with

if __name__ == "__main__":
    settings = Settings(_env_file=None)
    configure_logging(settings.logging)
    uvicorn.run(
        create_app(settings, opener_with(StandInSpark())),
        port=settings.http.port,
        access_log=False,
        log_config=None,
    )
