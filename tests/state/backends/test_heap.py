"""The heap backend keeps the contract."""

from __future__ import annotations

import pytest

from state.testing.conformance import StateBackendConformance
from state.testing.ledger_conformance import LedgerConformance
from state.testing.stand import Stand, heap_stand


class TestHeapBackend(StateBackendConformance, LedgerConformance):
    @pytest.fixture
    def stand(self) -> Stand:
        return heap_stand()
