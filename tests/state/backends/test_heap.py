"""The heap backend keeps the contract."""

from __future__ import annotations

import pytest

from state.backends.heap import HeapBackend, HeapLedger
from state.testing.conformance import StateBackendConformance
from state.testing.ledger_conformance import LedgerConformance
from state.testing.stand import Stand


class TestHeapBackend(StateBackendConformance, LedgerConformance):
    @pytest.fixture
    def stand(self) -> Stand:
        backend = HeapBackend(pipeline="orders")
        ledger = HeapLedger(backend.store, pipeline="orders")
        return Stand("orders", backend, ledger, backend.view, backend.store.slot.read)
