"""`/v1/pipelines/{p}/tables` and `/rows`: what a pipeline reads and writes, and rows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from service import problem_types as problem
from service.api.data_models import RowsAtEpoch, TableRow, TableRows, Tables
from service.api.deps import (
    LimitDep,
    PageDep,
    RecordDep,
    ServicesDep,
    contents_of,
    describe,
    in_thread,
)
from service.api.errors import InvalidParameter
from service.api.etags import epoch_reply
from service.api.paging import cursor_text, index, page_body, scan, stream_id, text
from service.runtime.table_reader import SlotReader

if TYPE_CHECKING:
    from service.api.paging import Page
    from service.runtime.contents import RedisTable, SinkTable, SourceTable

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["tables"])
OF_MAX = 100
"""Tables and keys that one request may name."""

SinkPath = Annotated[str, Path(description="The sink table's name.", examples=["latest_flight"])]


@router.get("/tables", response_model=Tables, responses=describe(problem.PIPELINE_NOT_FOUND))
async def list_all(
    request: Request, record: RecordDep, services: ServicesDep, page: PageDep
) -> Response:
    """The tables of the plan: sources first, then sinks; `queryable` ones can be read."""
    contents = await contents_of(services, record)
    slot = SlotReader(services.redis, record.name)
    shown = [_source(each) for each in contents.sources]
    shown += [await in_thread(_sink, slot, each) for each in contents.sinks]
    start = (page.position(index) or (0,))[0]
    end = start + page.limit
    following = cursor_text(end) if end < len(shown) else None
    epoch = await in_thread(slot.epoch)
    return epoch_reply(request, page_body(request, shown[start:end], following, epoch=epoch))


@router.get(
    "/tables/{sink}",
    response_model=TableRows,
    responses=describe(problem.PIPELINE_NOT_FOUND, problem.TABLE_NOT_FOUND, problem.CURSOR_INVALID),
)
async def list_rows(
    request: Request,
    record: RecordDep,
    sink: SinkPath,
    services: ServicesDep,
    page: PageDep,
    prefix: Annotated[
        str,
        Query(max_length=1_024, description="Only rows whose first key column starts with this."),
    ] = "",
) -> Response:
    """What a sink's table holds as of the last closed epoch.

    A Redis table: its rows, in no order; a page may be short. A print table: the newest changes
    with their kinds, oldest first.
    """
    table = (await contents_of(services, record)).sink(sink)
    slot = SlotReader(services.redis, record.name)
    if table.keys is None:
        return await _list_changes(request, slot, table, page, prefix)
    part = await in_thread(
        slot.table_rows, table.name, table.keys, prefix, page.position(scan, text), page.limit
    )
    base = request.scope["raw_path"].decode("ascii")
    items = [
        {"key": key, "href": f"{base}/{table.keys.href(key)}", "row": row}
        for key, row in part.items
    ]
    following = None if part.position is None else cursor_text(*part.position)
    return epoch_reply(request, page_body(request, items, following, epoch=part.epoch))


@router.get(
    "/tables/{sink}/{key}",
    response_model=TableRow,
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.TABLE_NOT_FOUND,
        problem.KEY_NOT_FOUND,
        problem.KEY_MALFORMED,
    ),
)
async def get_row(
    request: Request,
    record: RecordDep,
    sink: SinkPath,
    key: Annotated[str, Path(description="As the keys of operators.")],
    services: ServicesDep,
    key_query: Annotated[
        str | None,
        Query(
            alias="key",
            max_length=8_192,
            description="If the path has `-`: the key as a JSON array.",
        ),
    ] = None,
) -> Response:
    """One row of a Redis table as of the last closed epoch."""
    table = (await contents_of(services, record)).table(sink)
    canonical = table.keys.codec.encode(table.keys.parse(key, key_query))
    slot = SlotReader(services.redis, record.name)
    epoch, row = await in_thread(slot.table_row, table.name, canonical)
    return epoch_reply(
        request, {"key": table.keys.shown.values(canonical), "epoch": epoch, "row": row}
    )


@router.get(
    "/rows",
    response_model=RowsAtEpoch,
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.TABLE_NOT_FOUND,
        problem.KEY_MALFORMED,
    ),
)
async def read_rows(
    request: Request,
    record: RecordDep,
    services: ServicesDep,
    limit: LimitDep,
    of: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=8_192)]],
        Query(
            min_length=1,
            max_length=OF_MAX,
            description="A Redis table, or a row of one, by what its address has behind `/tables/`."
            " Repeat it for more.",
            examples=[["latest_flight/N4YKAA"]],
        ),
    ],
) -> Response:
    """Rows of several Redis tables and keys, all as of one closed epoch, which the answer names.

    What is read together fits together: no table is ahead of another one. Of a table without a key
    all rows are read, if they are no more than `limit`.
    """
    contents = await contents_of(services, record)
    slot = SlotReader(services.redis, record.name)
    tables, wanted = [], []
    for address in of:
        name, has_key, key = address.partition("/")
        table = contents.table(unquote(name))
        tables.append(table)
        wanted.append((table.name, _canonical(table, key) if has_key else None))
        if not has_key and (size := await in_thread(slot.table_size, table.name)) > limit:
            raise InvalidParameter(
                f"of: table {table.name} has {size} rows, more than limit={limit}:"
                f" name rows of it, or list it by pages at /tables/{name}"
            )
    epoch, found = await in_thread(slot.rows_together, wanted)
    items = [
        {"of": address, "table": table.name, "rows": _rows(table, rows)}
        for address, table, rows in zip(of, tables, found, strict=True)
    ]
    return epoch_reply(request, {"epoch": epoch, "items": items})


def _canonical(table: RedisTable, address: str) -> bytes:
    """The key that the last part of an address means."""
    text, is_long, query = address.partition("?key=")
    key = table.keys.parse(unquote(text), unquote(query) if is_long else None)
    return table.keys.codec.encode(key)


def _rows(table: RedisTable, rows: dict[bytes, bytes]) -> list[dict[str, Any]]:
    return [
        {"key": table.keys.shown.values(key), "row": orjson.loads(rows[key])}
        for key in sorted(rows)
    ]


async def _list_changes(
    request: Request, slot: SlotReader, table: SinkTable, page: Page, prefix: str
) -> Response:
    if prefix:
        raise InvalidParameter("prefix: changes of a print table have no key")
    after = (page.position(stream_id) or ("",))[0]
    part = await in_thread(slot.print_changes, table.name, after, page.limit)
    items = [
        {"epoch": epoch, "op": change["op"], "row": change["data"]} for epoch, change in part.items
    ]
    following = None if part.position is None else cursor_text(*part.position)
    return epoch_reply(request, page_body(request, items, following, epoch=part.epoch))


def _source(table: SourceTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "role": "source",
        "connector": table.connector,
        "node_id": table.node_id,
        "columns": _columns(table),
        "primary_key": list(table.primary_key),
        "queryable": False,
        "accepts_ingress": table.connector == "ingress",
        "rows": None,
    }


def _sink(slot: SlotReader, table: SinkTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "role": "sink",
        "connector": table.connector,
        "node_id": table.node_id,
        "columns": _columns(table),
        "primary_key": list(table.primary_key),
        "queryable": table.is_queryable,
        "accepts_ingress": False,
        "rows": _size(slot, table),
    }


def _size(slot: SlotReader, table: SinkTable) -> int | None:
    if table.is_print:
        return slot.print_size(table.name)
    return slot.table_size(table.name) if table.is_queryable else None


def _columns(table: SourceTable | SinkTable) -> list[dict[str, str]]:
    return [
        {"name": name, "type": kind} for name, kind in zip(table.names, table.types, strict=True)
    ]
