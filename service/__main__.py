"""The command line: `tailrace serve`, and what runs around it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="tailrace",
    help="Flink SQL over changelogs, on Spark Connect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Flink SQL over changelogs, on Spark Connect."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Overrides TAILRACE_HTTP__HOST.")] = None,
    port: Annotated[int | None, typer.Option(help="Overrides TAILRACE_HTTP__PORT.")] = None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C; pipelines keep running on the Spark server."""
    warnings.filterwarnings(  # pyspark has an opinion about pandas, which we hand no rows
        "ignore", "PySpark does not yet fully support", FutureWarning
    )
    import uvicorn
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from service.app import HEAD_SIZE_MAX_BYTES, create_app
    from service.settings import Settings
    from service.settings_in_words import faults
    from service.telemetry import configure_logging
    from service.wiring import open_services

    try:
        settings = Settings()
    except (ValidationError, SettingsError) as error:
        for each in faults(error):
            typer.echo(f"setting {each}", err=True)
        raise typer.Exit(2) from None
    configure_logging(settings.logging)
    uvicorn.run(
        create_app(settings, open_services),
        host=host or settings.http.host,
        port=settings.http.port if port is None else port,
        timeout_graceful_shutdown=max(1, settings.http.shutdown_grace_ms // 1_000),
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=HEAD_SIZE_MAX_BYTES,
        log_config=None,
    )


@app.command()
def demo(
    year: Annotated[bool, typer.Option("--year", help="All of 2013 instead of January.")] = False,
    port: Annotated[int, typer.Option(help="Port of the service.")] = 8080,
    redis_port: Annotated[int, typer.Option(help="Port of the demo's own Redis.")] = 16379,
    spark_port: Annotated[int, typer.Option(help="Port of its own Spark Connect server.")] = 15002,
    folder: Annotated[Path, typer.Option(help="Where everything is written.")] = Path("data"),
    stay: Annotated[bool, typer.Option(help="Keep serving until Ctrl-C.")] = True,
) -> None:
    """Run everything on this machine, with real data, as `make run` does."""
    from service.demo.run import DemoOptions, run

    options = DemoOptions(
        folder=folder,
        port=port,
        redis_port=redis_port,
        spark_port=spark_port,
        year=year,
        stay=stay,
    )
    raise typer.Exit(run(options))


@app.command()
def spark_connect(
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 15002,
    folder: Annotated[Path, typer.Option(help="Where logs and scratch data go.")] = Path("spark"),
    memory_mb: Annotated[int, typer.Option(help="Heap of the JVM; 0: half of the memory.")] = 0,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark, NAME=VALUE; may be repeated.")
    ] = None,
) -> None:
    """Run a Spark Connect server with the measured configuration, until SIGTERM or Ctrl-C."""
    from service.runtime.errors import LaunchError
    from service.runtime.launcher import EmbeddedSpark

    lines = [each.partition("=") for each in conf or ()]
    if any(not name or not equals for name, equals, _ in lines):
        raise typer.BadParameter("--conf takes NAME=VALUE")
    extra = {name: value for name, _, value in lines}
    try:
        with EmbeddedSpark(
            folder, port, address=address, memory_mb=memory_mb, extra=extra
        ) as server:
            raise typer.Exit(server.join())
    except LaunchError as problem:
        typer.echo(f"tailrace: {problem}", err=True)
        raise typer.Exit(1) from None


def main() -> None:
    """Entry point of the `tailrace` command."""
    app()


if __name__ == "__main__":
    main()
