"""Files of an epoch: whole or not there, whatever dies on the way; and what csv writes."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from service.runtime.dataflow_errors import SinkRefused, SinkUnavailable
from service.runtime.sinks import disk
from service.runtime.sinks.filesystem import FileSink
from service.runtime.sinks.spec import SinkSpec
from service.runtime.sources.csv_lines import CsvDecoder
from service.runtime.sources.spec import SourceSpec
from state.arrow_values import python_values, to_column
from state.types import parse_type
from tests.service.runtime.unprivileged import closed_folder

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH = 7


class Death(BaseException):
    """The process is gone: nothing catches it."""


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A death here leaves the disk alone, and thousands of commits are made."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Fuse:
    """Lets so many operations on files through, and dies at the next one."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def guard(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self.left == 0:
                raise Death
            self.left -= 1
            return operation(*arguments, **named)

        return call


def make_sink(
    root: Path,
    types: tuple[str, ...] = ("STRING",),
    run: int = 1,
    owner: str = "9f3c-1",
    **options: str,
) -> FileSink:
    names = tuple(f"c{at}" for at in range(len(types)))
    options = {"path": "out", "format": "json", **options}
    spec = SinkSpec(3, "t", "filesystem", names, types, (), "append", options)
    return FileSink(spec, str(root), run, owner)


def stage(sink: FileSink, attempt: str, count: int) -> list[dict[str, Any]]:
    """Parts of as many tasks, each with the attempt's name as its row."""
    return [
        sink.stage(EPOCH, part, attempt, [pa.array([attempt])], np.zeros(1, np.int8))
        for part in range(count)
    ]


def commit(sink: FileSink, parts: list[dict[str, Any]]) -> None:
    sink.prepare(EPOCH, parts)
    sink.commit(EPOCH, parts)


def commit_until(sink: FileSink, parts: list[dict[str, Any]], operations: int) -> bool:
    """Commit, but die at the operation of this number; whether it came to its end."""
    fuse = Fuse(operations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", fuse.guard(os.replace))
        patch.setattr(os, "fsync", fuse.guard(os.fsync))
        patch.setattr(Path, "unlink", fuse.guard(Path.unlink))
        try:
            commit(sink, parts)
        except Death:
            return False
    return True


def shown(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "out").glob("part-*")}


DEATHS = range(9)


def test_the_last_attempt_alone_is_shown_whatever_died_before(tmp_path: Path) -> None:
    """Two attempts die before the last one, each at any operation; each has any number of parts."""
    for counts in itertools.product((0, 1, 2), repeat=3):
        for first in DEATHS:
            for second in DEATHS:
                root = tmp_path / "-".join(map(str, (*counts, first, second)))
                ended = _attempts_at(root, counts, (first, second))
                if ended[1]:
                    # Nor does it die at an operation that would come later.
                    break
            if ended[0]:
                break


def _attempts_at(root: Path, counts: tuple[int, ...], deaths: tuple[int, ...]) -> list[bool]:
    """Check what is shown in the end; whether those that were to die came to their ends."""
    root.mkdir()
    ended = []
    for run, (name, count, death) in enumerate(zip("ab", counts, deaths, strict=False)):
        sink = make_sink(root, run=run)
        ended.append(commit_until(sink, stage(sink, name, count), death))
    sink = make_sink(root, run=3)
    parts = stage(sink, "c", counts[-1])

    commit(sink, parts)

    expected = {each["final"]: b'{"c0":"c"}\n' for each in parts}
    assert shown(root) == expected, (counts, deaths)
    manifest = root / "out" / f"_committed-{EPOCH:010}"
    if manifest.exists():
        files = orjson.loads(manifest.read_bytes())["files"]
        assert [each["name"] for each in files] == sorted(expected), (counts, deaths)
    assert manifest.exists() or not expected
    return ended


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_commit_goes_on_from_where_it_died_and_may_be_called_again(
    tmp_path: Path, count: int
) -> None:
    for death in range(12):
        root = tmp_path / str(death)
        root.mkdir()
        sink = make_sink(root)
        parts = stage(sink, "a", count)
        commit_until(sink, parts, death)

        commit(sink, parts)
        first = shown(root)
        commit(sink, parts)

        assert first == shown(root) == {each["final"]: b'{"c0":"a"}\n' for each in parts}
        assert not list((root / "out").glob(".staging/*"))


def test_what_a_version_without_runs_in_its_names_left_half_done_is_taken_over(
    tmp_path: Path,
) -> None:
    staging = tmp_path / "out" / ".staging"
    staging.mkdir(parents=True)
    old = f"part-{EPOCH:010}-00000.jsonl"
    (tmp_path / "out" / old).write_text("old")
    (staging / f"{EPOCH:010}-00001-abc.jsonl").write_text("old")
    (staging / f"commit-{EPOCH:010}").write_bytes(orjson.dumps({"files": [{"name": old}]}))
    (staging / f"commit-{EPOCH:010}.new").write_bytes(b'{"half":')
    sink = make_sink(tmp_path)
    parts = stage(sink, "a", 1)

    commit(sink, parts)
    sink.discard(EPOCH)

    assert shown(tmp_path) == {parts[0]["final"]: b'{"c0":"a"}\n'}
    assert not list(staging.iterdir())


@pytest.mark.parametrize("death", range(9))
def test_a_restored_pipeline_takes_the_place_of_the_first_one(tmp_path: Path, death: int) -> None:
    """Its runs are counted anew, so those of the first one may be later ones."""
    first = make_sink(tmp_path, run=7)
    commit_until(first, stage(first, "a", 2), death)
    restored = make_sink(tmp_path, run=2, owner="77aa-2")
    parts = stage(restored, "b", 1)

    commit(restored, parts)

    assert shown(tmp_path) == {parts[0]["final"]: b'{"c0":"b"}\n'}


def test_a_part_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    parts = stage(sink, "a", 1)
    (tmp_path / "out/.staging" / parts[0]["staged"]).unlink()

    with pytest.raises(FileNotFoundError):
        commit(sink, parts)


CSV_VALUES: list[tuple[str, list[Any]]] = [
    ("BYTES", [b"", b"\x00\xff", None]),
    ("TIME(3)", [dt.time(10), dt.time(23, 59, 59, 999000), None]),
    ("DOUBLE", [math.nan, -math.inf, -0.0]),
    ("DOUBLE", [0.1, -0.0, None]),
    ("FLOAT", [math.inf, 0.5, None]),
    ("STRING", ["", 'a "b";\t', None]),
    ("TIMESTAMP_LTZ(3)", [dt.datetime(2020, 1, 31, 10, tzinfo=dt.UTC), None, None]),
    ("BOOLEAN", [True, False, None]),
]


@pytest.mark.parametrize(("text", "values"), CSV_VALUES)
@pytest.mark.parametrize("delimiter", [",", ";", "\\t"])
def test_a_csv_source_reads_what_a_csv_sink_wrote(
    tmp_path: Path, text: str, values: list[Any], delimiter: str
) -> None:
    types, logical = (text, "INT"), parse_type(text)
    options = {"format": "csv", "csv.field-delimiter": delimiter}
    sink = make_sink(tmp_path, types, **options)
    columns = [to_column(logical, values), pa.array([1, 2, 3], pa.int32())]
    commit(sink, [sink.stage(EPOCH, 0, "a", columns, np.zeros(3, np.int8))])
    physical = (("a", text), ("b", "INT"))
    source = CsvDecoder(
        SourceSpec("filesystem", "t", "p", "", ("a", "b"), types, physical, options)
    )

    (content,) = shown(tmp_path).values()
    found = source.decode(content)

    assert list(map(repr, python_values(logical, found.columns[0]))) == list(map(repr, values))
    assert found.columns[1].to_pylist() == [1, 2, 3]


def test_bytes_are_written_as_base64(tmp_path: Path) -> None:
    sink = make_sink(tmp_path, ("BYTES",), format="csv")
    column = pa.array([b"abc", None], pa.binary())
    commit(sink, [sink.stage(EPOCH, 0, "a", [column], np.zeros(2, np.int8))])

    assert list(shown(tmp_path).values()) == [b'"YWJj"\n\n']


def test_what_a_later_epoch_has_staged_stays(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    parts = stage(sink, "a", 2)

    sink.discard(EPOCH - 1)
    sink.prepare(EPOCH, parts)
    sink.commit(EPOCH, parts)

    assert len(list((tmp_path / "out").glob("part-*"))) == 2


def test_a_folder_that_may_not_be_written_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    sink = make_sink(tmp_path)

    with closed_folder(tmp_path / "out"), pytest.raises(SinkRefused) as raised:
        stage(sink, "a", 1)

    told = 'files of sink t cannot be written in "out": Permission denied (EACCES)'
    assert raised.value.message == told
    assert isinstance(raised.value.__cause__, PermissionError)


def test_a_path_below_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(SinkRefused, match='in "file/out": Not a directory'):
        stage(make_sink(tmp_path, path="file/out"), "a", 1)


def test_a_disk_that_takes_no_more_is_waited_for(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(SinkUnavailable, match='in "out": File too large'):
            sink.stage(EPOCH, 0, "a", [pa.array(["x" * 2_000])], np.zeros(1, np.int8))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_commit_that_the_disk_refuses_is_told_by_sink(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    parts = stage(sink, "a", 1)

    with (
        closed_folder(tmp_path / "out"),
        pytest.raises(SinkRefused, match="Permission denied"),
        disk.named(sink.spec),
    ):
        commit(sink, parts)

    commit(sink, parts)
    assert [each.name for each in (tmp_path / "out").glob("part-*")] == [parts[0]["final"]]
