"""`/v1/pipelines/{p}/tables`: what a pipeline reads and writes, and rows of Redis tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from service import problem_types as problem
from service.api.data_models import TableRow, TableRows, Tables
from service.api.deps import PageDep, RecordDep, ServicesDep, contents_of, describe, in_thread
from service.api.errors import InvalidParameter
from service.api.etags import reply
from service.api.paging import cursor_text, index, page_body, scan, stream_id, text
from service.runtime.table_reader import SlotReader

if TYPE_CHECKING:
    from service.api.paging import Page
    from service.runtime.contents import SinkTable, SourceTable

router = APIRouter(prefix="/v1/pipelines/{pipeline}/tables", tags=["tables"])

SinkPath = Annotated[str, Path(description="The sink table's name.", examples=["latest_flight"])]


@router.get("", response_model=Tables, responses=describe(problem.PIPELINE_NOT_FOUND))
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
    return reply(request, page_body(request, shown[start:end], following, epoch=epoch))


@router.get(
    "/{sink}",
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
    return reply(request, page_body(request, items, following, epoch=part.epoch))


@router.get(
    "/{sink}/{key}",
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
    return reply(request, {"key": table.keys.shown.values(canonical), "epoch": epoch, "row": row})


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
    return reply(request, page_body(request, items, following, epoch=part.epoch))


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
