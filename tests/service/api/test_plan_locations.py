"""Where plans may be read from and written to: files, http, and an object store's protocol."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import anyio
import orjson
import pytest
from pydantic import ValidationError

from service.api.errors import PlanExists, PlanUriRefused
from service.api.plan_locations import plan_exists, read_plan, write_plan
from service.runtime.dataflow_errors import PathOutsideRoot
from service.settings import FilesSettings, LimitSettings, Settings
from tests.service.api.test_pipelines import PATH
from tests.service.plans import INGRESS, flights_plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAN = b'{"flinkVersion": "2.3"}'
SIZE_MAX = 1_024


class Store(BaseHTTPRequestHandler):
    """Answers as a web server and as an object store do, from a dictionary."""

    held: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_PUT(self) -> None:
        data = self._body()
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            # The store's own chunks: length in hexadecimal, bytes, and a checksum at the end.
            size, _, rest = data.partition(b"\r\n")
            data = rest[: int(size.partition(b";")[0], 16)]
        self.held[urlsplit(self.path).path] = data
        self._send(200, b"", ETag='"1"')

    def do_POST(self) -> None:
        self._body()
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        kind = "InitiateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
        body = f"<{kind}Result><UploadId>u</UploadId><ETag>1</ETag></{kind}Result>"
        self._send(200, body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, *, with_body: bool) -> None:
        path = urlsplit(self.path).path
        self.asked.append(path)
        if path == "/moved.json":
            return self._send(302, b"", Location="/plans/a.json")
        data = self.held.get(path)
        if data is None:
            return self._send(404, b"")
        return self._send(200, data, with_body=with_body, ETag='"1"')

    def _send(self, status: int, data: bytes, *, with_body: bool = True, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
        self.end_headers()
        if with_body:
            self.wfile.write(data)


@contextmanager
def served(**held: bytes) -> Iterator[str]:
    """A server on a free loopback port; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    Store.held, Store.asked = {f"/{name}": data for name, data in held.items()}, []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings_with(root: Path, *locations: str, **more: Any) -> Settings:
    files = FilesSettings(root=root, plan_locations=locations, **more)
    limits = LimitSettings(body_size_max_bytes=SIZE_MAX, line_size_max_bytes=512)
    return Settings(_env_file=None, files=files, limits=limits)


def read(uri: str, settings: Settings) -> bytes:
    return anyio.run(read_plan, uri, settings)


def write(uri: str, data: bytes, settings: Settings, *, replaces: bool = False) -> None:
    async def call() -> None:
        await write_plan(uri, data, settings, replaces=replaces)

    anyio.run(call)


def test_a_file_is_written_with_its_folders_and_read_again(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)

    write("a/b/c.json", PLAN, settings)

    assert read("a/b/c.json", settings) == read("file:a/b/c.json", settings) == PLAN
    assert anyio.run(plan_exists, "a/b/c.json", settings)
    assert not anyio.run(plan_exists, "a/b/d.json", settings)
    assert [each.name for each in (tmp_path / "a" / "b").iterdir()] == ["c.json"]


@pytest.mark.parametrize(
    "uri", ["../x", "/etc/x", "file:///etc/x", "link/x", "%2e%2e/x", "a/../../x"]
)
def test_nothing_is_written_or_read_outside_of_the_root(tmp_path: Path, uri: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    settings = settings_with(root)
    is_plain_name = uri.startswith("%")

    if is_plain_name:
        # Without a scheme a path is taken as it is written.
        write(uri, PLAN, settings)
        assert (root / "%2e%2e" / "x").exists()
    else:
        for call in (lambda: write(uri, PLAN, settings), lambda: read(uri, settings)):
            with pytest.raises(PathOutsideRoot):
                call()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "root"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_encoded_way_up_is_one_too(tmp_path: Path) -> None:
    with pytest.raises(PathOutsideRoot):
        read("file:%2e%2e/x", settings_with(tmp_path))


@pytest.mark.parametrize("uri", ["x" * 5_000, "a\x00b", "file/x", "http://[::1", "\ud800"])
def test_an_address_that_cannot_be_is_refused(tmp_path: Path, uri: str) -> None:
    settings = settings_with(tmp_path)
    (tmp_path / "file").write_bytes(PLAN)

    for call in (lambda: write(uri, PLAN, settings), lambda: read(uri, settings)):
        with pytest.raises(PlanUriRefused):
            call()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_plan_is_replaced_only_if_that_is_said(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)
    write("a.json", PLAN, settings)

    with pytest.raises(PlanExists):
        write("a.json", PLAN + b" ", settings)
    assert read("a.json", settings) == PLAN
    write("a.json", PLAN + b" ", settings, replaces=True)
    assert read("a.json", settings) == PLAN + b" "


def test_what_is_no_plan_is_not_replaced(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)
    (tmp_path / "rows.jsonl").write_bytes(b"{}")

    with pytest.raises(PlanExists):
        write("rows.jsonl", PLAN, settings, replaces=True)
    with pytest.raises(PlanUriRefused):
        write(".", PLAN, settings, replaces=True)


def test_sizes_are_limited(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)
    (tmp_path / "exact").write_bytes(b"x" * SIZE_MAX)
    (tmp_path / "more").write_bytes(b"x" * (SIZE_MAX + 1))

    assert len(read("exact", settings)) == SIZE_MAX
    with pytest.raises(PlanUriRefused):
        read("more", settings)


def test_http_is_read_from_listed_folders_only(tmp_path: Path) -> None:
    with served(**{"plans/a.json": PLAN, "secret.json": PLAN}) as url:
        settings = settings_with(tmp_path, f"{url}/plans")

        assert read(f"{url}/plans/a.json", settings) == PLAN
        for uri in (
            f"{url}/secret.json",
            f"{url}/plans",
            f"{url}/plans2/a.json",
            f"{url}/plans/../secret.json",
            f"{url}/plans/%2e%2e/secret.json",
            f"{url}/plans/..%2fsecret.json",
            f"{url}/plans/a.json#x",
            f"{url}\\@elsewhere/plans/a.json",
            url.replace("127.0.0.1", "localhost") + "/plans/a.json",
            url.replace("http://", "http://user@") + "/plans/a.json",
            url.replace("http://", "https://") + "/plans/a.json",
            "http://[/plans/a.json",
        ):
            with pytest.raises(PlanUriRefused):
                read(uri, settings)
        # Refused before anything was asked.
        assert Store.asked == ["/plans/a.json"]


def test_http_is_off_by_default_does_not_follow_and_is_never_written(tmp_path: Path) -> None:
    with served(**{"plans/a.json": PLAN}) as url:
        with pytest.raises(PlanUriRefused):
            read(f"{url}/plans/a.json", settings_with(tmp_path))
        assert Store.asked == []
        settings = settings_with(tmp_path, url)
        for uri in (f"{url}/moved.json", f"{url}/absent.json"):
            with pytest.raises(PlanUriRefused, match="status"):
                read(uri, settings)
        assert Store.asked == ["/moved.json", "/absent.json"]
        with pytest.raises(PlanUriRefused, match="only read"):
            write(f"{url}/plans/b.json", PLAN, settings)


def test_a_large_answer_of_http_is_refused(tmp_path: Path) -> None:
    with served(large=b"x" * (SIZE_MAX + 1)) as url, pytest.raises(PlanUriRefused, match="larger"):
        read(f"{url}/large", settings_with(tmp_path, url))


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(PlanUriRefused, match="in time"):
            read(f"{url}/x", settings_with(tmp_path, url, plan_timeout_ms=100))


def test_an_object_store_is_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(**{"bucket/plans/a.json": PLAN}) as url:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        settings = settings_with(tmp_path, "s3://bucket/plans", plan_s3_endpoint=url)

        assert read("s3://bucket/plans/a.json", settings) == PLAN
        write("s3://bucket/plans/b.json", PLAN, settings)
        assert Store.held["/bucket/plans/b.json"] == PLAN
        with pytest.raises(PlanExists):
            write("s3://bucket/plans/a.json", PLAN, settings)
        with pytest.raises(PlanUriRefused):
            read("s3://bucket/plans/absent.json", settings)
        for uri in ("s3://bucket/a.json", "s3://other/plans/a.json"):
            with pytest.raises(PlanUriRefused, match="not read from or written"):
                read(uri, settings)
        with pytest.raises(PlanUriRefused, match="not read from or written"):
            read("s3://bucket/plans/a.json?endpoint_override=http://x", settings)


def test_a_file_system_that_is_not_there_is_a_refusal(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, "hdfs://127.0.0.1:1/plans", plan_timeout_ms=2_000)

    with pytest.raises(PlanUriRefused):
        read("hdfs://127.0.0.1:1/plans/a.json", settings)


@pytest.mark.parametrize(
    "location", ["ftp://x/y", "file:///x", "bucket", "s3://", "https://u@x/y", "https://x/?q"]
)
def test_a_location_of_the_settings_is_checked(location: str) -> None:
    with pytest.raises(ValidationError):
        FilesSettings(plan_locations=(location,))


def test_a_pipeline_is_created_from_a_remote_plan_that_is_fetched_once(
    make_app: Any, tmp_path: Path
) -> None:
    plan = flights_plan(source=INGRESS)
    with served(**{"p.json": orjson.dumps(plan)}) as url:
        app = make_app(files=FilesSettings(root=tmp_path, plan_locations=(url,)))

        answer = app.post(PATH, {"name": "p", "plan_uri": f"{url}/p.json"})

        assert answer.status_code == 201, answer.text
        assert app.json(f"{PATH}/p/plan") == plan
        assert Store.asked == ["/p.json"]
