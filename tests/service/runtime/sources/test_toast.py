"""Values that an event leaves out: as the row before has them, left to the last row, or refused."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from operators.unavailable import PLACEHOLDER
from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sources.capture import check_capture
from service.runtime.sources.decoding import LineDecoder
from service.runtime.sources.formats import DEBEZIUM, UNAVAILABLE
from service.sql.session import compile_script
from tests.service.runtime.sources.test_kafka_records import spec

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES = {
    "STRING": ("long", PLACEHOLDER),
    "BYTES": (
        base64.b64encode(b"long").decode(),
        base64.b64encode(PLACEHOLDER.encode()).decode(),
    ),
    "ARRAY<STRING>": (["a", "b"], [PLACEHOLDER]),
    "ARRAY<BIGINT>": ([1, 2], [*PLACEHOLDER.encode()]),
    "MAP<STRING, STRING>": ({"a": "b"}, {PLACEHOLDER: PLACEHOLDER}),
}
ALL, UPSERTS = "I,UB,UA,D", "I,UA,D"


def read(
    lines: list[dict[str, Any]],
    kind: str = "STRING",
    mode: str = UPSERTS,
    options: Mapping[str, str] | None = None,
    **more: Any,
) -> tuple[list[tuple[int, Any]], list[int]]:
    """Kinds and values of the rows, and the lines that are refused."""
    columns = {"id": "INT NOT NULL", "v": kind}
    table = spec(
        names=tuple(columns),
        types=tuple(columns.values()),
        physical=tuple(columns.items()),
        primary_key=("id",),
        options={"format": DEBEZIUM, "changelog-mode": mode, **(options or {})},
        **more,
    )
    found = LineDecoder(table, DEBEZIUM).decode(b"\n".join(map(orjson.dumps, lines)))
    assert all("not in the change" in reason for _, reason in found.rejected)
    rows = list(zip(found.kinds.tolist(), found.columns[1].to_pylist(), strict=True))
    return rows, [line for line, _ in found.rejected]


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    images = (None if each is None else {"id": 1, "v": each} for each in (before, after))
    return {"op": op, **dict(zip(("before", "after"), images, strict=True))}


@pytest.mark.parametrize("kind", TYPES)
def test_the_row_before_has_the_value(kind: str) -> None:
    value, placeholder = TYPES[kind]
    (first, *_), _ = read([event("c", None, value)], kind)

    rows, refused = read([event("u", value, placeholder)], kind, ALL)

    assert rows == [(1, first[1]), (2, first[1])]
    assert refused == []


@pytest.mark.parametrize("kind", TYPES)
def test_without_the_row_before_it_is_left_to_who_keeps_the_last_row_or_refused(kind: str) -> None:
    value, placeholder = TYPES[kind]
    lines = [event("c", None, value), event("u", None, placeholder), event("c", None, value)]

    rows, refused = read(lines, kind)
    assert (len(rows), refused) == (2, [1])

    rows, refused = read(lines, kind, is_normalized=True)
    assert (len(rows), refused) == (3, [])


def test_a_row_before_that_lacks_it_too_does_not_help() -> None:
    rows, refused = read([event("u", PLACEHOLDER, PLACEHOLDER), event("d", "a", None)], mode=ALL)

    assert (rows, refused) == ([(3, "a")], [0])


@pytest.mark.parametrize("said", ["n/a", "hex:6e2f61"])
def test_another_placeholder_may_be_said(said: str) -> None:
    options = {UNAVAILABLE: said}

    rows, refused = read([event("u", None, "n/a"), event("u", None, PLACEHOLDER)], options=options)

    assert (rows, refused) == ([(2, PLACEHOLDER)], [0])
    check_capture(DEBEZIUM, options)


@pytest.mark.parametrize("said", ["", "hex:", "hex:6", "hex:zz", "hex:ff"])
def test_a_placeholder_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(InvalidTableOption, match=r"unavailable\.value\.placeholder"):
        check_capture(DEBEZIUM, {UNAVAILABLE: said})


SCRIPT = """
CREATE TABLE s (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH
  ('connector' = 'ingress', 'format' = 'debezium-json', 'changelog-mode' = 'I,UA,D'{more});
CREATE TABLE o (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
INSERT INTO o SELECT * FROM s;
"""


@pytest.mark.parametrize(
    ("more", "is_kept"), [("", False), (f", '{UNAVAILABLE}' = '{PLACEHOLDER}'", True)]
)
def test_a_table_that_says_its_placeholder_is_kept_even_for_a_copy(
    more: str, is_kept: bool
) -> None:
    (planned,) = compile_script(SCRIPT.format(more=more))

    types = [each["type"] for each in planned.document["nodes"]]

    assert ("stream-exec-changelog-normalize_1" in types) == is_kept
