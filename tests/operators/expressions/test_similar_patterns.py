"""Patterns of SIMILAR TO: random ones match what real Flink matches, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from operators.expressions import UnsupportedExpression, compile_rex
from service.plan.rex import parse_rex

RECORDED = Path(__file__).parents[2] / "oracles" / "expressions" / "similar-patterns.jsonl"
REFUSED_MAX = 39
"""How many of the patterns that Flink takes may be refused; more is a step back."""


def recorded() -> tuple[list[str], list[dict[str, Any]]]:
    first, *cases = [orjson.loads(line) for line in RECORDED.read_bytes().splitlines()]
    return first["texts"], cases


TEXTS, CASES = recorded()


def matches(case: dict[str, Any]) -> list[int]:
    """The numbers of the texts that the pattern matches."""
    literals = [case["pattern"], *([case["escape"]] if "escape" in case else [])]
    operands = [{"kind": "INPUT_REF", "inputIndex": 0, "type": "STRING"}]
    operands += [{"kind": "LITERAL", "value": each, "type": "STRING NOT NULL"} for each in literals]
    rex = {
        "kind": "CALL",
        "internalName": "$SIMILAR TO$1",
        "operands": operands,
        "type": "BOOLEAN",
    }
    run = compile_rex(parse_rex(rex, ""))
    return [number for number, text in enumerate(TEXTS) if run([text])]


def test_patterns_match_what_flink_matches_or_are_refused() -> None:
    refused = 0
    for case in CASES:
        try:
            found = matches(case)
        except UnsupportedExpression:
            refused += "fails" not in case
            continue
        assert found == case.get("matches"), case

    assert refused <= REFUSED_MAX


def test_what_is_no_pattern_in_flink_is_refused_before_a_row_is_read() -> None:
    for case in CASES:
        if "fails" in case:
            with pytest.raises(UnsupportedExpression):
                matches(case)
