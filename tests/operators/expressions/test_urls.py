"""PARSE_URL as Flink 2.3 computed it, and addresses as Java's `URL`, which it asks, takes apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from operators.expressions.urls import part_of
from tests.operators.expressions.test_compile import call, ref, value

FILE = Path(__file__).parents[2] / "oracles" / "expressions" / "urls.jsonl"
RECORDED = [orjson.loads(line) for line in FILE.read_bytes().splitlines()]
ASKED = [each for each in RECORDED if "operands" in each]
TAKEN_APART = [each for each in RECORDED if "url" in each]
PARTS = ("PROTOCOL", "AUTHORITY", "USERINFO", "HOST", "PATH", "QUERY", "FILE", "REF")


@pytest.mark.parametrize("case", ASKED, ids=[str(each["operands"]) for each in ASKED])
def test_a_call_has_flinks_value(case: dict[str, Any]) -> None:
    operands = [ref(at, "STRING") for at in range(len(case["operands"]))]

    assert value(call("PARSE_URL", "STRING", *operands), *case["operands"]) == case["value"]


@pytest.mark.parametrize("case", TAKEN_APART, ids=[each["url"] for each in TAKEN_APART])
def test_an_address_has_javas_parts(case: dict[str, Any]) -> None:
    found = {part: part_of(case["url"], part) for part in PARTS}

    assert found == (case["parts"] or dict.fromkeys(PARTS))


@pytest.mark.parametrize(("port", "host"), [("0" * 5000 + "80", "h"), ("9" * 5000, None)])
def test_a_port_may_have_any_number_of_digits(port: str, host: str | None) -> None:
    assert part_of(f"http://h:{port}/", "HOST") == host
