"""What cases run on: a Redis and a Spark Connect server, started when the first case needs them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

import redis

from service.runtime.launcher import EmbeddedRedis, EmbeddedSpark
from service.runtime.spark_configuration import SESSION_CONFIGURATION
from tests.conftest import free_port


class Engines:
    """Started on demand below a folder of their own, ended with the `with` block.

    Several cases may ask at once: each engine is started once, by the first.
    """

    def __init__(self, *, redis_url: str | None = None, spark_remote: str | None = None) -> None:
        self._redis_url = redis_url
        self._spark_remote = spark_remote
        self._stack = contextlib.ExitStack()
        self._folder: Path | None = None
        self._session: Any = None
        self._client: redis.Redis | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._folder is not None:
            # Of a server that has just ended; a file that it still closes is of no case any more.
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """A folder that goes with the engines."""
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="tailrace-oracles-"))
            return self._folder

    @property
    def redis_url(self) -> str:
        """The address of a Redis that cases may fill."""
        with self._lock:
            if self._redis_url is None:
                server = EmbeddedRedis(self.folder / "redis", free_port(), append_fsync="no")
                self._stack.callback(server.stop)
                server.start().wait()
                self._redis_url = server.url
            return self._redis_url

    def redis_client(self) -> redis.Redis:
        """The one client of it, closed with the engines; replies are bytes."""
        with self._lock:
            if self._client is None:
                self._client = redis.Redis.from_url(self.redis_url)
                self._stack.callback(self._client.close)
            return self._client

    def spark_session(self) -> Any:
        """A session of a Spark Connect server with the product's own configuration."""
        with self._lock:
            if self._session is None:
                self._session = self._started_session()
            return self._session

    def _started_session(self) -> Any:
        from pyspark.sql.connect.session import SparkSession

        if self._spark_remote is None:
            spark = EmbeddedSpark(self.folder / "spark", free_port(), cores=2)
            self._stack.callback(spark.stop)
            self._spark_remote = spark.start().wait(300).remote
        session = SparkSession.builder.remote(self._spark_remote).create()
        for name, value in SESSION_CONFIGURATION.items():
            session.conf.set(name, value)
        session.conf.set("spark.sql.shuffle.partitions", "2")
        self._stack.callback(session.stop)
        return session
