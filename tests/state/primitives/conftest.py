"""Where the primitives are tested: every test that takes `stand` runs on both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state.multiset import index, spread_writing
from state.testing.stand import heap_stand, redis_stand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.testing.stand import Stand


@pytest.fixture(scope="module")
def small_buckets() -> Iterator[None]:
    """Few lines for each bucket of an index, so that short histories split them, or replace all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "BUCKET_ENTRIES", 4)
        patch.setattr(index, "LONG_ENTRIES", 12)
        patch.setattr(index, "LONG_BUCKET_ENTRIES", 2)
        patch.setattr(spread_writing, "REPLACED_LINES_MIN", 4)
        yield


@pytest.fixture(params=["heap", "redis"])
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    """An empty pipeline."""
    if request.param == "heap":
        yield heap_stand()
        return
    with redis_stand(request.getfixturevalue("redis_client")) as stand:
        yield stand
