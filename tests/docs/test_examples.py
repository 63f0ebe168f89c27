"""What README and the documents show is so: commands exist, links lead somewhere, examples run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from service.api.addresses import Addresses
from service.runtime.connectors import SOURCES
from service.runtime.sinks.tables import CONNECTORS as SINKS
from service.runtime.specs.lookup_join import LOOKED_UP
from service.settings import Settings
from service.sql import option_names
from service.telemetry import Telemetry
from tests.service.app_client import openapi_document
from tests.service.test_settings import fields_of_all

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
)
PACKAGES = ("state", "operators", "service")
FOLDERS = "tests|service|operators|state|docs|benchmarks|examples|deploy|scripts"
FORMER_SETTINGS = {"TAILRACE_FILES__HTTP_PLAN_URIS_ENABLED"}
"""What the changelog says is gone."""
EPOCHS_TABLE = "tailrace_epochs"
"""The fence in databases, which is no metric."""
ADDRESSES = Addresses.of(openapi_document())


def _modules() -> list[str]:
    found = []
    for package in PACKAGES:
        paths = [str(ROOT / package)]
        found += [module.name for module in pkgutil.walk_packages(paths, f"{package}.")]
    return [name for name in found if not name.endswith("__main__")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text())
    for link in links:
        if "://" not in link and not link.startswith("/"):
            assert (document.parent / link).exists(), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_sections_lead_to_headings(document: Path) -> None:
    for link, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
        target = document.parent / link if link else document
        assert section in _anchors(target.read_text()), f"{link}#{section}"


def _anchors(text: str) -> set[str]:
    """What the headings of a page are called in links, as GitHub has it."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_that_are_named_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(document: Path) -> None:
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", document.read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_settings_that_are_named_exist(document: Path) -> None:
    known = {variable for variable, _, _ in fields_of_all()}
    text = document.read_text()
    named = set(re.findall(r"\bTAILRACE_[A-Z]+__[A-Z0-9_]+", text))
    named |= {
        f"TAILRACE_{group}__{field}".upper()
        for group, field in re.findall(
            rf"`({'|'.join(Settings.model_fields)})\.([a-z0-9_]+)`", text
        )
    }
    of_flink = {each.upper().replace(".", "__") for each in option_names._NO_MATTER}
    assert named <= known | FORMER_SETTINGS | {f"TAILRACE_{each}" for each in of_flink}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_requests_that_are_named_are_in_the_api(document: Path) -> None:
    for method, path in re.findall(
        r"\b(GET|POST|PATCH|PUT|DELETE) (/[\w{}./-]+)", document.read_text()
    ):
        assert method in ADDRESSES.methods(path), f"{method} {path}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_metrics_that_are_named_exist(document: Path) -> None:
    known = {family.name for family in Telemetry().registry.collect()}
    for name in re.findall(r"`(tailrace_[a-z_]+)`", document.read_text()):
        assert name.removesuffix("_total") in known | {EPOCHS_TABLE}, name


def test_every_invariant_names_a_test() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## What always holds")[1]
    rows = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        held_by = row.rsplit("|", 2)[1]
        assert "`tests/" in held_by, row


def test_every_connector_is_listed_as_what_it_can_be() -> None:
    table = (ROOT / "docs" / "connectors.md").read_text().split("\n\n")[1]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE)
    shown = {
        (name, role)
        for names, roles in rows
        for name in re.findall(r"`([a-z-]+)`", names)
        for role in roles.split(", ")
    }
    assert shown == (
        {(name, "source") for name in SOURCES}
        | {(name, "sink") for name in SINKS}
        | {(name, "look-up") for name in LOOKED_UP}
    )


def test_every_benchmark_is_in_the_list_and_no_other() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text()
    listed = set(re.findall(r"^\| `(bench_\w+)`", text, re.MULTILINE))
    assert listed == {path.stem for path in (ROOT / "benchmarks").glob("bench_*.py")}


def test_every_module_can_be_imported() -> None:
    for name in _modules():
        importlib.import_module(name)


def _with_examples() -> list[str]:
    """Those that show an example: to look through all objects of the others takes long."""
    found = []
    for name in _modules():
        path = ROOT.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if ">>> " in path.read_text():
            found.append(name)
    return found


@pytest.mark.parametrize("name", _with_examples())
def test_examples_in_docstrings_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))

    assert results.failed == 0
