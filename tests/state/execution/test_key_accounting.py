"""One holder a key; Flink's `KeyAccountingUnitTest`."""

from __future__ import annotations

import pytest

from state.errors import InvariantViolation
from state.execution.key_accounting import KeyAccounting, hashed
from state.execution.record_context import RecordContext


def test_a_key_has_one_holder_at_a_time() -> None:
    accounting = KeyAccounting()
    first, second = RecordContext(), RecordContext()

    assert accounting.occupy(first, b"1")
    assert not accounting.occupy(first, b"1")
    assert accounting.occupy(second, b"2")
    accounting.release(first, b"1")
    assert accounting.occupy(second, b"1")
    with pytest.raises(InvariantViolation, match="which it does not hold"):
        accounting.release(first, b"1")

    assert accounting.holders == {b"1": second, b"2": second}


def test_a_key_that_nobody_holds_cannot_be_released() -> None:
    with pytest.raises(InvariantViolation):
        KeyAccounting().release(RecordContext(), b"secret")


def test_errors_do_not_show_the_key() -> None:
    with pytest.raises(InvariantViolation) as caught:
        KeyAccounting().release(RecordContext(), b"secret")

    assert "secret" not in str(caught.value)
    assert hashed(b"secret") in str(caught.value)
    assert hashed(b"secret") != hashed(b"other")
