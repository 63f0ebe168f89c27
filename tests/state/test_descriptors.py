"""Descriptors: names, fingerprints, and the codec for plain JSON."""

from __future__ import annotations

import pytest

from state.descriptors import JSON, MapDescriptor, TimersDescriptor, ValueDescriptor
from state.errors import InvalidName, StateCorrupt
from state.ttl import TtlConfig


@pytest.mark.parametrize(
    "name", ["", "1st", "a b", "a:b", "\N{LATIN SMALL LETTER E WITH ACUTE}tat"]
)
def test_a_name_is_an_ascii_identifier(name: str) -> None:
    with pytest.raises(InvalidName):
        ValueDescriptor(name=name, codec=JSON)


@pytest.mark.parametrize("name", ["meta", "pending", "orphans", "journal"])
def test_names_of_the_protocol_are_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="belongs to the protocol"):
        TimersDescriptor(name=name)


def test_a_fingerprint_is_kind_and_codecs_and_nothing_that_may_change() -> None:
    one = MapDescriptor(name="m", key_codec=JSON, codec=JSON)
    other = MapDescriptor(name="m", key_codec=JSON, codec=JSON, ttl=TtlConfig(5), enabled_ms=7)

    assert one.fingerprint() == {"kind": "map", "codecs": ["json", "json"]} == other.fingerprint()


def test_equal_json_has_equal_bytes() -> None:
    assert JSON.encode({"b": 1, "a": None}) == JSON.encode({"a": None, "b": 1})


def test_bytes_that_are_no_json_are_refused() -> None:
    with pytest.raises(StateCorrupt):
        JSON.decode(b"[1")
