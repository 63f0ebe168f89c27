"""API keys: who is let in where, and that no route was forgotten."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import SecretStr

from service.api.errors import Forbidden, Unauthenticated
from service.app import ROUTERS
from service.auth import OPEN_PATHS, OPEN_PREFIX, READING_POSTS, KeyRing
from service.settings import AuthSettings
from tests.service.test_app import assert_problem

READER, OPERATOR = "reading-key-0123456789", "operating-key-0123456789"


def settings() -> AuthSettings:
    return AuthSettings(
        keys=tuple(
            SecretStr(f"{name}:{scope}:{sha256(key.encode()).hexdigest()}")
            for name, scope, key in (("r", "read", READER), ("o", "operate", OPERATOR))
        )
    )


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_key_is_taken_from_either_header() -> None:
    ring = KeyRing(settings())

    assert ring.admit("GET", "/v1/pipelines", bearer(READER)) == "r"
    assert ring.admit("GET", "/v1/pipelines", {"authorization": f"bEARER {READER}"}) == "r"
    assert ring.admit("GET", "/v1/pipelines", {"x-api-key": OPERATOR}) == "o"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(""),
        {"authorization": f"Basic {READER}"},
        {"x-api-key": sha256(READER.encode()).hexdigest()},
        {"x-api-key": "x" * 10_000},
        {"x-api-key": "\udcff"},
    ],
)
def test_without_a_known_key_nobody_gets_in(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated) as refused:
        KeyRing(settings()).admit("GET", "/v1/pipelines", headers)

    assert refused.value.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_reader_may_not_act() -> None:
    ring = KeyRing(settings())

    for method in ("POST", "PATCH", "DELETE", "PUT", "BREW"):
        with pytest.raises(Forbidden):
            ring.admit(method, "/v1/pipelines/p", bearer(READER))
        assert ring.admit(method, "/v1/pipelines/p", bearer(OPERATOR)) == "o"


def test_without_keys_everything_is_open() -> None:
    ring = KeyRing(AuthSettings())

    assert not ring
    assert ring.admit("DELETE", "/v1/pipelines/p", {}) == ""


def routes() -> list[tuple[str, str]]:
    """Method and a path of every route."""
    found = []
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            path = re.sub(r"\{[^}]+\}", "x", route.path)
            found += [(method, path) for method in sorted(route.methods)]
    return found


def test_every_route_asks_for_the_scope_that_it_must(make_app: Any) -> None:
    app = make_app(auth=settings())
    assert len(routes()) > 25

    for method, path in routes():
        if path in OPEN_PATHS or path.startswith(OPEN_PREFIX):
            assert app.request(method, path).status_code not in (401, 403)
            continue
        answer = app.request(method, path)
        assert_problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"]
        as_reader = app.request(method, path, headers=bearer(READER))
        if method == "GET" or path in READING_POSTS:
            assert as_reader.status_code not in (401, 403), path
        else:
            assert_problem(as_reader, 403, "forbidden")
        as_operator = app.request(method, path, headers=bearer(OPERATOR))
        assert as_operator.status_code not in (401, 403), path


def test_unknown_addresses_ask_for_a_key_too(make_app: Any) -> None:
    app = make_app(auth=settings())

    assert_problem(app.get("/v1/nowhere"), 401, "unauthenticated")
    assert_problem(app.get("/docs/../v1/pipelines"), 401, "unauthenticated")
    assert app.get("/docs/problems/../../v1/pipelines").status_code in (401, 404)


def test_the_body_of_a_stranger_is_not_read(make_app: Any) -> None:
    app = make_app(auth=settings())
    read: list[bytes] = []

    async def in_parts() -> Any:
        for _ in range(3):
            read.append(b"x")
            yield b"x"

    answer = app.post("/v1/pipelines", content=in_parts())

    assert answer.status_code == 401
    assert len(read) <= 1


def test_readiness_says_whether_keys_are_asked_for(make_app: Any) -> None:
    assert make_app(auth=settings()).json("/readyz")["authentication"] is True
    assert make_app().json("/readyz")["authentication"] is False
