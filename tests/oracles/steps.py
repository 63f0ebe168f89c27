"""Inputs of a recorded case as Spark is to read them: which lines make up which epoch.

A recorded line carries `t`, the ms since the start at which Flink's source gave it. All sources go
in step: an epoch has the lines of one `t`. Where a plan has watermarks, each line is an epoch by
itself, and one without lines follows, since Flink moves its watermark on after each line and ours
takes part at the end of the next epoch. Where it has mini-batches, the first line of each source
begins an epoch, too: with it comes a watermark of Flink's, which ends a bundle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from tests.oracles.plan_harness import START_MS

if TYPE_CHECKING:
    from pathlib import Path

MARK = "_epoch"
"""The field of a line that says which epoch it belongs to."""


def write_inputs(
    source: Path, target: Path, document: dict[str, Any]
) -> list[tuple[int | None, int]]:
    """Copy the inputs of a case with marks; the epochs' marks and times."""
    target.mkdir(parents=True)
    texts = {path.name: _lines(path) for path in sorted(source.glob("*.jsonl"))}
    has_watermarks = any(
        "watermark" in each["type"] or "WatermarkPushDown" in orjson.dumps(each).decode()
        for each in document["nodes"]
    )
    bundles = any("mini-batch-assigner" in each["type"] for each in document["nodes"])
    placed = sorted(
        (_time(line), name, at) for name, lines in texts.items() for at, line in enumerate(lines)
    )
    epochs: list[tuple[int | None, int]] = []
    marks: dict[tuple[str, int], int] = {}
    begun: set[str] = set()
    for t, name, at in placed:
        ends_bundle = bundles and name not in begun
        begun.add(name)
        if has_watermarks or ends_bundle or not epochs or epochs[-1][1] != START_MS + t:
            epochs.append((len(epochs), START_MS + t))
            if has_watermarks:
                epochs.append((None, START_MS + t))
        marks[name, at] = next(mark for mark, _ in reversed(epochs) if mark is not None)
    for name, lines in texts.items():
        marked = [_marked(line, marks[name, at]) for at, line in enumerate(lines)]
        (target / name).write_bytes(b"".join(each + b"\n" for each in marked))
    last_ms = epochs[-1][1] if epochs else START_MS
    return [*epochs, (None, last_ms)]


def _lines(path: Path) -> list[bytes]:
    return [each for each in path.read_bytes().splitlines() if each.strip()]


def _time(line: bytes) -> int:
    try:
        return int(orjson.loads(line).get("t", 0))
    except (orjson.JSONDecodeError, AttributeError):  # no JSON, or none with members
        return 0


def _marked(line: bytes, mark: int) -> bytes:
    """The line with its mark; what is no object stays as it is."""
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line
    return orjson.dumps({**content, MARK: mark}) if isinstance(content, dict) else line
