"""What of a savepoint a plan goes on with, and what would come of it.

`service.plan.continuation` judges; here its judgement becomes what a restore does (`moves`, the
order of Spark's sources) and what it says: consequences, some of which it refuses unless the order
allows them. A request, `validate` and the restore itself all come by here.

What a savepoint keeps for that of the plan that it was taken of is `described`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from operators.wire import ENDED, WATERMARKS
from service.plan.continuation import continuation
from service.plan.nodes import TableScan, Values
from service.plan.state_meaning import meaning_from, plan_meaning
from service.runtime.connectors import table_names
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.planned_offsets import SparkRead
from service.runtime.slot_keys import SOURCE_NAMES, print_name, table_name
from state.errors import SavepointMismatch
from state.savepoint import Moves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.plan import CompiledPlan
    from service.plan.continuation import Continuation
    from service.plan.state_meaning import PlanMeaning
    from service.runtime.operators import OperatorInfo
    from service.runtime.records import RestoreOrder
    from state.savepoint import Manifest

_READS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Consequence:
    """One thing that comes of a restore."""

    code: str
    message: str
    hint: str = ""
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """A savepoint and the plan that is to go on with it."""

    consequences: tuple[Consequence, ...]
    moves: Moves
    new_tables: frozenset[str]
    """Names of sinks whose tables begin with the restored pipeline."""
    reads: tuple[tuple[SparkRead, ...], tuple[SparkRead, ...]] | None
    """Spark's sources before and after, where they are not the same."""

    def require(self) -> None:
        """See that nothing of it is refused.

        Raises:
            SavepointMismatch: Something is.
        """
        refused = [each for each in self.consequences if each.is_refused]
        if refused:
            raise SavepointMismatch(
                "; ".join(each.message for each in refused),
                hint="; ".join(dict.fromkeys(each.hint for each in refused)),
            )


def described(plan: CompiledPlan, *, rows_in: int) -> dict[str, Any]:
    """What a savepoint tells of the plan that it was taken of.

    Args:
        plan: The plan.
        rows_in: Changes that were ever read with it.
    """
    reads = spark_reads(plan)
    return {
        "meaning": plan_meaning(plan).to_json(),
        "names": table_names(plan),
        "reads": None if reads is None else [list(each) for each in reads],
        "rows_in": rows_in,
    }


def fit(
    manifest: Manifest,
    plan: CompiledPlan,
    operators: Sequence[OperatorInfo],
    order: RestoreOrder,
) -> Fit:
    """Judge what a plan goes on with.

    Args:
        manifest: The savepoint's.
        plan: The plan that is to go on.
        operators: Its stateful ones.
        order: What the restore may do.

    Raises:
        SavepointMismatch: The savepoint does not tell what it is of.
    """
    before = meaning_from(manifest.about.get("meaning", {}))
    if before is None:
        raise SavepointMismatch(
            "the savepoint was taken by a version that did not tell what its state means",
            hint="restore it with that version",
        )
    after = plan_meaning(plan)
    judged = continuation(before, after)
    names = _Names(before, after, judged, manifest.about["names"], table_names(plan))
    reads = _moved_reads(manifest, before, after, plan)
    return Fit(
        tuple(_consequences(manifest, judged, names, order)),
        Moves(
            {
                f"{before_id}_{each.kind}": each.id
                for each in operators
                if (before_id := judged.before_of(each.node_id)) is not None
            },
            names.slot(manifest.slot),
            names.offsets(manifest.offsets),
        ),
        frozenset(
            names.after[each.after]
            for each in judged.tables
            if each.outcome == "new" and each.after is not None
        ),
        reads,
    )


def spark_reads(plan: CompiledPlan) -> tuple[SparkRead, ...] | None:
    """The sources of Spark's query, in its order: one for each way from a table to a sink.

    None where there are more than anyone lists: ways double with each join of a view with itself.
    """
    by_node = {each.node: each for each in plan_meaning(plan).sources}
    found: dict[int, list[SparkRead]] = {}
    for node in plan.nodes:
        if isinstance(node.view, TableScan | Values):
            source = by_node[node.id]
            found[node.id] = [SparkRead(source.key, 2 if source.connector in KAFKA else 1)]
        else:
            inputs = [found[each.id] for each in plan.inputs(node.id)]
            if sum(map(len, inputs)) > _READS_MAX:
                return None
            found[node.id] = [each for of_input in inputs for each in of_input]
    read = tuple(each for sink in plan.sinks for each in found[sink.id])
    return read if len(read) <= _READS_MAX else None


class _Names:
    """What tables, sources and clocks are called in the slot and the offsets, before and after."""

    def __init__(
        self,
        before: PlanMeaning,
        after: PlanMeaning,
        judged: Continuation,
        old: Mapping[str, str],
        new: Mapping[str, str],
    ) -> None:
        self.before, self.after = old, new
        self._judged = judged
        kept = {each.key for each in judged.sources if each.outcome == "kept"}
        sources = [
            {each.key: _source_name(each.key, each.node, names) for each in meaning.sources}
            for meaning, names in ((before, old), (after, new))
        ]
        self._old_sources = set(sources[0].values())
        self._sources = {sources[0][key]: sources[1][key] for key in kept}

    def slot(self, saved: Sequence[str]) -> dict[str, str]:
        """By name in the slot that was saved: the one that it gets; what is gone has none."""
        moved: dict[str, str | None] = {}
        for name in self._old_sources:
            to = self._sources.get(name)
            for prefix in SOURCE_NAMES:
                moved[f"{prefix}:{name}"] = None if to is None else f"{prefix}:{to}"
        for each in self._judged.tables:
            if each.before is None:
                continue
            for make in (table_name, print_name):
                to = None if each.after is None else make(self.after[each.after])
                moved.setdefault(make(self.before[each.before]), to)
        return {name: to for name in saved if (to := moved.get(name, name)) is not None}

    def offsets(self, saved: str) -> str:
        """The marker's offsets by the names that the plan after has."""
        found: dict[str, Any] = {}
        for name, value in orjson.loads(saved).items():
            if name == WATERMARKS:
                clocks = {str(old): str(new) for old, new in self._judged.clocks.items()}
                found[name] = {clocks[each]: value[each] for each in value if each in clocks}
            elif name == ENDED:
                found[name] = sorted(self._sources[e] for e in value if e in self._sources)
            elif name not in self._old_sources:
                found[name] = value
            elif name in self._sources:
                found[self._sources[name]] = value
        return orjson.dumps(found).decode()


def _source_name(key: str, node: int, names: Mapping[str, str]) -> str:
    """What a source is called in offsets: rows that stand in a plan have their node's number."""
    return names.get(key, f"values-{node}")


def _consequences(
    manifest: Manifest, judged: Continuation, names: _Names, order: RestoreOrder
) -> list[Consequence]:
    found = []
    for source in judged.sources:
        name = names.after.get(source.key, names.before.get(source.key, "values"))
        if source.outcome == "other" and manifest.epoch:
            message = f"table {name} is read from elsewhere than when the savepoint was taken"
            hint = "read the same table, or give the other one another name"
            found.append(Consequence("restore-source-changed", message, hint, is_refused=True))
        elif source.outcome == "gone":
            found.append(Consequence("restore-source-gone", f"table {name} is not read any more"))
    held = {each.node.partition("_")[0] for each in manifest.states if each.keys}
    for state in judged.states:
        if state.outcome == "dropped" and str(state.before) in held:
            operator = next(
                e.node for e in manifest.states if e.node.startswith(f"{state.before}_")
            )
            found.append(
                Consequence(
                    "restore-state-dropped",
                    f"the state of {operator} is dropped: {state.reason}",
                    "restore with a plan that keeps it, or allow_non_restored_state to drop it",
                    is_refused=not order.allow_non_restored_state,
                )
            )
    if manifest.about["rows_in"] == 0:
        return found
    for table in judged.tables:
        if table.outcome == "outdated":
            assert table.after is not None
            found.append(
                Consequence(
                    "restore-table-outdated",
                    f"table {names.after[table.after]} is outdated: {table.reason}",
                    "restore with a plan that writes the same rows, give the table another name, "
                    "or allow_outdated_rows to let them stay",
                    is_refused=not order.allow_outdated_rows,
                )
            )
        elif table.outcome == "new" and not table.is_whole:
            assert table.after is not None
            message = f"table {names.after[table.after]} is new: {table.reason}"
            found.append(Consequence("restore-table-new", message))
        elif table.outcome == "gone":
            assert table.before is not None
            message = f"table {names.before[table.before]} is not written any more"
            found.append(Consequence("restore-table-gone", message))
    return found


def _moved_reads(
    manifest: Manifest, before: PlanMeaning, after: PlanMeaning, plan: CompiledPlan
) -> tuple[tuple[SparkRead, ...], tuple[SparkRead, ...]] | None:
    """Spark's sources before and after; None if they are the same.

    Raises:
        SavepointMismatch: They are too many to tell.
    """
    told, now = manifest.about["reads"], spark_reads(plan)
    saved = None if told is None else tuple(SparkRead(*each) for each in told)
    if saved == now and (now is not None or _written(before) == _written(after)):
        return None
    if saved is None or now is None:
        raise SavepointMismatch(
            f"tables are read more than {_READS_MAX} times, and not all as they were",
            hint="restore with the plan that the savepoint was taken of",
        )
    return (saved, now) if manifest.epoch else None


def _written(meaning: PlanMeaning) -> list[Mapping[str, str]]:
    return [each.parts for each in meaning.tables]
