"""`/docs`: the API as a page, and every problem type at the address that is its `type`.

The page is made here from the OpenAPI document, without scripts or anything from other hosts, so
it shows in closed networks too and needs no exception from the content security policy.
"""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse

from service import problem_types as problem
from service import status_codes
from service.api.deps import describe, preferred
from service.api.etags import reply

router = APIRouter(tags=["documents"])

_KINDS = ("text/markdown", "application/json", "text/plain")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em;border-radius:3px}h2{margin-top:2.5rem}"
    "h3{margin:1.6rem 0 .3rem;font-size:1rem}p{margin:.3rem 0}ul{margin:.3rem 0}"
    ":root{color-scheme:light dark}"
)


@router.get("/docs", response_class=HTMLResponse)
async def page(request: Request) -> Response:
    """The API as a page for people."""
    if not request.app.state.services.settings.http.docs_enabled:
        raise HTTPException(404)
    return HTMLResponse(_page(request.app.openapi()))


@router.get(
    "/docs/problems/{slug}",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/markdown": {}, "application/json": {}}},
        **describe(problem.NOT_FOUND, problem.NOT_ACCEPTABLE),
    },
)
async def problem_page(request: Request, slug: str) -> Response:
    """What a problem type, or a code in a pipeline's status, means and what to do about it.

    As Markdown or JSON.
    """
    found = problem.BY_SLUG.get(slug)
    if found is None:
        return _code_page(request, slug)
    kind = preferred(request, _KINDS)
    if kind == "application/json":
        return reply(
            request,
            {
                "type": found.uri,
                "status": found.status,
                "title": found.title,
                "meaning": found.meaning,
                "action": found.action,
            },
        )
    return PlainTextResponse(problem.section(found), media_type=kind)


def _code_page(request: Request, code: str) -> Response:
    found = status_codes.page_of(code)
    if found is None:
        raise HTTPException(404)
    kind = preferred(request, _KINDS)
    if kind == "application/json":
        address = status_codes.address_of(code)
        told = {"type": address, "code": found.code, "meaning": found.meaning}
        return reply(request, {**told, "action": found.action, "final": found.is_final})
    return PlainTextResponse(status_codes.section(found), media_type=kind)


def _page(schema: dict[str, Any]) -> str:
    groups: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(method, path, operation))
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in groups.items())
    info = schema["info"]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{escape(info['description'])}</p>"
        "<p>For programs: <a href='/v1/openapi.json'>/v1/openapi.json</a></p>"
        f"{body}</html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}) "
        f"{escape(each.get('description') or '')}"
        for each in operation.get("parameters", ())
    )
    answers = "".join(
        f"<li><code>{escape(status)}</code> {_linked(answer.get('description') or '')}"
        for status, answer in operation["responses"].items()
    )
    description = escape(operation.get("description") or "").replace("\n\n", "<p>")
    return (
        f"<h3><code>{method.upper()} {escape(path)}</code></h3><p>{description}"
        f"<ul>{parameters}{answers}</ul>"
    )


def _linked(text: str) -> str:
    """Markdown links as HTML; the texts are our own."""
    parts = []
    for each in text.split("; "):
        if each.startswith("[") and "](" in each:
            slug, _, rest = each[1:].partition("](")
            uri, _, title = rest.partition(")")
            parts.append(f"<a href='{escape(uri)}'>{escape(slug)}</a>{escape(title)}")
        else:
            parts.append(escape(each))
    return "; ".join(parts)
