"""Compacting cases: the watermark-compacting materializer alone, on each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import Change, RowKind
from operators.compacting_materializer import CompactingSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import Of, OperatorHarness
from state.errors import OperatorFailed
from state.types import parse_type
from tests.oracles.cases import Case, Outcome, read_lines
from tests.oracles.failures import difference_of_failures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.codec import RowCodec
    from tests.oracles.engines import Engines

_STAMP = parse_type("BIGINT NOT NULL")
_SIZES = (1000, 1)
"""Changes in an epoch at most: all between two watermarks, and each alone."""


def run_compacting(case: Case, backends: Sequence[str], engines: Engines) -> Iterator[Outcome]:
    """One outcome for each backend; every size of epochs must give the same."""
    for backend in backends:
        difference = None
        for size in _SIZES:
            found = _run(case, backend, size, engines)
            if found is not None:
                difference = f"epochs of {size}: {found}"
                break
        yield Outcome(f"{case.name} [{backend}]", difference)


def compacting_spec(content: dict[str, Any], **fields: Any) -> CompactingSpec:
    """The operator of a case: rows carry the watermark that they were stamped with."""
    names = tuple(each["name"] for each in content["columns"])
    types = tuple(parse_type(each["type"]) for each in content["columns"])
    upsert_key = content["upsert_key"] or ()
    return CompactingSpec.build(
        inputs=(
            InputSpec(
                types=(*types, _STAMP),
                names=(*names, "@stamp"),
                key=tuple(map(names.index, content["primary_key"])),
            ),
        ),
        output=RowSpec(types=types, names=names),
        ttl_ms=(content.get("ttl_ms") or 0,),
        upsert_key=tuple(map(names.index, upsert_key)),
        behavior=content["strategy"].removeprefix("DO_"),
        stamp=len(names),
        **fields,
    )


def _run(case: Case, backend: str, size: int, engines: Engines) -> str | None:
    spec = compacting_spec(case.content)
    if backend == "heap":
        harness = OperatorHarness.on_heap(spec)
    else:
        harness = OperatorHarness.on_redis(spec, engines.redis_client())
    try:
        return _compare(case, harness, size)
    finally:
        harness.close()


def _compare(case: Case, harness: OperatorHarness, size: int) -> str | None:
    """The first difference between what is emitted, by the line that caused it, and the record."""
    codec = harness.spec.output.codec()
    expected: list[Any] = []
    failure: dict[str, Any] | None = None
    for line in read_lines(case.folder / "expected.jsonl"):
        if line["op"] == "!error":
            failure = line
        else:
            expected.append((line["in"], *_change(codec, line)))
    found: list[Any] = []
    for number, changes, watermark_ms, time_ms in _epochs(case, codec, size):
        try:
            emitted = harness.run_epoch(changes, watermark_ms=watermark_ms)
        except OperatorFailed as problem:
            if failure is None or failure["in"] != number:
                return f"line {number} failed: {problem.__cause__}"
            wrong = difference_of_failures(failure["message"], problem.__cause__ or problem)
            if wrong is not None:
                return wrong
            failure = None
            break
        found += [(number, each.kind.short, codec.encode(each.row)) for each in emitted]
        harness.now_ms = time_ms
    if failure is not None:
        return f"Flink fails at line {failure['in']}; nothing failed"
    for place in range(max(len(found), len(expected))):
        one, other = found[place : place + 1], expected[place : place + 1]
        if one != other:
            return f"emission {place}: {one}, expected {other}"
    return None


def _epochs(
    case: Case, codec: RowCodec, size: int
) -> Iterator[tuple[int, list[Of], int | None, int]]:
    """Epochs: the last line that goes in, changes, watermark after them, time of the next one."""
    waiting: list[Of] = []
    now_ms = number = 0
    for number, line in enumerate(read_lines(case.folder / "input.jsonl")):
        watermark_ms = None
        match line["op"]:
            case "@watermark":
                watermark_ms = line["ts"]
            case "@time":
                now_ms = line["ms"]
            case op:
                row = codec.decode_json(line["data"])
                waiting.append(Of(0, Change(RowKind.from_short(op), (*row, line["ts"]))))
                if len(waiting) < size:
                    continue
        yield number, waiting, watermark_ms, now_ms
        waiting = []
    yield number, waiting, None, now_ms


def _change(codec: RowCodec, line: dict[str, Any]) -> tuple[str, bytes]:
    return line["op"], codec.encode(codec.decode_json(line["data"]))
