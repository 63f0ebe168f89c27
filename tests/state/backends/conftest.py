"""The conformance suites are modules of the product: show what their assertions compared."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "state.testing.conformance",
    "state.testing.ledger_conformance",
    "state.testing.lex_conformance",
)
