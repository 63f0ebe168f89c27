"""Texts that Flink casts to a TIME that no day has; the rest of casts of TIME is recorded."""

from __future__ import annotations

import pytest

from operators.expressions import EvaluationFailed, compile_rex
from service.plan.rex import parse_rex

BEYOND = ["23:59:59.9995", "22:00:00+03:00", "01:00:00-02:00", "12:00:00+99:00", "00:30-1"]


def rex(name: str) -> object:
    operand = {"kind": "INPUT_REF", "inputIndex": 0, "type": "VARCHAR(2147483647)"}
    call = {"kind": "CALL", "syntax": "SPECIAL", "internalName": f"${name}$1"}
    return {**call, "operands": [operand], "type": "TIME(3)"}


@pytest.mark.parametrize("text", BEYOND)
def test_a_time_beyond_the_day_is_none(text: str) -> None:
    assert compile_rex(parse_rex(rex("TRY_CAST"), ""))([text]) is None
    with pytest.raises(EvaluationFailed, match=r"a text is no TIME\(3\)"):
        compile_rex(parse_rex(rex("CAST"), ""))([text])
