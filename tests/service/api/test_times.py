"""Times as the API shows them."""

from __future__ import annotations

import pytest

from service.api.times import iso


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (None, None),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        # A watermark behind rows of the calendar's first day.
        (-62_135_596_805_000, "0001-01-01T00:00:00.000Z"),
        (2**62, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_every_time_has_a_text(time_ms: int | None, text: str | None) -> None:
    assert iso(time_ms) == text
