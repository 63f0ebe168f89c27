"""From a node's JSON to an `ExecNode`.

Every node is checked for what all have in common; the properties of the nodes that we run are read
into typed views. Properties that nobody knows are ignored, as Flink ignores them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

from service.plan.changelog_mode import ChangelogMode
from service.plan.correlate import read_correlate
from service.plan.deadline import check_time
from service.plan.durations import parse_duration_ms
from service.plan.errors import (
    DurationError,
    InvalidExpression,
    InvalidStateMetadata,
    InvalidType,
    PlanError,
    UnknownNodeType,
)
from service.plan.metadata import written_columns
from service.plan.node_shapes import check_shape
from service.plan.node_types import NODE_TYPES
from service.plan.nodes import (
    Ability,
    Calc,
    ConflictBehavior,
    DropUpdateBefore,
    Exchange,
    ExecNode,
    Expand,
    MaterializeStrategy,
    PushedFilter,
    Sink,
    StateMetadata,
    TableScan,
    Union,
    Values,
    WatermarkAssigner,
)
from service.plan.properties import JsonObject
from service.plan.rex import InputRef, Literal, parse_rex, walk
from service.plan.tables import parse_table
from service.plan.type_json import parse_type_json
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.plan.node_types import NodeType
    from service.plan.nodes import NodeView
    from service.plan.rex import Rex
    from service.plan.tables import Table

_VERSION = re.compile(r"[0-9]{1,9}", re.ASCII)
_STRATEGIES: tuple[MaterializeStrategy, ...] = get_args(MaterializeStrategy)
_CONFLICTS: tuple[ConflictBehavior, ...] = get_args(ConflictBehavior)
_DISTRIBUTIONS = ("ANY", "SINGLETON", "BROADCAST", "HASH", "UNKNOWN", "KEEP_INPUT_AS_IS")

SOURCE_ABILITIES = (
    "AggregatePushDown", "FilterPushDown", "LimitPushDown", "PartitionPushDown", "ProjectPushDown",
    "ReadingMetadata", "SourceWatermark", "WatermarkPushDown",
)  # fmt: skip  # a list of names, several a line
SINK_ABILITIES = (
    "Bucketing", "Overwrite", "Partitioning", "RowLevelDelete", "RowLevelUpdate",
    "TargetColumnWriting", "WritingMetadata",
)  # fmt: skip  # a list of names, several a line


def read_node(
    value: object, path: str, catalog: Mapping[str, Mapping[str, Any]] | None
) -> ExecNode:
    """Read one node.

    Raises:
        PlanError: It is malformed, or has a type, version or table that is not known.
    """
    check_time()
    node = JsonObject.of(value, path, "a node")
    node_id = node.integer("id")
    node = JsonObject(node.value, path, node_id)
    try:
        return _read(node, node_id, catalog)
    except PlanError as error:
        error.at_node(node_id)
        raise


def _read(
    node: JsonObject, node_id: int, catalog: Mapping[str, Mapping[str, Any]] | None
) -> ExecNode:
    node_type, version = _read_type(node)
    description = node.text("description")
    output_type = parse_type_json(_required(node, "outputType"), node.at("outputType"))
    if output_type.root is not TypeRoot.ROW:
        raise InvalidType("the output of a node must be a ROW", path=node.at("outputType"))
    for key in node_type.required:
        _required(node, key)
    _read_input_properties(node, node_type)
    check_shape(node, node_type.short)
    read_view = _VIEWS.get(node_type.name)
    return ExecNode(
        id=node_id,
        node_type=node_type,
        version=version,
        description=description,
        output_type=output_type,
        state=_read_state(node) if node_type.state != "none" else (),
        configuration=node.texts("configuration"),
        raw=node.value,
        view=read_view(node, output_type, catalog) if read_view else None,
        path=node.path,
    )


def _required(node: JsonObject, key: str) -> Any:
    if not node.has(key):
        raise node.fail(key, f"{key} is missing or null", "it is required")
    return node.value[key]


def _read_type(node: JsonObject) -> tuple[NodeType, int]:
    text = node.text("type")
    # Flink looks at the first two parts only.
    name, *version = text.split("_")
    if not version or not _VERSION.fullmatch(version[0]):
        raise UnknownNodeType(
            f"node type {text!r} has no version",
            hint="a type is a name, an underscore and a number: stream-exec-calc_1",
            path=node.at("type"),
        )
    node_type = NODE_TYPES.get(name)
    if node_type is None:
        raise UnknownNodeType(
            f"unknown node type {name!r}",
            hint="the plan may come from a newer Flink than 2.3",
            path=node.at("type"),
        )
    if int(version[0]) not in node_type.versions:
        known = ", ".join(map(str, node_type.versions))
        raise UnknownNodeType(
            f"unknown version {version[0]} of {node_type.name}",
            hint=f"known: {known}; the plan may come from a newer Flink than 2.3",
            path=node.at("type"),
        )
    return node_type, int(version[0])


def _read_input_properties(node: JsonObject, node_type: NodeType) -> None:
    is_checked = node_type.checks_input_properties and node_type.inputs_max != 0
    count = len(node.list("inputProperties", is_optional=not is_checked))
    if is_checked and node_type.inputs_max is not None and count != node_type.inputs_max:
        raise node.fail(
            "inputProperties",
            f"{count} input properties for a node with {node_type.inputs_max} inputs",
        )
    for entry, path in node.items("inputProperties", is_optional=True):
        properties = JsonObject.of(entry, path, "an input property", node.node_id)
        _read_distribution(properties)
        properties.choice("damBehavior", ("PIPELINED", "END_INPUT", "BLOCKING"))
        properties.integer("priority", default=0)


def _read_distribution(properties: JsonObject) -> tuple[str, tuple[int, ...]]:
    required = properties.object("requiredDistribution")
    kind = required.choice("type", _DISTRIBUTIONS, any_case=True)
    keys = required.indexes("keys") if kind == "HASH" else ()
    if kind == "HASH" and not keys:
        raise required.fail("keys", "a HASH distribution needs keys")
    return kind, keys


def _read_state(node: JsonObject) -> tuple[StateMetadata, ...]:
    entries = [
        _read_state_entry(JsonObject.of(entry, path, "an entry of state", node.node_id))
        for entry, path in node.items("state", is_optional=True)
    ]
    return tuple(sorted(entries, key=lambda entry: entry.index))


def _read_state_entry(entry: JsonObject) -> StateMetadata:
    index = entry.integer("index", default=0)
    if index < 0:
        raise InvalidStateMetadata(
            f"the index of a state starts from 0, not {index}", path=entry.at("index")
        )
    for key in ("ttl", "name"):
        if not entry.has(key):
            hint = "write '0 ms' for state that is kept for ever" if key == "ttl" else ""
            raise InvalidStateMetadata(
                f"the {key} of a state is missing or null", hint=hint, path=entry.at(key)
            )
    ttl = entry.text("ttl")
    try:
        ttl_ms = parse_duration_ms(ttl)
    except DurationError as problem:
        raise InvalidStateMetadata(
            f"the ttl of a state is not a duration: {problem}",
            hint="for example '0 ms', '36 h', '7 d' or 'PT1H'",
            path=entry.at("ttl"),
        ) from problem
    return StateMetadata(index, ttl_ms, ttl, entry.text("name"), entry.path)


# Views of the nodes that we run.


def _read_rex(owner: JsonObject, key: str) -> Rex:
    return parse_rex(_required(owner, key), owner.at(key))


def _read_abilities(spec: JsonObject, allowed: tuple[str, ...]) -> tuple[Ability, ...]:
    abilities = []
    for entry, path in spec.items("abilities", is_optional=True):
        ability = JsonObject.of(entry, path, "an ability", spec.node_id)
        abilities.append(Ability(ability.choice("type", allowed), ability.value, path))
    return tuple(abilities)


def _read_scan(
    node: JsonObject, _: LogicalType, catalog: Mapping[str, Mapping[str, Any]] | None
) -> TableScan:
    spec = node.object("scanTableSource")
    table = parse_table(spec, catalog)
    abilities = _read_abilities(spec, SOURCE_ABILITIES)
    projected: tuple[tuple[int, ...], ...] | None = None
    metadata_keys: tuple[str, ...] = ()
    watermark: Rex | None = None
    idle_ms = 0
    filters: list[PushedFilter] = []
    names = tuple(each.name for each in table.schema.columns if each.kind != "COMPUTED")
    for ability in abilities:
        value = JsonObject(ability.value, ability.path, node.node_id)
        match ability.type:
            case "FilterPushDown":
                filters.append(_read_filter(value, ability, names))
            case "ProjectPushDown":
                projected = tuple(
                    JsonObject({"projectedFields": entry}, path, node.node_id).indexes(
                        "projectedFields"
                    )
                    for entry, path in value.items("projectedFields")
                )
            case "ReadingMetadata":
                metadata_keys = tuple(str(key) for key in value.list("metadataKeys"))
            case "WatermarkPushDown":
                watermark = _read_rex(value, "watermarkExpr")
                idle_ms = max(value.integer("idleTimeoutMillis", default=0), 0)
            case _:
                pass
        if value.has("producedType"):
            produced = parse_type_json(value.value["producedType"], value.at("producedType"))
            names = tuple(produced.field_names)
    return TableScan(table, abilities, projected, metadata_keys, watermark, idle_ms, tuple(filters))


def _read_filter(value: JsonObject, ability: Ability, names: tuple[str, ...]) -> PushedFilter:
    predicates = tuple(parse_rex(each, path) for each, path in value.items("predicates"))
    for part in (part for rex in predicates for part in walk(rex)):
        if isinstance(part, InputRef) and part.index >= len(names):
            raise InvalidExpression(
                f"column {part.index} is read, and there are {len(names)}", path=part.path
            )
    return PushedFilter(ability, predicates, names)


def _read_values(
    node: JsonObject, output: LogicalType, _: Mapping[str, Mapping[str, Any]] | None
) -> Values:
    rows = []
    for entry, path in node.items("tuples"):
        if not isinstance(entry, list) or len(entry) != len(output.children):
            raise InvalidExpression(
                f"a row must be a list of {len(output.children)} literals", path=path
            )
        literals = []
        for index, cell in enumerate(entry):
            literal = parse_rex(cell, f"{path}/{index}")
            if not isinstance(literal, Literal):
                raise InvalidExpression("a row of values holds literals only", path=literal.path)
            literals.append(literal)
        rows.append(tuple(literals))
    return Values(tuple(rows))


def _read_calc(
    node: JsonObject, output: LogicalType, _: Mapping[str, Mapping[str, Any]] | None
) -> Calc:
    projection = tuple(parse_rex(entry, path) for entry, path in node.items("projection"))
    if len(projection) != len(output.children):
        raise InvalidExpression(
            f"the projection has {len(projection)} expressions, "
            f"but the output has {len(output.children)} columns",
            path=node.at("projection"),
        )
    condition = _read_rex(node, "condition") if node.has("condition") else None
    return Calc(projection, condition)


def _read_expand(
    node: JsonObject, output: LogicalType, _: Mapping[str, Mapping[str, Any]] | None
) -> Expand:
    width = len(output.children)
    projections = []
    for entry, path in node.items("projects"):
        if not isinstance(entry, list) or len(entry) != width:
            raise InvalidExpression(f"a projection must list {width} expressions", path=path)
        projections.append(tuple(parse_rex(e, f"{path}/{i}") for i, e in enumerate(entry)))
    return Expand(tuple(projections))


def _read_exchange(
    node: JsonObject, _: LogicalType, __: Mapping[str, Mapping[str, Any]] | None
) -> Exchange:
    entries = list(node.items("inputProperties"))
    if len(entries) != 1:
        raise node.fail("inputProperties", "an exchange has one input")
    properties = JsonObject.of(*entries[0], "an input property", node.node_id)
    return Exchange(*_read_distribution(properties))


def _read_watermark_assigner(
    node: JsonObject, output: LogicalType, _: Mapping[str, Mapping[str, Any]] | None
) -> WatermarkAssigner:
    index = node.integer("rowtimeFieldIndex", default=0)
    if not 0 <= index < len(output.children):
        raise node.fail("rowtimeFieldIndex", f"the output has no column {index}")
    return WatermarkAssigner(_read_rex(node, "watermarkExpr"), index)


def _read_sink(
    node: JsonObject, output: LogicalType, catalog: Mapping[str, Mapping[str, Any]] | None
) -> Sink:
    spec = node.object("dynamicTableSink")
    table = parse_table(spec, catalog)
    abilities = _read_abilities(spec, SINK_ABILITIES)
    metadata_keys = tuple(
        str(key)
        for each in abilities
        if each.type == "WritingMetadata"
        for key in JsonObject(each.value, each.path, node.node_id).list("metadataKeys")
    )
    columns = written_columns(table, metadata_keys)
    persisted = [column.name for column in columns]
    if len(persisted) != len(output.children):
        raise node.fail(
            "outputType",
            f"the input has {len(output.children)} columns, "
            f"but table {table.identifier} takes {len(persisted)}",
            hint=_untold(table, metadata_keys),
        )
    key = table.schema.primary_key
    if not set(key) <= set(persisted):
        raise node.fail(
            "dynamicTableSink", "the primary key has a column that the plan does not write"
        )
    upsert_key = node.indexes("inputUpsertKey") if node.has("inputUpsertKey") else None
    if upsert_key and max(upsert_key) >= len(output.children):
        raise node.fail("inputUpsertKey", f"the input has no column {max(upsert_key)}")
    return Sink(
        table=table,
        abilities=abilities,
        metadata_keys=metadata_keys,
        columns=columns,
        primary_key=tuple(persisted.index(name) for name in key),
        input_changelog_mode=_read_mode(node, "inputChangelogMode"),
        require_upsert_materialize=node.flag("requireUpsertMaterialize"),
        strategy=_read_strategy(node),
        input_upsert_key=upsert_key,
        conflict_behavior=_read_conflict(node),
    )


def _untold(table: Table, metadata_keys: Sequence[str]) -> str:
    """Which metadata column lacks its ability, if one does: plans made here once did not say it."""
    for each in table.schema.persisted:
        if each.kind == "METADATA" and each.metadata_key not in metadata_keys:
            return f"metadata column {each.name!r} is written where WritingMetadata has its key"
    return ""


def _read_mode(node: JsonObject, key: str) -> ChangelogMode:
    names = node.list(key)
    if not names:
        raise node.fail(key, "a changelog has at least one kind of change")
    try:
        return ChangelogMode.named(names)
    except ValueError as problem:
        raise node.fail(key, f"unknown kind of change: {problem}") from problem


def _read_strategy(node: JsonObject) -> MaterializeStrategy:
    key = "upsertMaterializeStrategy"
    if not node.has(key):
        return "LEGACY"
    return node.choice(key, _STRATEGIES)


def _read_conflict(node: JsonObject) -> ConflictBehavior | None:
    if not node.has("conflictStrategy"):
        return None
    strategy = node.object("conflictStrategy")
    return strategy.choice("behavior", _CONFLICTS)


_VIEWS: dict[
    str,
    Callable[[JsonObject, LogicalType, Mapping[str, Mapping[str, Any]] | None], NodeView],
] = {
    "stream-exec-table-source-scan": _read_scan,
    "stream-exec-values": _read_values,
    "stream-exec-calc": _read_calc,
    "stream-exec-expand": _read_expand,
    "stream-exec-correlate": read_correlate,
    "stream-exec-exchange": _read_exchange,
    "stream-exec-watermark-assigner": _read_watermark_assigner,
    "stream-exec-drop-update-before": lambda *_: DropUpdateBefore(),
    "stream-exec-union": lambda *_: Union(),
    "stream-exec-sink": _read_sink,
}
