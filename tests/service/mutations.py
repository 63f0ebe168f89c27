"""Recorded plans with one property changed: whatever stands there must be taken or refused.

A *shape* is what the nodes of one type have as properties in the recorded plans, with the numbers
of lists left out. `shapes()` gives for each type the nodes that have all of them between them, each
in a plan that runs, so that every property is changed once.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from service.runtime.admission import findings
from service.runtime.records import PipelineOptions
from service.settings import FilesSettings, Settings
from tests.service.plan.builders import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CASES = Path(__file__).parents[1] / "oracles" / "recorded" / "plans-more"
COMMON = frozenset(
    {
        "configuration", "description", "dynamicTableSink", "id", "inputProperties", "outputType",
        "scanTableSource", "type",
    }
)  # fmt: skip  # a list of names, several a line
"""Properties of all nodes, or of tables: other tests change them."""
REMOVED = object()
"""In the place of a value: the property is left out."""
VALUES: tuple[Any, ...] = (
    REMOVED, None, "x", 7, -1, 2**40, 1.5, True, [], {}, [None], [99], [-1], ["x"], [[99]],
    {"x": 1},
)  # fmt: skip  # a list of values, several a line
_SOURCE = {"connector": "filesystem", "format": "changelog-json", "path": "in"}
_LOOKED_UP = {"connector": "filesystem", "format": "json", "path": "dim"}


@dataclass(frozen=True, slots=True)
class Place:
    """A property of a node, or an entry of a list in it."""

    case: str
    node: int
    """Index in the plan."""
    keys: tuple[str | int, ...]
    """The way from the node."""

    def __str__(self) -> str:
        return f"{self.case}/nodes/{self.node}/{'/'.join(map(str, self.keys))}"


def settings_of(folder: Path) -> Settings:
    return Settings(_env_file=None, files=FilesSettings(root=folder))


def mutated(place: Place, value: Any) -> dict[str, Any]:
    """The plan with another value at a place."""
    plan = copy.deepcopy(_plans()[place.case])
    owner = plan["nodes"][place.node]
    for key in place.keys[:-1]:
        owner = owner[key]
    if value is REMOVED:
        del owner[place.keys[-1]]
    else:
        owner[place.keys[-1]] = value
    return plan


@cache
def shapes() -> Mapping[str, tuple[Place, ...]]:
    """By type of node: places that have every property of its shapes between them."""
    seen: set[tuple[str, ...]] = set()
    found: dict[str, list[Place]] = {}
    for case, plan in sorted(_plans().items()):
        new = [
            (shape, Place(case, number, keys))
            for number, node in enumerate(plan["nodes"])
            for keys, value in _places(node)
            if keys[0] not in COMMON
            and (shape := (node["type"], *_general(keys), type(value).__name__)) not in seen
        ]
        # Plans that are refused as they are say nothing; it takes long to find out.
        if not new or _is_refused(plan):
            continue
        for shape, place in new:
            if shape not in seen:
                seen.add(shape)
                found.setdefault(shape[0], []).append(place)
    return {kind: tuple(places) for kind, places in sorted(found.items())}


@cache
def _plans() -> dict[str, Any]:
    plans = {each["case"]: each["plan"] for each in recorded() if each["file"] == "plan.json"}
    for file in sorted(CASES.glob("*/plan.json")):
        plans[file.parent.name] = orjson.loads(file.read_bytes())
    return {case: _runnable(plan) for case, plan in plans.items()}


def _runnable(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan with tables that there are here."""
    for node in plan["nodes"]:
        if "scanTableSource" in node:
            table = node["scanTableSource"]["table"]["resolvedTable"]
            mode = {k: v for k, v in table["options"].items() if k == "changelog-mode"}
            table["options"] = _SOURCE | mode
        if "dynamicTableSink" in node:
            node["dynamicTableSink"]["table"]["resolvedTable"]["options"] = {"connector": "print"}
        if "temporalTable" in node:
            table = node["temporalTable"]["lookupTableSource"]["table"]["resolvedTable"]
            table["options"] = _LOOKED_UP
    return plan


def _is_refused(plan: dict[str, Any]) -> bool:
    _, found = findings(plan, PipelineOptions(), settings_of(Path("/nowhere")))
    return any(each.kind != "warning" for each in found)


def _general(keys: tuple[str | int, ...]) -> tuple[str, ...]:
    return tuple("*" if isinstance(key, int) else key for key in keys)


def _places(
    value: Any, above: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, entry in inner:
        yield (*above, key), entry
        yield from _places(entry, (*above, key))


def kinds() -> list[str]:
    """Types of nodes in the recorded plans that have properties of their own."""
    nodes = [node for plan in _plans().values() for node in plan["nodes"]]
    return sorted({node["type"] for node in nodes if not node.keys() <= COMMON})


def mutations(kind: str, values_each: int) -> Iterator[tuple[Place, Any]]:
    """Each place of a type of node with so many values: left out, null, and others in turn."""
    others = itertools.cycle(VALUES[2:])
    for place in shapes().get(kind, ()):
        yield place, REMOVED
        yield place, None
        for value in itertools.islice(others, values_each - 2):
            yield place, value
