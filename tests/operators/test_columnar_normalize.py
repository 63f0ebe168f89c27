"""The columnar path of ChangelogNormalize gives what change after change gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import OperatorHarness, delete, insert, update_after
from state.types import parse_type
from tests.operators.columnar_paths import NEVER, epochs, ran

TYPES = tuple(map(parse_type, ("STRING", "DOUBLE", "INT NOT NULL")))
NAMES = ("k", "v", "n")


def spec(**fields: object) -> ChangelogNormalizeSpec:
    row = InputSpec(types=TYPES, names=NAMES, key=(0,))
    output = RowSpec(types=TYPES, names=NAMES)
    return ChangelogNormalizeSpec.build(inputs=(row,), output=output, **fields)


ROWS = st.tuples(
    st.sampled_from(("a", "b", None)),
    st.sampled_from((0.0, -0.0, float("nan"), None)),
    st.sampled_from((1, 1, 2, None)),
)


@given(st.data())
def test_both_paths_emit_and_store_the_same(data: st.DataObject) -> None:
    chosen = spec(
        update_before=data.draw(st.booleans()),
        bundles=data.draw(st.booleans()),
        ttl_ms=data.draw(st.sampled_from(((), (5,)))),
    )
    kinds = data.draw(st.sampled_from(((RowKind.UPDATE_AFTER, RowKind.DELETE), tuple(RowKind))))
    steps = data.draw(epochs(st.builds(Change, st.sampled_from(kinds), ROWS)))
    assert ran(chosen, steps, 1) == ran(chosen, steps, NEVER)


def test_an_orphan_goes_the_other_way_beside_rows_that_come_and_go() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [
        insert("a", 1.0, 1),
        delete("b", None, 1),
        delete("a", None, 1),
        update_after("b", 2.0, 1),
        update_after("a", 3.0, 1),
    ]
    assert harness.run(steps) == [
        insert("a", 1.0, 1),
        delete("a", 1.0, 1),
        insert("b", 2.0, 1),
        insert("a", 3.0, 1),
    ]
    (counts,) = harness.statistics
    assert (counts["orphans"], counts["keys"]) == (1, 2)
