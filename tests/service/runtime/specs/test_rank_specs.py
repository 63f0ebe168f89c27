"""From nodes of plans to specs: what is read, what old plans leave out, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from operators.deduplicate.spec import DeduplicateSpec
from operators.ordering import SortColumn
from operators.rank.spec import RankSpec
from operators.temporal_sort import TemporalSortSpec
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import BUILDERS, StatefulNode
from tests.operators.plan_cases import PLANS

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.spec import OperatorSpec


def built(name: str, kind: str, edit: Callable[[dict[str, Any]], None] | None = None) -> Any:
    """The spec of a recorded case's node of this kind, after an edit of the node."""
    document = json.loads((PLANS / name / "plan.json").read_text())
    (raw,) = [each for each in document["nodes"] if f"stream-exec-{kind}_" in each["type"]]
    if edit is not None:
        edit(raw)
    plan = load_plan(json.dumps(document))
    (node,) = [each for each in plan.nodes if each.node_type.short == kind]
    spec: OperatorSpec = BUILDERS[kind](StatefulNode(node, plan))
    return spec


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    """Remove properties, as an older Flink has not written them."""

    def edit(raw: dict[str, Any]) -> None:
        for name in names:
            raw.pop(name, None)

    return edit


def setting(**properties: Any) -> Callable[[dict[str, Any]], None]:
    """Set properties."""
    return lambda raw: raw.update(properties)


def test_a_rank_is_read() -> None:
    spec = built("067_rank_append_ttl", "rank")
    assert isinstance(spec, RankSpec)
    assert (spec.strategy, spec.start, spec.end) == ("append", 1, 2)
    assert spec.inputs[0].key == (1,)
    assert spec.order == (SortColumn(column=2, descending=True, nulls_last=True),)
    assert (spec.update_before, spec.with_number, spec.unique_key) == (True, False, ())


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"type": "Constant", "start": 2, "end": 3}, (2, 3, None)),
        ({"type": "Constant", "start": 2, "end": 9223372036854775807}, (2, None, None)),
        ({"type": "ConstantWithoutEnd", "start": 4}, (4, None, None)),
        ({"type": "Variable", "endIndex": 2}, (1, None, 2)),
    ],
)
def test_the_range_is_read(declared: dict[str, Any], expected: tuple[Any, ...]) -> None:
    spec = built("060_rank_append", "rank", setting(rankRange=declared))
    assert (spec.start, spec.end, spec.end_column) == expected


def test_the_strategy_of_updates_has_their_key() -> None:
    spec = built("064_rank_update_fast", "rank")
    assert (spec.strategy, spec.unique_key) == ("update", (0, 1))


@pytest.mark.parametrize(
    ("properties", "reason", "path"),
    [
        ({"rankType": "RANK"}, "ROW_NUMBER only", "rankType"),
        ({"rankType": "DENSE_RANK"}, "ROW_NUMBER only", "rankType"),
        ({"rankStrategy": {"type": "Undefined"}}, "Undefined", "rankStrategy/type"),
        ({"rankRange": {"type": "Other"}}, "Other", "rankRange/type"),
    ],
)
def test_a_rank_that_flink_does_not_run_is_refused(
    properties: dict[str, Any], reason: str, path: str
) -> None:
    with pytest.raises(UnsupportedNode, match=reason) as refused:
        built("060_rank_append", "rank", setting(**properties))
    assert refused.value.path is not None
    assert refused.value.path.endswith(path)


def test_an_order_of_values_without_one_is_refused() -> None:
    document = json.loads((PLANS / "060_rank_append" / "plan.json").read_text())
    for raw in document["nodes"]:
        if raw.get("outputType"):
            raw["outputType"] = raw["outputType"].replace("`p` INT", "`p` MAP<INT, INT>")
    plan = load_plan(json.dumps(document))
    (node,) = [each for each in plan.nodes if each.node_type.short == "rank"]
    with pytest.raises(UnsupportedNode) as refused:
        BUILDERS["rank"](StatefulNode(node, plan))
    assert refused.value.path is not None
    assert refused.value.path.endswith("orderBy/fields/0")


@pytest.mark.parametrize(
    ("strategy", "ascending", "expected"),
    [
        ("AppendFast", True, ((), False)),
        ("AppendFast", False, ((), False)),
        ("Retract", True, ((), False)),
        ("Retract", False, ((), True)),
    ],
)
def test_processing_time_is_no_order_but_that_of_arrival(
    strategy: str, ascending: bool, expected: tuple[Any, ...]
) -> None:
    """Recorded of Flink, but for the last line: there Flink keeps the oldest row."""
    document = json.loads((PLANS / "020_dedup_proctime_first" / "plan.json").read_text())
    (raw,) = [each for each in document["nodes"] if "deduplicate" in each["type"]]
    rank = json.loads((PLANS / "060_rank_append" / "plan.json").read_text())
    (given,) = [each for each in rank["nodes"] if "rank" in each["type"]]
    order = {"index": 2, "isAscending": ascending, "nullIsLast": not ascending}
    raw.update(
        {
            **given,
            "id": raw["id"],
            "outputType": raw["outputType"],
            "partition": {"fields": [0]},
            "rankStrategy": {"type": strategy},
            "orderBy": {"fields": [order]},
        }
    )
    plan = load_plan(json.dumps(document))
    (node,) = [each for each in plan.nodes if each.node_type.short == "rank"]
    spec: Any = BUILDERS["rank"](StatefulNode(node, plan))
    assert (spec.order, spec.newest_first) == expected
    assert spec.proctime == (2,)


def test_limits_are_ranks_of_one_partition() -> None:
    limit = built("050_limit_append", "limit")
    assert (limit.inputs[0].key, limit.order, limit.end) == ((), (), 3)
    assert built("052_sort_limit_append", "sort-limit").order == (
        SortColumn(column=2, descending=True, nulls_last=True),
    )


def test_deduplications_are_read() -> None:
    first = built("020_dedup_proctime_first", "deduplicate")
    assert isinstance(first, DeduplicateSpec)
    assert (first.keeps_last, first.rowtime, first.once, first.proctime) == (
        False,
        None,
        False,
        (2,),
    )
    waits = built("022_dedup_rowtime_first", "deduplicate")
    assert (waits.rowtime, waits.once, waits.retracts) == (2, True, False)
    bundled = built("024_dedup_proctime_last_minibatch", "deduplicate")
    assert (bundled.bundles, bundled.keeps_last, bundled.tells_inserts) == (True, True, True)


def test_plans_before_2_0_say_nothing_of_final_rows() -> None:
    spec = built("022_dedup_rowtime_first", "deduplicate", without("outputInsertOnly"))
    assert spec.once is False


def test_options_of_a_deduplication_are_honoured() -> None:
    options = {
        "table.exec.deduplicate.insert-update-after-sensitive-enabled": "false",
        "table.exec.deduplicate.mini-batch.compact-changes-enabled": "true",
    }
    spec = built(
        "025_dedup_proctime_last_upsert_sink", "deduplicate", setting(configuration=options)
    )
    assert (spec.tells_inserts, spec.compacts, spec.update_before) == (False, True, False)


def changed_source(document: dict[str, Any], mode: str) -> None:
    (scan,) = [each for each in document["nodes"] if "scan" in each["type"]]
    scan["scanTableSource"]["table"]["resolvedTable"]["options"]["changelog-mode"] = mode


@pytest.mark.parametrize(
    ("name", "refused"),
    [("025_dedup_proctime_last_upsert_sink", False), ("022_dedup_rowtime_first", True)],
)
def test_a_deduplication_of_a_changelog_keeps_all_rows_or_is_refused(
    name: str, refused: bool
) -> None:
    document = json.loads((PLANS / name / "plan.json").read_text())
    changed_source(document, "I,UB,UA,D")
    plan = load_plan(json.dumps(document))
    (node,) = [each for each in plan.nodes if each.node_type.short == "deduplicate"]
    at = StatefulNode(node, plan)
    if refused:
        with pytest.raises(UnsupportedNode, match="cannot be final"):
            BUILDERS["deduplicate"](at)
    else:
        spec: Any = BUILDERS["deduplicate"](at)
        assert spec.retracts is True


def test_a_deduplication_by_event_time_needs_one() -> None:
    with pytest.raises(UnsupportedNode, match="no column of event time"):
        built("020_dedup_proctime_first", "deduplicate", setting(isRowtime=True))


def test_a_changelog_normalize_is_read() -> None:
    spec = built("014_changelog_normalize_minibatch", "changelog-normalize")
    assert (spec.inputs[0].key, spec.update_before, spec.bundles) == ((0,), True, True)
    assert spec.condition is None


def test_a_temporal_sort_is_read() -> None:
    spec = built("133_temporal_sort", "temporal-sort")
    assert isinstance(spec, TemporalSortSpec)
    assert (spec.rowtime, spec.inputs[0].key) == (2, ())
    assert spec.order == (SortColumn(column=1, descending=True, nulls_last=True),)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [{"index": 1, "isAscending": True, "nullIsLast": False}],
        [{"index": 2, "isAscending": False, "nullIsLast": True}],
    ],
)
def test_a_sort_that_does_not_begin_with_time_is_refused(fields: list[dict[str, Any]]) -> None:
    with pytest.raises(UnsupportedNode, match="with a time, ascending"):
        built("133_temporal_sort", "temporal-sort", setting(orderBy={"fields": fields}))


def test_what_is_not_known_of_an_input_is_not_held_against_it() -> None:
    document = json.loads((PLANS / "022_dedup_rowtime_first" / "plan.json").read_text())
    (exchange,) = [each for each in document["nodes"] if "exchange" in each["type"]]
    exchange["type"] = "stream-exec-window-table-function_1"
    plan = load_plan(json.dumps(document))
    (node,) = [each for each in plan.nodes if each.node_type.short == "deduplicate"]
    spec: Any = BUILDERS["deduplicate"](StatefulNode(node, plan))
    assert (spec.retracts, spec.once) == (False, True)
