"""What the addresses of the API take: the methods of each, and the names in its query.

Both are read off the OpenAPI document, so what a client may send is what the document says. A name
in a query that nothing reads is refused: `?stat=keep` at a DELETE would else drop the state that
it was to keep. Addresses outside of `/v1` are for probes, which may add what they like.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from starlette.routing import Route, compile_path

from service.api.errors import InvalidParameter

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping

    from fastapi import FastAPI
    from starlette.routing import BaseRoute

_CHECKED = "/v1/"
_SHOWN_MAX = 60


@dataclass(frozen=True, slots=True)
class Address:
    """An address of the document."""

    pattern: re.Pattern[str]
    methods: frozenset[str]
    queries: Mapping[str, Mapping[str, bool]]
    """By method: the names in its query, and whether each may be there more than once."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """All addresses of an application, by their templates."""

    by_template: Mapping[str, Address]

    @classmethod
    def of(cls, document: Mapping[str, Any], routes: Iterable[BaseRoute] = ()) -> Self:
        """Those that an OpenAPI document lists.

        Args:
            document: The document.
            routes: Of the application. The document does not tell which part may have slashes.
        """
        patterns = {each.path_format: each.path_regex for each in routes if isinstance(each, Route)}
        found = {}
        for path, operations in document["paths"].items():
            pattern = patterns.get(path) or compile_path(path)[0]
            found[path] = _address(pattern, operations)
        return cls(found)

    def methods(self, path: str) -> frozenset[str]:
        """The methods that are answered at a path; none where nothing is."""
        found = [each.methods for each in self.by_template.values() if each.pattern.match(path)]
        return frozenset().union(*found)

    def template(self, path: str, method: str) -> str | None:
        """The address that a path is at, and that has this method; None where there is none."""
        for template, each in self.by_template.items():
            if method in each.methods and each.pattern.match(path):
                return template
        return None

    def check(self, template: str, method: str, request: Request) -> None:
        """Refuse names in the query that the address does not have, or has once.

        Raises:
            InvalidParameter: there is one.
        """
        address = self.by_template.get(template)
        known = {} if address is None else address.queries.get(method, {})
        given = [name for name, _ in request.query_params.multi_items()]
        for name in given:
            if name not in known:
                raise _refused(name, "no parameter of this address", _hint(name, known))
            if given.count(name) > 1 and not known[name]:
                raise _refused(name, "is given more than once", "give it once")


async def known_query(request: Request) -> None:
    """Refuse what is no UTF-8 in the address, and what its query may not hold.

    Raises:
        InvalidParameter: there is such a thing.
    """
    template = request.scope["route"].path_format
    if not template.startswith(_CHECKED):
        return
    for part, place in (
        (request.scope["raw_path"], "path"),
        (request.scope["query_string"], "query"),
    ):
        try:
            unquote_to_bytes(part).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidParameter(
                f"the {place} of the address is not UTF-8", hint="encode it as UTF-8, then by %"
            ) from error
    addresses_of(request.app).check(template, request.method, request)


KnownQuery = Depends(known_query)


def addresses_of(app: FastAPI) -> Addresses:
    """Those of an application; made once."""
    found: Addresses | None = getattr(app.state, "addresses", None)
    if found is None:
        found = app.state.addresses = Addresses.of(app.openapi(), app.state.routes)
    return found


def _address(pattern: re.Pattern[str], operations: Mapping[str, Any]) -> Address:
    methods = {each.upper() for each in operations}
    return Address(
        pattern=pattern,
        methods=frozenset(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())),
        queries={method.upper(): _query(each) for method, each in operations.items()},
    )


def _query(operation: Mapping[str, Any]) -> dict[str, bool]:
    return {
        each["name"]: _is_list(each["schema"])
        for each in operation.get("parameters", ())
        if each["in"] == "query"
    }


def _is_list(schema: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "array" for each in schema.get("anyOf", [schema]))


def _refused(name: str, message: str, hint: str) -> InvalidParameter:
    shown = name[:_SHOWN_MAX]
    error = {"in": "query", "path": f"/{shown}", "message": message}
    return InvalidParameter(f"{shown!r} in the query: {message}", hint=hint, errors=[error])


def _hint(name: str, known: Mapping[str, bool]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    if found:
        return f'did you mean "{found[0]}"?'
    return f"there are: {', '.join(known)}" if known else "it takes none"
