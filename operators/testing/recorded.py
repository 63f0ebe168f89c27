"""Compare what a materializer emits with its definition, and with recordings of the real one.

    result = run_case(folder, strategy=Strategy.MAP, epoch_changes=1000)
    assert result.difference is None

A recorded case is a folder with `spec.json`, `input.jsonl` and `expected.jsonl`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from operators.changelog import Change, RowKind, materialize_upserts
from operators.testing.batch import UpsertView, comparable
from operators.testing.harness import Emission, MaterializerHarness, Step
from operators.upsert_materializer import MaterializerSpec
from state.codec import RowCodec
from state.multiset.strategy import Strategy
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import redis


@dataclass(frozen=True, slots=True)
class MaterializerCase:
    """A recorded run of the real operator."""

    name: str
    spec: MaterializerSpec
    steps: tuple[Step, ...]
    expected: tuple[Emission, ...]
    final: dict[str, Any] | None
    """Table and history at the end, as recorded."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of a case."""

    name: str
    difference: str | None
    """The first difference in words; None: none."""
    emissions: tuple[Emission, ...]
    statistics: tuple[dict[str, int], ...]
    """Of each epoch."""


def load_case(folder: Path) -> MaterializerCase:
    """Read a case from its folder: spec.json, input.jsonl, expected.jsonl, perhaps final.json."""
    document = json.loads((folder / "spec.json").read_text())
    names = tuple(column["name"] for column in document["columns"])
    upsert_key = document["upsert_key"]
    spec = MaterializerSpec(
        types=tuple(parse_type(column["type"]) for column in document["columns"]),
        names=names,
        key=tuple(names.index(name) for name in document["primary_key"]),
        upsert_key=None if upsert_key is None else tuple(map(names.index, upsert_key)),
        strategy=Strategy(document["strategy"]),
        high=document["adaptive_high"],
        low=document["adaptive_low"],
        ttl_ms=document["ttl_ms"] or 0,
    )
    codec = RowCodec(spec.types, names)
    lines = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    steps = [
        Step(time_ms=line["ms"]) if line["op"] == "@time" else Step(change=_change(codec, line))
        for line in lines
    ]
    outputs = [json.loads(line) for line in (folder / "expected.jsonl").read_text().splitlines()]
    final = folder / "final.json"
    return MaterializerCase(
        name=folder.name,
        spec=spec,
        steps=tuple(steps),
        expected=tuple(Emission(_change(codec, line), line["in"]) for line in outputs),
        final=json.loads(final.read_text()) if final.exists() else None,
    )


def run_case(
    folder: Path,
    *,
    strategy: Strategy | None = None,
    client: redis.Redis | None = None,
    epoch_changes: int = 1000,
    high: int | None = None,
    low: int | None = None,
) -> CaseResult:
    """Run a recorded case and compare.

    Args:
        folder: The case.
        strategy: In place of the recorded one.
        client: A Redis to run on; None: heap.
        epoch_changes: Changes in an epoch at most.
        high: Threshold in place of the recorded one, with `low`.
        low: Threshold in place of the recorded one, with `high`.

    Returns:
        The result. A case with a TTL was recorded with LEGACY; for the other strategies, whose
        entries expire one by one, emissions are compared with `UpsertView` instead.
    """
    case = load_case(folder)
    spec = replace(case.spec, strategy=strategy or case.spec.strategy)
    if high is not None or low is not None:
        spec = replace(spec, high=high, low=low)
    if client is None:
        harness = MaterializerHarness.on_heap(spec)
    else:
        harness = MaterializerHarness.on_redis(spec, client)
    emissions = harness.run(case.steps, epoch_changes=epoch_changes)
    expected: Sequence[Emission] = case.expected
    if spec.ttl_ms and spec.strategy is not Strategy.LEGACY:
        expected = expect(spec, case.steps)
    difference = first_difference(emissions, expected) or _final_difference(
        case, harness, emissions
    )
    harness.close()
    return CaseResult(case.name, difference, tuple(emissions), tuple(harness.statistics))


def expect(spec: MaterializerSpec, steps: Iterable[Change | Step]) -> list[Emission]:
    """What `UpsertView`, the plain definition, emits for these steps."""
    whole = spec.strategy is Strategy.LEGACY
    view = UpsertView(spec.key, spec.upsert_key, ttl_ms=spec.ttl_ms, whole=whole)
    emissions, now_ms = [], 0
    for index, given in enumerate(steps):
        step = given if isinstance(given, Step) else Step(change=given)
        now_ms = now_ms if step.time_ms is None else step.time_ms
        emitted = view.apply(step.change, now_ms) if step.change is not None else None
        if emitted is not None:
            emissions.append(Emission(emitted, index))
    return emissions


def first_difference(found: Sequence[Emission], expected: Sequence[Emission]) -> str | None:
    """Where two runs of emissions part, in words; rows are compared as canonical rows are."""
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        if _identity(one) != _identity(other):
            return f"emission {place}: {_words(one)}, expected {_words(other)}"
    if len(found) > len(expected):
        return f"emission {len(expected)}: {_words(found[len(expected)])}, expected no more"
    if len(found) < len(expected):
        return f"emission {len(found)}: none, expected {_words(expected[len(found)])}"
    return None


def _final_difference(
    case: MaterializerCase, harness: MaterializerHarness, emissions: Sequence[Emission]
) -> str | None:
    if case.final is None:
        return None
    codec, key_codec = case.spec.input.row_codec, case.spec.input.key_codec
    table = materialize_upserts((each.change for each in emissions), case.spec.key)
    recorded = {codec.encode(codec.decode_json(each["row"])) for each in case.final["table"]}
    if {codec.encode(row) for row in table.values()} != recorded:
        return "the table at the end is another"
    histories = {
        key_codec.encode(key_codec.decode_json(each["key"])): [
            codec.encode(codec.decode_json(row)) for row in each["rows"]
        ]
        for each in case.final["history"]
    }
    keys = harness.stored_keys()
    if {key_codec.encode(key) for key in keys} != set(histories):
        return "keys with state at the end are others"
    for key in keys:
        rows = [codec.encode(row) for row in harness.history(key)]
        if rows != histories[key_codec.encode(key)]:
            return "a history at the end is another"
    return None


def _identity(emission: Emission) -> object:
    return emission.change.kind, comparable(emission.change.row), emission.cause


def _words(emission: Emission) -> str:
    return f"{emission.change.kind.short} {emission.change.row} (in {emission.cause})"


def _change(codec: RowCodec, line: dict[str, Any]) -> Change:
    return Change(RowKind.from_short(line["op"]), codec.decode_json(line["data"]))
