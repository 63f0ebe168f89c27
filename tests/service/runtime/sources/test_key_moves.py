"""An update that moves a row to another key takes the row from the one and gives it to the other.

What is held: who knows a row by its key, and hears no -U, has the table that all changes make.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize
from service.runtime.sources.decoding import LineDecoder
from tests.service.runtime.sources.test_kafka_records import changes, decode
from tests.service.runtime.sources.test_kafka_records import spec as kafka_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.sources.spec import SourceSpec

UPSERTS = "I,UA,D"
Row = dict[str, Any]


def table(form: str, mode: str = "I,UB,UA,D", **changes: Any) -> SourceSpec:
    columns = {"id": "INT NOT NULL", "k": "STRING"}
    return kafka_spec(
        names=tuple(columns),
        types=tuple(columns.values()),
        physical=tuple(columns.items()),
        primary_key=("id",),
        options={"topic": "a", "format": form, "changelog-mode": mode},
        **changes,
    )


def of(number: int, text: str | None) -> Row:
    return {"id": number, "k": text}


def lines(form: str, before: Row | None, after: Row | None) -> list[bytes]:
    """A change of one row as a format writes it."""
    at = 0 if before is None else 2 if after is None else 1
    said: list[Row]
    changed = {n: v for n, v in (before or {}).items() if after and after[n] != v}
    data = before if after is None else after
    match form:
        case "changelog-json":
            kinds = (("", "+I"), ("-U", "+U"), ("-D", ""))[at]
            images = zip(kinds, (before, after), strict=True)
            said = [{"op": op, "data": row} for op, row in images if op]
        case "debezium-json":
            said = [{"op": "cud"[at], "before": before, "after": after}]
        case "ogg-json":
            said = [{"op_type": "IUD"[at], "before": before, "after": after}]
        case "maxwell-json":
            word = ("insert", "update", "delete")[at]
            said = [{"type": word, "data": data, **({"old": changed} if at == 1 else {})}]
        case _:
            word = ("INSERT", "UPDATE", "DELETE")[at]
            said = [{"type": word, "data": [data], "old": [changed] if at == 1 else None}]
    return [orjson.dumps(each) for each in said]


FORMATS = ("changelog-json", "debezium-json", "maxwell-json", "canal-json", "ogg-json")
TOLD = [(form, "I,UB,UA,D") for form in FORMATS] + [(form, UPSERTS) for form in FORMATS[1:]]
A, B, C = of(1, "a"), of(2, "a"), of(3, "c")


def read(spec: SourceSpec, form: str, said: Sequence[bytes]) -> list[tuple[str, int, str]]:
    found = LineDecoder(spec, form).decode(b"\n".join(said))
    assert not found.rejected
    columns = [each.to_pylist() for each in found.columns]
    return [
        (RowKind(kind).short, *row)
        for kind, *row in zip(found.kinds.tolist(), *columns, strict=True)
    ]


@pytest.mark.parametrize(("form", "mode"), TOLD)
def test_an_update_that_moves_a_row_is_a_delete_and_an_insert(form: str, mode: str) -> None:
    said = [*lines(form, None, A), *lines(form, A, B), *lines(form, B, of(2, "b"))]

    found = read(table(form, mode), form, said)

    moved = [("+I", 1, "a"), ("-D", 1, "a"), ("+I", 2, "a")]
    stays = [("-U", 2, "a"), ("+U", 2, "b")]
    assert found == moved + (stays if mode != UPSERTS else stays[1:])


def test_a_table_that_takes_no_deletes_refuses_an_update_that_moves_a_row() -> None:
    said = lines("maxwell-json", A, B)

    found = LineDecoder(table("maxwell-json", "I,UA"), "maxwell-json").decode(said[0])

    assert [number for number, _ in found.rejected] == [0]
    assert "kind -D is not in changelog-mode" in found.rejected[0][1]


def test_an_event_that_tells_the_key_alone_of_what_was_moves_the_row() -> None:
    event = {"op": "u", "before": {"id": 1}, "after": of(2, "b")}

    found = read(table("debezium-json", UPSERTS), "debezium-json", [orjson.dumps(event)])

    assert found == [("-D", 1, None), ("+I", 2, "b")]


@pytest.mark.parametrize("before", [None, {}, {"id": None}, {"id": 2}, {"k": "x"}])
def test_an_event_that_tells_no_other_key_is_an_update(before: Row | None) -> None:
    event = {"op": "u", "before": before, "after": of(2, "b")}

    found = read(table("debezium-json", UPSERTS), "debezium-json", [orjson.dumps(event)])

    assert found == [("+U", 2, "b")]


def test_an_update_of_two_lines_in_two_blocks_takes_the_row_back_first() -> None:
    decoder = LineDecoder(table("changelog-json"), "changelog-json")
    before, after = lines("changelog-json", A, of(1, "b"))

    assert decoder.decode(before).kinds.tolist() == [RowKind.DELETE]
    assert decoder.decode(after).kinds.tolist() == [RowKind.UPDATE_AFTER]


def test_a_table_whose_key_is_not_read_or_declared_stays_as_it_is() -> None:
    said = lines("changelog-json", A, B)
    undeclared = table("changelog-json")
    for spec in (
        kafka_spec(names=("k",), types=("STRING",), primary_key=("id",)),
        kafka_spec(names=undeclared.names, types=undeclared.types),
    ):
        kinds = LineDecoder(spec, "changelog-json").decode(b"\n".join(said)).kinds
        assert kinds.tolist() == [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]


def test_records_of_kafka_move_rows_too() -> None:
    said = [*lines("debezium-json", None, A), *lines("debezium-json", A, B)]

    found = changes(decode(table("debezium-json"), [[(v, "a", 0, n) for n, v in enumerate(said)]]))

    assert [found[order] for order in sorted(found)] == [(0, 1, "a"), (3, 1, "a"), (0, 2, "a")]


NUMBERS, TEXTS = st.integers(1, 4), st.sampled_from("abc")


@st.composite
def statements(draw: st.DrawFn) -> list[list[tuple[Row | None, Row | None]]]:
    """Statements over a table with a key; one may move many rows over each other's keys."""
    rows: dict[int, str] = {}
    found = []
    fresh = iter("abcdefghijklmnopqrstuvwxyz" * 9)
    for _ in range(draw(st.integers(1, 6))):
        word = draw(st.sampled_from(["insert", "delete", "update", "permute", "move"]))
        free = [n for n in range(1, 5) if n not in rows]
        if word in ("insert", "move") and not free:
            continue
        if word != "insert" and not rows:
            continue
        said: list[tuple[Row | None, Row | None]]
        if word == "insert":
            number, text = draw(st.sampled_from(free)), next(fresh)
            said, rows = [(None, of(number, text))], {**rows, number: text}
        elif word == "permute":
            # As `UPDATE t SET id = ..` with a deferred constraint: each row, one after the other.
            whence = draw(st.permutations(sorted(rows)))
            moves = dict(zip(whence, draw(st.permutations(whence)), strict=True))
            said = [(of(n, rows[n]), of(to, rows[n])) for n, to in moves.items()]
            rows = {to: rows[n] for n, to in moves.items()}
        else:
            number = draw(st.sampled_from(sorted(rows)))
            was = of(number, rows.pop(number))
            to = draw(st.sampled_from(free)) if word == "move" else number
            after = (
                None if word == "delete" else of(to, was["k"] if word == "move" else next(fresh))
            )
            said = [(was, after)]
            rows |= {} if after is None else {to: after["k"]}
        found.append(said)
    return found


@pytest.mark.parametrize(("form", "mode"), TOLD)
@given(said=statements())
def test_who_hears_no_before_has_the_table_of_all_changes(
    form: str, mode: str, said: list[list[tuple[Row | None, Row | None]]]
) -> None:
    events = [each for statement in said for each in statement]
    wanted: Counter[tuple[Any, ...]] = Counter()
    for before, after in events:
        wanted.update([tuple(after.values())] if after else [])
        wanted.subtract([tuple(before.values())] if before else [])

    found = read(table(form, mode), form, [line for each in events for line in lines(form, *each)])

    by_key: dict[int, str] = {}
    for kind, number, text in found:
        if kind in ("+I", "+U"):
            by_key[number] = text
        elif kind == "-D":
            del by_key[number]
    assert Counter(by_key.items()) == +wanted
    if mode != UPSERTS:
        whole = [Change(RowKind.from_short(kind), (n, text)) for kind, n, text in found]
        assert materialize(whole) == +wanted
        for key in by_key:
            check_well_formed([each for each in whole if each.row[0] == key])
