"""All kinds of operators: from the JSON that workers get to what runs an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from operators.compacting_materializer import CompactingSpec
from operators.errors import InvalidSpec
from operators.over.over_aggregate import OverSpec
from operators.process_function import ProcessFunctionSpec
from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.window_aggregate import SlicedAggregateSpec
from operators.windows.window_join import WindowJoinSpec
from operators.windows.window_rank import WindowRankSpec
from operators.windows.window_table_function import WindowTableSpec

if TYPE_CHECKING:
    from operators.spec import OperatorSpec

SPECS: Final[dict[str, type[OperatorSpec]]] = {
    cls.model_fields["kind"].default: cls
    for cls in (
        CompactingSpec,
        OverSpec,
        ProcessFunctionSpec,
        SessionAggregateSpec,
        SlicedAggregateSpec,
        WindowJoinSpec,
        WindowRankSpec,
        WindowTableSpec,
    )
}
"""By `kind`."""


def spec_from_json(text: str) -> OperatorSpec:
    """The spec that `OperatorSpec.to_json` wrote, of whatever kind.

    Raises:
        InvalidSpec: There is no such kind, or its fields do not fit each other.
    """
    kind = orjson.loads(text).get("kind")
    if kind not in SPECS:
        raise InvalidSpec(f"there is no operator of kind {kind!r}")
    return SPECS[kind].from_json(text)
