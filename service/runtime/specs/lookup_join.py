"""`stream-exec-lookup-join`: each row with what a table holds now.

Tables that are looked up:

    filesystem   lines of JSON, read whole
    redis        what a sink of a pipeline keeps, by its primary key: options `lookup.pipeline` and
                 `lookup.table` name both

Flink's options of asynchronous look-ups say how many are in flight and in which order they come
out; here they always go out in batches, and come out in the order of the input, so they need not be
looked at. Those of retries count (`operators.join.lookup_table.RetryingTable`).

Source: Flink's `CommonExecLookupJoin` and `LookupJoinUtil` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.join.lookup import LookupJoinSpec, LookupKey
from operators.join.lookup_table import (
    RETRY_WAIT_MS_MAX,
    LookupCache,
    LookupRetry,
    TableFiles,
    TableHash,
)
from operators.spec import InputSpec, RowSpec
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.plan.rex import Literal, parse_rex
from service.plan.type_json import parse_type_json
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.pipeline_names import pipeline_key
from service.runtime.slot_keys import slot_key, table_name
from service.runtime.specs.join_spec import compared_type, condition_of
from state.codec import CodecError
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode

_RETRIES_MAX: Final = 1_000
_PARTIAL: Final = "lookup.partial-cache."
_FORMATS: Final = {"json": False, "changelog-json": True}
"""Whether lines of a format have a kind."""
LOOKED_UP: Final = {
    "filesystem": ("path", "format"),
    "redis": ("lookup.pipeline", "lookup.table"),
}
"""Connectors whose tables can be looked up, and the options that each must have."""
_KNOWN: Final = frozenset(
    {
        "connector",
        "changelog-mode",
        "lookup",
        "lookup.cache",
        f"{_PARTIAL}max-rows",
        f"{_PARTIAL}expire-after-write",
        f"{_PARTIAL}expire-after-access",
        f"{_PARTIAL}cache-missing-key",
    }
)
_TABLE: Final = ("temporalTable", "lookupTableSource", "table")
_OPTIONS: Final = (*_TABLE, "resolvedTable", "options")


def lookup_join_spec(at: StatefulNode) -> LookupJoinSpec:
    """The spec of a look-up join; whoever runs it says where things are (`with_places`).

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: Its table cannot be looked up here, or something of the node is not run.
    """
    given, raw = at.properties, at.node.raw
    join_type = given.text("joinType")
    if join_type not in ("INNER", "LEFT"):
        raise at.refuse(f"a {join_type} join", "joinType")
    options = _options(at)
    table_row = _table_row(at)
    width = at.width()
    keys = _keys(at, table_row, options)
    materializes = given.flag("requireUpsertMaterialize")
    key: Iterable[int] = [each.field for each in keys if each.field is not None]
    if materializes:
        upsert_key = given.columns("inputUpsertKey", width, is_optional=True)
        key = upsert_key or range(width)
    row = at.input(0, tuple(dict.fromkeys(key)))
    _check_types(at, row, table_row, keys)
    cache = _cache(at, options)
    if cache is not None and materializes:
        # Each process has its own cache, and what is kept of an epoch must be the same in all.
        raise at.refuse("a cache, where rows are kept", *_OPTIONS, "lookup.cache")
    name = "projectionOnTemporalTable"
    projection = given.list(name) if given.has(name) else None
    return LookupJoinSpec.build(
        **at.common,
        inputs=(row,),
        join_type=join_type,
        table=_table(options),
        table_row=table_row,
        keys=keys,
        cache=cache,
        retry=_retry(at),
        pre_filter=condition_of(at, raw.get("preFilterCondition"), "preFilterCondition"),
        filter=condition_of(at, raw.get("filterOnTemporalTable"), "filterOnTemporalTable"),
        projection=None if projection is None else _projection(at, projection),
        projected=at.output.part(tuple(range(width, len(at.output.types)))),
        condition=condition_of(at, raw.get("joinCondition"), "joinCondition"),
        materializes=materializes,
    )


def with_places(spec: LookupJoinSpec, *, files_root: str, redis_url: str) -> LookupJoinSpec:
    """The same spec, with the folder that files must lie in, and the address of Redis."""
    place = {"root": files_root} if isinstance(spec.table, TableFiles) else {"url": redis_url}
    return spec.model_copy(update={"table": spec.table.model_copy(update=place)})


def _table(options: Mapping[str, str]) -> TableFiles | TableHash:
    if options["connector"] == "filesystem":
        return TableFiles(path=options["path"], with_op=_FORMATS[options["format"]])
    pipeline, table = options["lookup.pipeline"], options["lookup.table"]
    return TableHash(name=slot_key(pipeline, table_name(table)), owner=pipeline_key(pipeline))


def _options(at: StatefulNode) -> dict[str, str]:
    table = at.properties.inner(*_TABLE)
    resolved = table.object("resolvedTable") if table.has("resolvedTable") else None
    options = resolved.texts("options") if resolved else {}
    if not options:
        raise at.refuse("the plan does not say where the table is", *_TABLE)
    connector = options.get("connector", "none")
    if connector not in LOOKED_UP:
        raise at.refuse(f"connector {connector} is not looked up", *_OPTIONS, "connector")
    for name in LOOKED_UP[connector]:
        if name not in options:
            raise at.refuse(f"the table has no option {name}", *_OPTIONS)
    if connector == "filesystem" and options["format"] not in _FORMATS:
        raise at.refuse(f"format {options['format']} is not looked up", *_OPTIONS, "format")
    for name in sorted(options.keys() - _KNOWN - {*LOOKED_UP[connector]}):
        raise at.refuse(f"option {name} is not honoured for a look-up table", *_OPTIONS, name)
    return options


def _table_row(at: StatefulNode) -> RowSpec:
    table = at.properties.object("temporalTable")
    source = table.object("lookupTableSource")
    for number, ability in enumerate(source.objects("abilities", "an ability", is_optional=True)):
        place = ("temporalTable", "lookupTableSource", "abilities", number)
        fields = ability.list("projectedFields", is_optional=True)
        nested = any(not isinstance(each, list) or len(each) > 1 for each in fields)
        if ability.text("type") != "ProjectPushDown" or nested:
            raise at.refuse(f"ability {ability.text('type')} of a look-up table", *place)
    found = parse_type_json(table.value.get("outputType"), table.at("outputType"))
    if found.root is not TypeRoot.ROW:
        raise table.fail("outputType", "what a table gives must be a ROW")
    row = RowSpec.of(found)
    schema = at.properties.inner(*_TABLE, "resolvedTable", "schema")
    for number, column in enumerate(schema.objects("columns", "a column")):
        name = column.text("name")
        if column.value.get("kind") == "METADATA" and name in row.names:
            where = (*_TABLE, "resolvedTable", "schema", "columns", number)
            raise at.refuse(f"metadata column {name!r} of a look-up table", *where)
    return row


def _keys(
    at: StatefulNode, table_row: RowSpec, options: Mapping[str, str]
) -> tuple[LookupKey, ...]:
    given = at.properties.object("lookupKeys")
    found = []
    for column in sorted(_table_column(given, name, len(table_row.types)) for name in given.value):
        key = given.object(str(column))
        match key.text("type"):
            case "FieldRef":
                found.append(LookupKey(column=column, field=key.column("index", at.width())))
            case "Constant":
                constant = _constant(key, column, table_row)
                found.append(LookupKey(column=column, constant=constant))
            case _:
                raise key.fail("type", "a look-up key is a FieldRef or a Constant")
    if options["connector"] == "redis":
        return _in_order_of_primary_key(at, found, table_row)
    return tuple(found)


def _table_column(keys: JsonObject, name: str, count: int) -> int:
    """The column of the table that the name of a look-up key says."""
    if name not in map(str, range(count)):
        raise keys.fail(name, f"it names no column of a table with {count}")
    return int(name)


def _in_order_of_primary_key(
    at: StatefulNode, keys: Sequence[LookupKey], table_row: RowSpec
) -> tuple[LookupKey, ...]:
    schema = at.properties.inner(*_TABLE, "resolvedTable", "schema")
    primary = schema.object("primaryKey").list("columns") if schema.has("primaryKey") else []
    by_name = {table_row.names[each.column]: each for each in keys}
    if sorted(by_name) != sorted(map(str, primary)):
        raise at.refuse("a table in Redis is looked up by its whole primary key", "lookupKeys")
    return tuple(by_name[name] for name in primary)


def _constant(key: JsonObject, column: int, table_row: RowSpec) -> str:
    from operators.expressions import ExpressionError, compile_rex

    literal = parse_rex(key.value.get("literal"), key.at("literal"))
    if not isinstance(literal, Literal):
        raise key.fail("literal", "a constant to look up is a literal")
    try:
        value = compile_rex(literal)(())
        return table_row.part((column,)).codec().encode([value]).decode()
    except (ExpressionError, CodecError) as error:
        raise UnsupportedNode(str(error), node_id=key.node_id, path=key.at("literal")) from error


def _check_types(
    at: StatefulNode, given: InputSpec, table_row: RowSpec, keys: tuple[LookupKey, ...]
) -> None:
    for each in keys:
        if each.field is None:
            continue
        if compared_type(given.types[each.field]) != compared_type(table_row.types[each.column]):
            raise at.refuse("the types of compared columns differ", "lookupKeys", each.column)


def _projection(at: StatefulNode, projection: list[Any]) -> tuple[list[Any], ...]:
    from operators.expressions import ExpressionError, compile_rex, rex_to_json

    found = []
    for number, each in enumerate(projection):
        place = ("projectionOnTemporalTable", number)
        parsed = parse_rex(each, "/".join([at.node.path, *map(str, place)]))
        try:
            compile_rex(parsed)
            found.append(rex_to_json(parsed))
        except ExpressionError as error:
            raise at.refuse(str(error), *place) from error
    return tuple(found)


def _cache(at: StatefulNode, options: Mapping[str, str]) -> LookupCache | None:
    """The table's cache. FULL is how files are read anyway."""
    mode = options.get("lookup.cache", "NONE").upper()
    if mode not in ("NONE", "PARTIAL", "FULL"):
        raise at.refuse(f"there is no cache {mode}", *_OPTIONS, "lookup.cache")
    if mode != "PARTIAL":
        return None
    rows = options.get(f"{_PARTIAL}max-rows", "10000")
    if not rows.isdecimal() or not int(rows):
        raise at.refuse("a cache holds at least one key", *_OPTIONS, f"{_PARTIAL}max-rows")
    return LookupCache(
        keys_max=int(rows),
        expire_after_write_ms=_duration_ms(at, options, f"{_PARTIAL}expire-after-write"),
        expire_after_access_ms=_duration_ms(at, options, f"{_PARTIAL}expire-after-access"),
        caches_missing=options.get(f"{_PARTIAL}cache-missing-key", "true").lower() == "true",
    )


def _retry(at: StatefulNode) -> LookupRetry | None:
    """What the plan does about keys without rows."""
    given: Mapping[str, Any] | None = at.node.raw.get("retryOptions")
    if not given:
        return None
    for name, known in (("retry-predicate", "lookup_miss"), ("retry-strategy", "fixed_delay")):
        if str(given.get(name)).lower() != known:
            raise at.refuse(f"{name} {given.get(name)}", "retryOptions", name)
    counts = [given.get(name) for name in ("max-attempts", "fixed-delay")]
    retries_max, delay_ms = (each if type(each) is int else -1 for each in counts)
    if not 1 <= retries_max <= _RETRIES_MAX or delay_ms < 0:
        wanted = f"retries without a number from 1 to {_RETRIES_MAX} and a delay in ms"
        raise at.refuse(wanted, "retryOptions")
    if retries_max * delay_ms > RETRY_WAIT_MS_MAX:
        # An epoch waits for its retries.
        limit = f"retries that take more than {RETRY_WAIT_MS_MAX} ms"
        raise at.refuse(limit, "retryOptions", "max-attempts")
    return LookupRetry(retries_max=retries_max, delay_ms=delay_ms)


def _duration_ms(at: StatefulNode, options: Mapping[str, str], name: str) -> int:
    if name not in options:
        return 0
    try:
        return parse_duration_ms(options[name])
    except DurationError as error:
        raise at.refuse(str(error), *_OPTIONS, name) from error
