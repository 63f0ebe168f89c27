"""Each option that is accepted is in docs/options.md; each that is there is accepted, and read."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from service.runtime import table_options
from service.runtime.records import PipelineOptions
from service.runtime.sinks.kafka import options as kafka_sinks
from service.runtime.sources import kafka_options
from service.runtime.specs import lookup_join
from service.runtime.table_options import TESTING
from service.sql import option_names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "options.md").read_text("utf-8")
NO_EFFECT = "no effect"
REGISTRIES = ("service/runtime/table_options.py", "service/sql/option_names.py")
"""What only lists options: they must be read elsewhere."""
EVERYWHERE = {"connector", "property-version"}


def section(title: str) -> list[tuple[list[str], list[str]]]:
    """The rows of a section's tables: names of options, and the other cells."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = []
    for line in text.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("| `"):
            found.append((re.findall(r"`([^`]+)`", cells[0]), cells[1:]))
    assert found
    return found


def listed(title: str) -> dict[str, list[str]]:
    """Each option with the other cells of its row; none stands there twice."""
    rows = [(name, cells) for names, cells in section(title) for name in names]
    assert len(rows) == len({name for name, _ in rows})
    return dict(rows)


def of_tables() -> dict[str, set[str]]:
    """By connector or format: the options that a table of it may have."""
    found: dict[str, set[str]] = {}
    for name, known in table_options._CONNECTORS.items():
        found[name] = {*known} - TESTING
    for name, known in table_options._FORMATS.items():
        found[name] = {*known}
    found["datagen"] |= {f"fields.<column>.{rule}" for rule in table_options._DATAGEN_RULES}
    formats = {name for form in table_options._FORMATS for name in found[form]}
    written = {*kafka_sinks._KNOWN, *kafka_sinks._OF_KAFKA}
    upsert = {*kafka_sinks._KNOWN, *kafka_sinks._OF_UPSERT}
    for name, known in (("kafka", {*kafka_options._KNOWN, *written}), ("upsert-kafka", upsert)):
        found[name] = {re.sub(r"^(?:key|value)\.(?=json\.)", "", each) for each in known}
        found[name] = {*found[name], "properties.<name>"} - formats - EVERYWHERE
    for connector, required in lookup_join.LOOKED_UP.items():
        found[connector] |= {*lookup_join._KNOWN, *required} - EVERYWHERE
    return found


def test_each_option_of_a_table_is_listed_with_what_has_it() -> None:
    page = listed("Tables")
    wanted: dict[str, set[str]] = {}
    for owner, names in of_tables().items():
        for name in names:
            wanted.setdefault(name, set()).add(owner)

    told = {name: set(cells[0].split(", ")) for name, cells in page.items()}
    for name, owners in told.items():
        if owners == {"the format"}:
            told[name] = {name.partition(".")[0]}

    assert told == wanted
    assert all(f"`{each}`" in PAGE for each in EVERYWHERE)


def test_each_option_of_a_session_is_listed() -> None:
    names = {re.sub(r"<name>$", "", name) for name in listed("Sessions")}

    every = {*option_names.HONOURED, *option_names._AS_IT_IS, *option_names._NO_MATTER}
    assert names == every
    for name in names:
        option_names.check_option(name, option_names._AS_IT_IS.get(name, "1"))


def test_each_option_of_a_pipeline_is_listed() -> None:
    assert {*listed("Pipelines")} == {each.name for each in fields(PipelineOptions)}


@cache
def sources() -> list[str]:
    """The code that may read an option."""
    paths = [path for each in ("service", "operators") for path in (ROOT / each).rglob("*.py")]
    kept = [path for path in paths if str(path.relative_to(ROOT)) not in REGISTRIES]
    return [path.read_text("utf-8") for path in kept]


def is_read(name: str) -> bool:
    """Whether code that does not only list options has this one in a text."""
    last = re.escape(re.sub(r"[.]?<\w+>$", "", name).rpartition(".")[2])
    pattern = re.compile(rf"""["'.}}]{last}[."'{{]|\b{last}\b: """)
    return any(pattern.search(text) for text in sources())


@pytest.mark.parametrize("title", ["Tables", "Sessions", "Pipelines"])
def test_what_an_option_is_said_to_do_somebody_does(title: str) -> None:
    unread = [
        name
        for name, cells in listed(title).items()
        if not cells[-1].startswith(NO_EFFECT) and not is_read(name)
    ]

    assert unread == []


def test_an_option_that_nobody_reads_would_be_found() -> None:
    assert not is_read("table.exec.nobody-reads-this")
    assert is_read("table.local-time-zone")
