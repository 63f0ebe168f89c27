"""Paths stay below the files root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.dataflow_errors import PathOutsideRoot, UnsupportedConnector
from service.runtime.files import matching_files, path_below

if TYPE_CHECKING:
    from pathlib import Path


def test_relative_and_absolute_paths_below_the_root_are_taken(tmp_path: Path) -> None:
    assert path_below(str(tmp_path), "in/a.jsonl") == tmp_path / "in" / "a.jsonl"
    assert path_below(str(tmp_path), f"file://{tmp_path}/in") == tmp_path / "in"
    assert path_below(str(tmp_path), "in/../b") == tmp_path / "b"


@pytest.mark.parametrize("text", ["../x", "/etc/passwd", "a/../../x", "file:///etc/passwd"])
def test_paths_that_leave_the_root_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PathOutsideRoot):
        path_below(str(tmp_path), text)


def test_a_link_that_leaves_the_root_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("x")
    (root / "link").symlink_to(tmp_path / "secret")

    with pytest.raises(PathOutsideRoot):
        path_below(str(root), "link")
    with pytest.raises(PathOutsideRoot):
        matching_files(str(root), ".")


def test_other_schemes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedConnector, match="s3"):
        path_below(str(tmp_path), "s3://bucket/x")


def test_files_folders_and_globs_are_found_in_name_order(tmp_path: Path) -> None:
    for name in ("in/b.jsonl", "in/a.jsonl", "in/deep/c.jsonl", "in/.hidden", "in/_tmp", "d.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    root = str(tmp_path)

    assert [name for name, _ in matching_files(root, "in")] == [
        "in/a.jsonl",
        "in/b.jsonl",
        "in/deep/c.jsonl",
    ]
    assert matching_files(root, "d.csv") == [("d.csv", 5)]
    assert [name for name, _ in matching_files(root, "in/*.jsonl")] == ["in/a.jsonl", "in/b.jsonl"]
    assert matching_files(root, "nothing/here") == []
    with pytest.raises(PathOutsideRoot):
        matching_files(root, "../*")
