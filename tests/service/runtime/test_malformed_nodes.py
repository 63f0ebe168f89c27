"""No plan makes anything but a pipeline or a refusal that says which node, of which type, where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from service.plan import PlanError, load_plan
from service.runtime.admission import Finding, findings
from service.runtime.node_errors import in_plan
from service.runtime.records import PipelineOptions
from tests.service.mutations import REMOVED, kinds, mutated, mutations, settings_of, shapes
from tests.service.plan.builders import HERE
from tests.service.plans import flights_plan

VALUES_EACH = 5
NOWHERE = settings_of(Path("/nowhere"))
FLINK: dict[str, Any] = orjson.loads((HERE / "flink_left_out.json").read_bytes())


def is_placed(finding: Finding) -> bool:
    return (
        finding.node_id is not None
        and bool(finding.type)
        and finding.path.startswith("/nodes/")
        and bool(finding.message)
    )


def test_nodes_of_every_type_that_runs_are_changed() -> None:
    assert sorted(shapes()) == kinds()
    assert len(kinds()) >= 30
    assert sum(map(len, shapes().values())) > 600


@pytest.mark.parametrize("kind", kinds())
def test_a_node_with_any_value_at_any_place_is_taken_or_refused_with_its_place(
    kind: str, tmp_path: Path
) -> None:
    """Every property of every recorded shape: left out, null, of another type, out of range."""
    settings = settings_of(tmp_path)
    for place, value in mutations(kind, VALUES_EACH):
        try:
            _, found = findings(mutated(place, value), PipelineOptions(), settings)
        except Exception as error:
            # Whatever it is: the request would be answered with 500.
            pytest.fail(f"{place} = {value!r}: {type(error).__name__}: {error}")
        vague = [each for each in found if each.kind != "warning" and not is_placed(each)]
        assert not vague, f"{place} = {value!r}: {vague[0]}"


STRICTER = {
    # The type of a comparison and the like is needed to compute it to the last bit.
    "stream-exec-changelog-normalize_1": {"filterCondition/type"},
    "stream-exec-join_1": {"joinSpec/nonEquiCondition/type"},
    "stream-exec-temporal-join_1": {"joinSpec/nonEquiCondition/type"},
    "stream-exec-window-join_1": {"joinSpec/nonEquiCondition/type"},
    # Its two phases would have different windows.
    "stream-exec-global-window-aggregate_1": {"windowing/window/offset"},
    "stream-exec-local-window-aggregate_1": {"windowing/window/offset"},
    # The last rank is 0 then: Flink runs what gives no row.
    "stream-exec-limit_1": {"rankRange/end"},
    "stream-exec-rank_1": {"rankRange/end"},
    "stream-exec-sort-limit_1": {"rankRange/end"},
    # Flink looks at neither; the output would have a column of which nothing is known.
    "stream-exec-window-deduplicate_1": {"windowing/window"},
    "stream-exec-window-rank_1": {"outputRowNumber", "windowing/window"},
}
"""What we refuse to do without, though Flink loads and explains it, and why."""


def left_out(kind: str) -> dict[str, bool]:
    """By property of a type of node: whether a plan without it is taken."""
    taken: dict[str, bool] = {}
    for place in shapes().get(kind, ()):
        if isinstance(place.keys[-1], str):
            _, found = findings(mutated(place, REMOVED), PipelineOptions(), NOWHERE)
            name = "/".join("*" if isinstance(key, int) else key for key in place.keys)
            is_taken = all(each.kind == "warning" for each in found)
            taken[name] = is_taken and taken.get(name, True)
    return taken


@pytest.mark.parametrize("kind", sorted(FLINK["taken"]))
def test_what_flink_takes_as_left_out_is_taken(kind: str) -> None:
    stricter = STRICTER.get(kind, set())
    wanted = set(FLINK["taken"][kind]) - stricter
    found = left_out(kind)

    assert {name for name in wanted & found.keys() if not found[name]} == set()
    assert {name for name in stricter if found[name]} == set()
    assert wanted & found.keys()


NOT_READ = {
    "stream-exec-changelog-normalize_1": {"filterCondition/syntax"},
    "stream-exec-global-window-aggregate_1": {
        "localAggInputRowType", "windowing/strategy", "windowing/timeAttributeType",
    },
    "stream-exec-group-window-aggregate_1": {
        "window/alias", "window/timeField/fieldType/kind", "window/timeField/inputIndex",
    },
    "stream-exec-join_1": {"joinSpec/nonEquiCondition/syntax"},
    "stream-exec-limit_1": {"partition/fields"},
    "stream-exec-mini-batch-assigner_1": {"miniBatchInterval/mode"},
    "stream-exec-multi-join_1": {"joinConditions/*/syntax", "multiJoinCondition"},
    "stream-exec-sort-limit_1": {"partition/fields"},
    "stream-exec-temporal-join_1": {"joinSpec/nonEquiCondition/syntax"},
    "stream-exec-window-deduplicate_1": {"windowing/timeAttributeType/kind"},
    "stream-exec-window-join_1": {
        "joinSpec/nonEquiCondition/syntax", "leftWindowing/timeAttributeType/kind",
        "rightWindowing/timeAttributeType/kind",
    },
    "stream-exec-window-rank_1": {"windowing/timeAttributeType/kind"},
}  # fmt: skip  # a list of names, several a line
"""What says nothing here, so that we can do without it, with all that is in it."""
NAME_OF_WINDOW = "namedWindowProperties/*/property/reference"


@pytest.mark.parametrize("kind", sorted(FLINK["refused"]))
def test_what_flink_needs_is_needed(kind: str) -> None:
    not_read = {NAME_OF_WINDOW, *NOT_READ.get(kind, ())}
    needed = {
        name
        for name in FLINK["refused"][kind]
        if not any(name == each or name.startswith(f"{each}/") for each in not_read)
    }
    found = left_out(kind)

    assert {name for name in needed & found.keys() if found[name]} == set()


@pytest.mark.parametrize(("path", "node_id"), [("/nodes/1/condition", 2), ("/nodes/10", None)])
def test_a_place_in_a_node_names_it(path: str, node_id: int | None) -> None:
    plan = load_plan(flights_plan())

    with pytest.raises(PlanError) as refusal, in_plan(plan):
        raise PlanError("no", path=path)

    assert (refusal.value.node_id, refusal.value.path) == (node_id, path)
    assert bool(refusal.value.node_type) is (node_id is not None)
