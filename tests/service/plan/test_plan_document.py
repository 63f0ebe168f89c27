"""Loading: what is refused, with which code, place and message; limits; the graph."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.plan import (
    PlanError,
    PlanLimits,
    check_document,
    explain,
    load_plan,
    unsupported,
)
from service.plan.errors import (
    InvalidExpression,
    InvalidGraph,
    InvalidProperty,
    InvalidStateMetadata,
    InvalidType,
    PlanSyntaxError,
    PlanTooLarge,
    UnknownFlinkVersion,
    UnknownNodeType,
)
from service.plan.nodes import Calc, Exchange, Sink, TableScan, Union, Values
from service.runtime.admission import findings
from service.runtime.records import PipelineOptions
from tests.service.mutations import settings_of
from tests.service.plan.builders import (
    INPUT,
    call,
    chain,
    edge,
    edited,
    literal,
    node,
    recorded_plan,
    ref,
    scan,
    sink,
)

COLUMNS = {"k": "INT NOT NULL", "v": "INT"}


def small(**calc: Any) -> dict[str, Any]:
    """Scan, calc, sink."""
    properties = {"projection": [ref(0), ref(1)], "condition": None, "inputProperties": [INPUT]}
    return chain(
        scan(1, COLUMNS),
        node(2, "calc_1", COLUMNS, **(properties | calc)),
        sink(3, COLUMNS, key=("k",)),
    )


def test_a_loaded_plan_gives_typed_nodes_and_their_inputs() -> None:
    plan = load_plan(small(condition=call(">", ref(1), literal(3))))

    scanned, calc, written = plan.nodes
    assert (plan.flink_version, [each.id for each in plan.sinks]) == ("2.3", [3])
    assert isinstance(scanned.view, TableScan)
    assert scanned.view.table.name == "t1"
    assert isinstance(calc.view, Calc)
    assert calc.view.condition is not None
    assert isinstance(written.view, Sink)
    assert (written.view.primary_key, written.view.strategy) == ((0,), "LEGACY")
    assert plan.inputs(3) == (calc,)
    assert plan.outputs(1) == (calc,)
    assert plan.node(2) is calc


def test_the_order_of_edges_gives_the_order_of_inputs() -> None:
    union = node(3, "union_1", COLUMNS, inputProperties=[INPUT, INPUT])
    nodes = [sink(4, COLUMNS), union, scan(2, COLUMNS), scan(1, COLUMNS)]
    document = {
        "flinkVersion": "1.18",
        "nodes": nodes,
        "edges": [edge(2, 3), edge(3, 4), edge(1, 3)],
    }

    plan = load_plan(document)

    assert [each.id for each in plan.inputs(3)] == [2, 1]
    assert [each.id for each in plan.nodes] == [2, 1, 3, 4]
    assert isinstance(plan.node(3).view, Union)


def test_views_of_values_and_exchanges() -> None:
    rows = [[literal(1), literal(None, "INT")], [literal(2), literal(5)]]
    keys = {"requiredDistribution": {"type": "HASH", "keys": [0]}, "damBehavior": "PIPELINED"}
    plan = load_plan(
        chain(
            node(1, "values_1", COLUMNS, tuples=rows),
            node(2, "exchange_1", COLUMNS, inputProperties=[keys]),
            sink(3, COLUMNS),
        )
    )

    values, exchange = plan.node(1).view, plan.node(2).view
    assert isinstance(values, Values)
    assert [[cell.value for cell in cells] for cells in values.rows] == [[1, None], [2, 5]]
    assert exchange == Exchange("HASH", (0,))


def test_a_sink_of_every_kind_of_conflict() -> None:
    document = recorded_plan("101_")

    view = load_plan(document).sinks[0].view

    assert isinstance(view, Sink)
    assert (view.strategy, view.conflict_behavior, view.require_upsert_materialize) == (
        "MAP",
        "DEDUPLICATE",
        True,
    )
    assert view.input_upsert_key is None
    assert view.input_changelog_mode.short == "I,UB,UA,D"


REFUSED = [
    ("", PlanSyntaxError, "empty"),
    (" \n", PlanSyntaxError, "empty"),
    ("hello", PlanSyntaxError, "line 1 column 1"),
    ('{"flinkVersion": "2.3",', PlanSyntaxError, "line 1"),
    (b"\xff\xfe", PlanSyntaxError, "not JSON"),
    ("[]", PlanSyntaxError, "not a list"),
    ("null", PlanSyntaxError, "not null"),
    ("5", PlanSyntaxError, "not a number"),
    ("[" * 5_000, PlanTooLarge, "deeper"),
    ('{"a":' * 300 + "1" + "}" * 300, PlanTooLarge, "deeper"),
]


@pytest.mark.parametrize(("text", "error", "message"), REFUSED)
def test_what_is_no_json_object_is_refused(
    text: str | bytes, error: type[PlanError], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_plan(text)


EDITED = [
    (["set", "/extra", 1], InvalidProperty, "unknown property 'extra'", None, "/extra"),
    (["set", "/a~1b", 1], InvalidProperty, "unknown property 'a/b'", None, "/a~1b"),
    (["remove", "/flinkVersion"], UnknownFlinkVersion, "missing", None, "/flinkVersion"),
    (["set", "/flinkVersion", "1.2"], UnknownFlinkVersion, "'1.2'", None, "/flinkVersion"),
    (["set", "/flinkVersion", ""], UnknownFlinkVersion, "''", None, "/flinkVersion"),
    (["remove", "/nodes"], InvalidProperty, "nodes is missing", None, "/nodes"),
    (["set", "/nodes", []], InvalidProperty, "no nodes", None, "/nodes"),
    (["remove", "/edges"], InvalidProperty, "edges is missing", None, "/edges"),
    (["set", "/edges/0/target", 99], InvalidGraph, "target node 99", 99, "/edges/0/target"),
    (["set", "/edges/0/source", 98], InvalidGraph, "source node 98", 98, "/edges/0/source"),
    (["set", "/edges", []], InvalidGraph, "has 0 inputs, but needs 1", 2, "/nodes/1"),
    (["set", "/edges/0/shuffle/type", "FOO"], InvalidProperty, "'FOO'", None,
     "/edges/0/shuffle/type"),
    (["set", "/nodes/1/id", 1], InvalidGraph, "id 1 is not unique", 1, "/nodes/1/id"),
    (["remove", "/nodes/1/id"], InvalidProperty, "id is missing", None, "/nodes/1/id"),
    (["set", "/nodes/1/id", True], InvalidProperty, "must be an integer", None, "/nodes/1/id"),
    (["set", "/nodes/1/id", 2**31], InvalidProperty, "must be an integer", None, "/nodes/1/id"),
    (["remove", "/nodes/1/description"], InvalidProperty, "description", 2,
     "/nodes/1/description"),
    (["set", "/nodes/1/type", "stream-exec-calc"], UnknownNodeType, "no version", 2,
     "/nodes/1/type"),
    (["set", "/nodes/1/type", "stream-exec-calc_9"], UnknownNodeType, "version.*9", 2,
     "/nodes/1/type"),
    (["set", "/nodes/1/type", "stream-exec-foo_1"], UnknownNodeType, "stream-exec-foo", 2,
     "/nodes/1/type"),
    (["set", "/nodes/1/outputType", "ROW<`k` INTT>"], InvalidType, "INTT", 2,
     "/nodes/1/outputType"),
    (["set", "/nodes/1/outputType", "INT"], InvalidType, "must be a ROW", 2,
     "/nodes/1/outputType"),
    (["remove", "/nodes/1/projection"], InvalidProperty, "projection is missing", 2,
     "/nodes/1/projection"),
    (["append", "/nodes/1/projection", ref(0)], InvalidExpression, "3 expressions.*2 columns", 2,
     "/nodes/1/projection"),
    (["set", "/nodes/1/projection/1/inputIndex", 7], InvalidExpression, "none with index 7", 2,
     "/nodes/1/projection/1/inputIndex"),
    (["set", "/nodes/1/projection/1/kind", "FOO"], InvalidExpression, "'FOO'", 2,
     "/nodes/1/projection/1/kind"),
    (["set", "/nodes/1/condition", literal("x")], InvalidExpression, "does not fit type INT", 2,
     "/nodes/1/condition/value"),
    (["set", "/nodes/1/inputProperties/0/damBehavior", "X"], InvalidProperty, "'X'", 2,
     "/nodes/1/inputProperties/0/damBehavior"),
    (["set", "/nodes/1/configuration", {"a": None}], InvalidProperty, "a is null", 2,
     "/nodes/1/configuration/a"),
    (["set", "/nodes/2/inputChangelogMode", ["FOO"]], InvalidProperty, "'FOO'", 3,
     "/nodes/2/inputChangelogMode"),
    (["set", "/nodes/2/inputChangelogMode", []], InvalidProperty, "at least one", 3,
     "/nodes/2/inputChangelogMode"),
    (["set", "/nodes/2/inputUpsertKey", [2]], InvalidProperty, "no column 2", 3,
     "/nodes/2/inputUpsertKey"),
    (["set", "/nodes/2/upsertMaterializeStrategy", "FAST"], InvalidProperty, "'FAST'", 3,
     "/nodes/2/upsertMaterializeStrategy"),
    (["set", "/nodes/2/conflictStrategy", {"behavior": "X"}], InvalidProperty, "'X'", 3,
     "/nodes/2/conflictStrategy/behavior"),
    (["remove", "/nodes/2/dynamicTableSink"], InvalidProperty, "dynamicTableSink is missing", 3,
     "/nodes/2/dynamicTableSink"),
    (["set", "/nodes/0/scanTableSource/abilities", [{"type": "X"}]], InvalidProperty, "'X'", 1,
     "/nodes/0/scanTableSource/abilities/0/type"),
    (["set", "/nodes/0/scanTableSource/table/resolvedTable/options", {}], InvalidProperty,
     "no connector", 1, "/nodes/0/scanTableSource/table/resolvedTable/options"),
]  # fmt: skip  # a table: a case a line


@pytest.mark.parametrize(("edit", "error", "message", "node_id", "path"), EDITED)
def test_a_refusal_names_the_node_and_the_place(
    edit: list[Any], error: type[PlanError], message: str, node_id: int | None, path: str
) -> None:
    with pytest.raises(error, match=message) as refusal:
        load_plan(edited(small(), [edit]))

    assert (refusal.value.node_id, refusal.value.path) == (node_id, path)
    assert refusal.value.code.startswith("plan.")


def test_a_misspelt_connector_is_told() -> None:
    options = "/nodes/0/scanTableSource/table/resolvedTable/options"

    with pytest.raises(InvalidProperty, match="has no connector") as refusal:
        load_plan(edited(small(), [["set", options, {"connectoor": "print"}]]))

    assert refusal.value.hint == "did you mean 'connector' by 'connectoor'?"


STATES = [
    ([{"index": 0, "ttl": "1 d", "name": "s"}], None),
    ([{"ttl": "1 d", "name": "s"}], None),
    ([{"index": "0", "ttl": 5, "name": 7}], None),
    ([], None),
    (None, None),
    ([{"index": 1, "ttl": "1 d", "name": "s"}], r"indexes of the states are \[1\]"),
    ([{"index": -1, "ttl": "1 d", "name": "s"}], "starts from 0"),
    ([{"index": 0, "name": "s"}], "ttl of a state is missing or null"),
    ([{"index": 0, "ttl": None, "name": "s"}], "ttl of a state is missing or null"),
    ([{"index": 0, "ttl": "1 d"}], "name of a state is missing or null"),
    ([{"index": 0, "ttl": "1 week", "name": "s"}], "label 'week' does not match"),
    ([{"index": 0, "ttl": "9223372036854775808 ms", "name": "s"}], "too long"),
    ([{"index": 0, "ttl": "1 d", "name": "s"}] * 2, "2 states .* 1 input"),
]


@pytest.mark.parametrize(("state", "message"), STATES)
def test_the_states_of_a_materializer(state: list[Any] | None, message: str | None) -> None:
    document = edited(recorded_plan("100_"), [["set", "/nodes/2/state", state]])

    if message is None:
        assert len(load_plan(document).sinks[0].state) == len(state or ())
    else:
        with pytest.raises(InvalidStateMetadata, match=message) as refusal:
            load_plan(document)
        assert refusal.value.node_id == 3
        assert refusal.value.path.startswith("/nodes/2/state")


def test_states_are_sorted_by_index() -> None:
    document = recorded_plan("070_")
    at = next(i for i, each in enumerate(document["nodes"]) if "joinSpec" in each)
    document["nodes"][at]["state"] = [
        {"index": 1, "ttl": "2 s", "name": "right"},
        {"index": 0, "ttl": "1 s", "name": "left"},
    ]

    states = load_plan(document).node(document["nodes"][at]["id"]).state

    assert [(each.name, each.ttl_ms) for each in states] == [("left", 1_000), ("right", 2_000)]


def test_a_state_that_nothing_reads_is_not_counted() -> None:
    document = edited(recorded_plan("100_"), [["set", "/nodes/2/requireUpsertMaterialize", False]])
    document["nodes"][2]["state"] *= 3
    document["nodes"][1]["state"] = "no list at all"

    assert load_plan(document).sinks[0].has_state is False


def test_all_problems_are_listed_at_once() -> None:
    document = edited(
        small(),
        [
            ["remove", "/flinkVersion"],
            ["remove", "/nodes/0/description"],
            ["set", "/nodes/1/projection/0/kind", "FOO"],
            ["set", "/edges/1/shuffleMode", "SLOW"],
        ],
    )

    plan, problems = check_document(document)

    assert plan is None
    assert [each.path for each in problems] == [
        "/flinkVersion",
        "/nodes/0/description",
        "/nodes/1/projection/0/kind",
        "/edges/1/shuffleMode",
    ]


def test_a_circle_is_refused() -> None:
    union = node(2, "union_1", COLUMNS, inputProperties=[INPUT])
    document = chain(scan(1, COLUMNS), union, sink(3, COLUMNS))
    document["edges"].append(edge(2, 2))

    with pytest.raises(InvalidGraph, match="form a cycle") as refusal:
        load_plan(document)

    assert refusal.value.node_id == 2


def test_limits_of_size_and_count() -> None:
    document = small()

    with pytest.raises(PlanTooLarge, match="bytes"):
        load_plan(orjson.dumps(document), limits=PlanLimits(size_bytes_max=100))
    with pytest.raises(PlanTooLarge, match="3 nodes; 2 are allowed"):
        load_plan(document, limits=PlanLimits(nodes_max=2))
    with pytest.raises(PlanTooLarge, match="2 edges; 1 are allowed"):
        load_plan(document, limits=PlanLimits(edges_max=1))


@pytest.mark.parametrize("levels", [100, 200, 5_000])
def test_nesting_is_read_or_refused_but_never_overflows(levels: int) -> None:
    rex = ref(1)
    for _ in range(levels):
        rex = call("+", rex, type_text="INT")

    plan, problems = check_document(small(projection=[ref(0), rex]))

    if levels == 100:
        assert plan is not None
    else:
        assert isinstance(problems[0], PlanTooLarge)


def test_ten_thousand_columns_are_fine() -> None:
    columns = {f"c{index}": "VARCHAR(2147483647)" for index in range(10_000)}
    projection = [ref(index, "VARCHAR(2147483647)") for index in range(10_000)]
    calc = node(2, "calc_1", columns, projection=projection, inputProperties=[INPUT])

    plan = load_plan(orjson.dumps(chain(scan(1, columns), calc, sink(3, columns, key=("c9",)))))

    view = plan.sinks[0].view
    assert isinstance(view, Sink)
    assert view.primary_key == (9,)


def test_a_chain_of_thousands_of_nodes_is_fine() -> None:
    drops = [
        node(index, "drop-update-before_1", COLUMNS, inputProperties=[INPUT])
        for index in range(2, 5_000)
    ]

    plan = load_plan(chain(scan(1, COLUMNS), *drops, sink(5_000, COLUMNS)))

    assert len(plan.nodes) == 5_000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def _pointers(value: Any, at: str = "") -> list[str]:
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = [(key.replace("~", "~0").replace("/", "~1"), each) for key, each in value.items()]
    elif isinstance(value, list):
        inner = [(str(index), each) for index, each in enumerate(value)]
    return [at] * bool(at) + list(
        itertools.chain.from_iterable(_pointers(each, f"{at}/{key}") for key, each in inner)
    )


_BASES = [
    recorded_plan("100_"),
    recorded_plan("022_"),
    recorded_plan("087_"),
    recorded_plan("120_"),
    small(condition=call("=", ref(0), ref(1))),
]
SETTINGS = settings_of(Path("/nowhere"))
_PLACES = [(index, pointer) for index, base in enumerate(_BASES) for pointer in _pointers(base)]


@settings(deadline=None)
@given(place=st.sampled_from(_PLACES), value=_JSON)
@example(place=(1, "/nodes/3/uniqueKeys/0"), value=-4)
def test_any_value_at_any_place_is_taken_or_refused(place: tuple[int, str], value: Any) -> None:
    """No document makes anything but a plan that explains itself, or problems with a message."""
    index, pointer = place
    document = edited(_BASES[index], [["set", pointer, value]])

    plan, problems = check_document(document)

    if plan is None:
        assert problems
        assert all(each.message for each in problems)
    else:
        assert explain(plan, default_ttl_ms=5).text
        assert isinstance(unsupported(plan), list)
        _, found = findings(document, PipelineOptions(), SETTINGS)
        placed = [each.node_id is not None and each.type and each.path for each in found]
        # A number that does not fit 64 bits, wherever it is, is of the document.
        assert all(placed) or [each.code for each in found] == ["plan.syntax"]


@pytest.mark.parametrize("version", ["2.4", "2.10", "3.0"])
def test_a_plan_of_a_later_version_is_read_by_its_nodes(version: str) -> None:
    document = {**small(), "flinkVersion": version}

    plan, problems = check_document(document)

    assert not problems
    assert plan is not None
    assert plan.flink_version == version
    for at, each in enumerate(document["nodes"]):
        each["type"] = f"stream-exec-new-{at}_1"
    _, unknown = check_document(document)
    assert [each.path for each in unknown] == [
        f"/nodes/{at}/type" for at in range(len(document["nodes"]))
    ]


@pytest.mark.parametrize("version", ["2.04", "2", "2.x", "latest", "1.21", "02.4", "2.4.1"])
def test_what_is_no_version_is_none(version: str) -> None:
    _, problems = check_document({"flinkVersion": version, "nodes": [], "edges": []})

    assert any(isinstance(each, UnknownFlinkVersion) for each in problems)
