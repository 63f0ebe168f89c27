"""Readiness against servers that are configured wrongly, or away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conftest import RedisServer
from tests.service.app_client import AppClient, settings_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis


def reasons(app: AppClient) -> dict[str, str]:
    """The reason of each check that fails; readiness must say the same as its status."""
    answer = app.get("/readyz")
    body: dict[str, Any] = answer.json()
    failed = {each["name"]: each["reason"] for each in body["checks"] if not each["ok"]}
    assert answer.status_code == (503 if failed else 200)
    assert body["ready"] is not bool(failed)
    return failed


def test_a_service_with_its_neighbours_is_ready(app: AppClient) -> None:
    assert reasons(app) == {}
    body = app.json("/readyz")
    assert [each["name"] for each in body["checks"]] == [
        "redis-writable",
        "redis-append-only",
        "redis-noeviction",
        "redis-functions",
        "spark",
    ]
    assert body["limits"]["pipelines_max"] == app.settings.limits.pipelines_max


def test_without_spark_it_is_not_ready_but_lives(app: AppClient) -> None:
    app.spark.is_away = True

    assert reasons(app) == {"spark": "Spark Connect does not answer"}
    assert app.get("/healthz").status_code == 200


def test_functions_that_are_gone_are_loaded_again(
    app: AppClient, redis_client: redis.Redis
) -> None:
    redis_client.function_flush()

    assert reasons(app) == {}
    assert redis_client.function_list()


def test_each_unsafe_setting_of_redis_is_named(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    try:
        with AppClient(settings_for(server.url, tmp_path)) as app:
            import redis

            with redis.Redis(port=server.port) as client:
                client.config_set("appendonly", "no")
                client.config_set("maxmemory-policy", "allkeys-lru")
                failed = reasons(app)
                assert "appendonly yes" in failed["redis-append-only"]
                assert "noeviction" in failed["redis-noeviction"]
                client.config_set("maxmemory-policy", "noeviction")
                client.config_set("maxmemory", "1")
                assert reasons(app)["redis-writable"] == "redis is full: raise maxmemory"
                client.config_set("maxmemory", "0")
            server.kill()
            failed = reasons(app)
            assert failed["redis-writable"] == "redis cannot be reached"
            assert str(server.port) not in str(failed)
            assert app.get("/healthz").status_code == 200
    finally:
        server.stop()


def test_metrics_are_told_without_redis(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    try:
        with AppClient(settings_for(server.url, tmp_path)) as app:
            assert "tailrace_redis_up 1.0" in app.get("/metrics").text
            server.kill()
            assert app.get("/v1/pipelines").status_code == 503
            answer = app.get("/metrics")
            assert answer.status_code == 200
            assert "tailrace_redis_up 0.0" in answer.text
            assert 'route="/v1/pipelines",status="503"' in answer.text
            server.start()
            assert "tailrace_redis_up 1.0" in app.get("/metrics").text
    finally:
        server.stop()


def test_the_service_starts_without_redis(tmp_path: Path) -> None:
    with AppClient(settings_for("redis://127.0.0.1:1/0", tmp_path)) as app:
        assert "redis-writable" in reasons(app)
        assert app.get("/v1/pipelines").status_code == 503
