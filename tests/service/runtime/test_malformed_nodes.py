"""No plan makes anything but a pipeline or a refusal that says which node, of which type, where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.admission import Finding, findings
from service.runtime.records import PipelineOptions
from tests.service.mutations import kinds, mutated, mutations, settings_of, shapes

if TYPE_CHECKING:
    from pathlib import Path

VALUES_EACH = 4


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
