"""All kinds of operators: from the JSON that workers get to what runs an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.deduplicate.spec import DeduplicateSpec
from operators.errors import InvalidSpec
from operators.rank.spec import RankSpec
from operators.temporal_sort import TemporalSortSpec

if TYPE_CHECKING:
    from operators.spec import OperatorSpec

SPECS: Final[dict[str, type[OperatorSpec]]] = {
    cls.model_fields["kind"].default: cls
    for cls in (
        ChangelogNormalizeSpec,
        DeduplicateSpec,
        RankSpec,
        TemporalSortSpec,
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
