"""All kinds of operators: from the JSON that workers get to what runs an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from operators.errors import InvalidSpec
from operators.join.interval import IntervalJoinSpec
from operators.join.lookup import LookupJoinSpec
from operators.join.multi import MultiJoinSpec
from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from operators.join.temporal import TemporalJoinSpec

if TYPE_CHECKING:
    from operators.spec import OperatorSpec

SPECS: Final[dict[str, type[OperatorSpec]]] = {
    cls.model_fields["kind"].default: cls
    for cls in (
        StreamingJoinSpec,
        SemiAntiJoinSpec,
        MultiJoinSpec,
        TemporalJoinSpec,
        IntervalJoinSpec,
        LookupJoinSpec,
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
