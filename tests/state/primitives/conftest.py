"""Where the primitives are tested: every test that takes `stand` runs on both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state.testing.stand import heap_stand, redis_stand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.testing.stand import Stand


@pytest.fixture(params=["heap", "redis"])
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    """An empty pipeline."""
    if request.param == "heap":
        yield heap_stand()
        return
    with redis_stand(request.getfixturevalue("redis_client")) as stand:
        yield stand
