"""Change data capture as a source: an update is two changes of one line, one behind the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from operators.changelog import RowKind
from service.runtime.dataflow_errors import DataflowError, InvalidTableOption
from service.runtime.sources import file_formats
from service.runtime.sources.capture import canal_includes, check_capture
from service.runtime.sources.formats import CANAL_INCLUDES, SINK_FORMATS, format_of
from service.runtime.sources.kafka_options import reader_options, task_options
from service.runtime.table_options import check_options
from state.json_lines import LineDecoder
from state.line_shapes import CanalLines
from state.types import parse_type
from tests.service.runtime.sources.readers import make_reader, read_all
from tests.service.runtime.sources.test_kafka_options import TABLE
from tests.service.runtime.sources.test_kafka_records import changes, decode, spec

if TYPE_CHECKING:
    import redis

EVENTS = "debezium-json"
OGG, MAXWELL, CANAL = "ogg-json", "maxwell-json", "canal-json"
FORMATS = (EVENTS, OGG, MAXWELL, CANAL)


def row(number: int, text: str | None) -> dict[str, Any]:
    return {"id": number, "k": text}


def event(op: str, before: Any = None, after: Any = None) -> bytes:
    return orjson.dumps({"before": before, "after": after, "op": op, "source": {"lsn": 7}})


def updates(number: int, form: str = EVENTS) -> list[bytes]:
    """A row that comes, changes its text and goes, as tools of change data capture write it."""
    first, second = row(number, "a"), row(number, "b")
    if form == MAXWELL:
        old = {"k": "a"}
        changes = [("insert", first, {}), ("update", second, {"old": old}), ("delete", second, {})]
        return [orjson.dumps({"type": word, "data": data, **more}) for word, data, more in changes]
    if form == CANAL:
        changes = [("INSERT", first, {}), ("UPDATE", second, {"k": "a"}), ("DELETE", second, {})]
        return [
            orjson.dumps({"type": word, "data": [data], "old": [old], "table": "t1"})
            for word, data, old in changes
        ]
    events = [event("c", None, first), event("u", first, second), event("d", second)]
    words = zip((b"c", b"u", b"d"), (b"I", b"U", b"D"), strict=True)
    swaps = [(b'"op":"%s"' % ours, b'"op_type":"%s"' % its) for ours, its in words]
    if form == OGG:
        return [each.replace(*swap) for each, swap in zip(events, swaps, strict=True)]
    return events


def history(number: int) -> list[tuple[int, int, str]]:
    return [(0, number, "a"), (1, number, "a"), (2, number, "b"), (3, number, "b")]


@pytest.mark.parametrize("form", FORMATS)
def test_the_two_changes_of_an_update_stay_together_however_files_are_cut(
    form: str, redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats.LineFormat, "task_units", 64)
    monkeypatch.setattr(file_formats, "_BLOCK_BYTES", 200)
    (tmp_path / "in").mkdir()
    lines = [line for n in range(9) for line in [*updates(n, form), b"", b'{"op":"t"}']]
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(lines))
    reader = make_reader(redis_client, tmp_path, options={"path": "in", "format": form})

    epochs = read_all(reader, rows_max=11)

    assert len(epochs) > 1
    rows = [each for epoch in epochs for each in epoch.rows]
    assert rows == [each for n in range(9) for each in history(n)]
    assert all(len(set(each.orders)) == len(each.orders) for each in epochs)
    assert sum(len(each.dead) for each in epochs) == 9


def test_entries_of_ingress_are_cut_by_lines(redis_client: redis.Redis) -> None:
    for first in (0, 2):
        lines = [*updates(first), *updates(first + 1)]
        redis_client.xadd("tailrace:{p}:ingress:t", {"n": len(lines), "d": b"\n".join(lines)})
    reader = make_reader(redis_client, connector="ingress", options={"format": EVENTS})

    (epoch,) = read_all(reader)

    assert epoch.rows == [each for n in range(4) for each in history(n)]
    assert len(set(epoch.orders)) == len(epoch.orders)


@pytest.mark.parametrize("form", FORMATS)
def test_records_of_kafka_have_two_places_each_and_tombstones_are_passed_over(form: str) -> None:
    table = spec(options={"topic": "a;b", "format": form})
    records = [
        (value, topic, 0, (2**35 if form == CANAL else 2**46) - 4 + at)
        for at, value in enumerate([*updates(1, form), None])
        for topic in "ab"
    ]

    found = changes(decode(table, [records]))

    alone = history(1)
    assert [found[order] for order in sorted(found)] == [
        *(alone[0], alone[0]),
        *(alone[1], alone[1], alone[2], alone[2]),
        *(alone[3], alone[3]),
    ]


@pytest.mark.parametrize(("form", "first"), [(EVENTS, 2**46), (CANAL, 2**35), (CANAL, 2**52)])
def test_a_record_beyond_the_last_place_ends_the_epoch(form: str, first: int) -> None:
    table = spec(options={"topic": "a", "format": form})

    with pytest.raises(OverflowError):
        decode(table, [[(updates(1, form)[0], "a", 0, first)]])


MANY = [row(number, "a") for number in range(700)]
MANY_INSERTS = {"type": "INSERT", "data": MANY}
MANY_UPDATES = {"type": "UPDATE", "data": MANY, "old": [{"k": "b"}] * len(MANY)}


def test_all_rows_of_a_line_stay_together(redis_client: redis.Redis, tmp_path: Path) -> None:
    """In files, at ingress and in records of Kafka."""
    lines = [orjson.dumps(each) for each in (MANY_INSERTS, MANY_UPDATES, MANY_INSERTS)]
    wanted = [
        *((0, each["id"], "a") for each in MANY),
        *((kind, each["id"], text) for each in MANY for kind, text in ((1, "b"), (2, "a"))),
        *((0, each["id"], "a") for each in MANY),
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(lines))
    redis_client.xadd("tailrace:{p}:ingress:t", {"n": len(lines), "d": b"\n".join(lines)})
    readers = [
        make_reader(redis_client, tmp_path, options={"path": "in", "format": CANAL}),
        make_reader(redis_client, connector="ingress", options={"format": CANAL}),
    ]

    for reader in readers:
        (epoch,) = read_all(reader)
        in_order = [each for _, each in sorted(zip(epoch.orders, epoch.rows, strict=True))]
        assert in_order == epoch.rows == wanted
        assert len(set(epoch.orders)) == len(epoch.orders)
    table = spec(options={"topic": "a", "format": CANAL})
    found = changes(decode(table, [[(line, "a", 0, at) for at, line in enumerate(lines)]]))
    assert [found[order] for order in sorted(found)] == wanted


def test_a_line_of_a_kind_that_may_not_be_is_one_dead_letter(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    lines = [orjson.dumps(each) for each in (MANY_UPDATES, MANY_INSERTS, MANY_UPDATES)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    options = {"path": "a.jsonl", "format": CANAL, "changelog-mode": "I"}

    (epoch,) = read_all(make_reader(redis_client, tmp_path, options=options))

    assert epoch.rows == [(0, each["id"], "a") for each in MANY]
    assert len(epoch.dead) == 2
    assert all("kind +U is not in changelog-mode" in each for each in epoch.dead)


@pytest.mark.parametrize("prefix", ["", "value."])
def test_tables_and_databases_of_canal_may_be_chosen(prefix: str) -> None:
    given = {name: text for name, text in TABLE.items() if name != "format"}
    given |= {f"{prefix}format": CANAL, f"{prefix}canal-json.table.include": "t[12]"}
    values = [*updates(1, CANAL)[:1], updates(2, CANAL)[0].replace(b'"t1"', b'"t12"')]

    reader_options(given, 1)
    rows = decode(
        spec(options=task_options(given)), [[(v, "orders", 0, n) for n, v in enumerate(values)]]
    )

    assert list(changes(rows).values()) == [(0, 1, "a")]


@pytest.mark.parametrize("pattern", ["(", "\\p{IsLatin}"])
def test_a_choice_that_python_may_read_otherwise_is_refused(pattern: str) -> None:
    for name in CANAL_INCLUDES:
        with pytest.raises(InvalidTableOption, match=name):
            check_capture(CANAL, {name: pattern})
        with pytest.raises(InvalidTableOption, match=name):
            reader_options({**TABLE, "format": CANAL, name: pattern}, 1)


RECORDED = [
    orjson.loads(line)
    for line in (Path(__file__).parent / "recorded/canal.jsonl").read_bytes().splitlines()
]
OLD_ANYWHERE = "Flink takes a column for changed if its name stands anywhere below old"


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_lines_of_canal_are_read_as_flink_reads_them(case: dict[str, Any]) -> None:
    """Flink 2.3's results of the same lines; where it fails, the line is refused."""
    types = [parse_type(each) for each in ("INT", "STRING", "DECIMAL(5, 2)")]
    decoder = LineDecoder(
        types, ["id", "v", "w"], CanalLines(included=canal_includes(case["options"]))
    )

    found = decoder.decode("\n".join(case["lines"]).encode())

    columns = [each.to_pylist() for each in found.columns]
    shown = [
        [RowKind(kind).name, *(None if each is None else str(each) for each in values)]
        for kind, *values in zip(found.kinds.tolist(), *columns, strict=True)
    ]
    if case["rows"] is None:
        assert (shown, len(found.rejected)) == ([], 1)
    else:
        assert (shown == case["rows"]) == (case.get("differs") != OLD_ANYWHERE)
        assert found.rejected == []


@pytest.mark.parametrize("prefix", ["", "value."])
def test_events_may_have_their_schemas_beside_them(prefix: str) -> None:
    given = {name: text for name, text in TABLE.items() if name != "format"}
    given |= {f"{prefix}format": EVENTS, f"{prefix}debezium-json.schema-include": "true"}
    value = b'{"schema":{},"payload":' + updates(1)[0] + b"}"

    reader_options(given, 1)
    rows = decode(spec(options=task_options(given)), [[(value, "orders", 0, 0)]])

    assert changes(rows) == {0: (0, 1, "a")}


@pytest.mark.parametrize(
    "name", ["debezium-json.schema-include", "value.debezium-json.schema-include"]
)
def test_an_option_of_the_format_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidTableOption, match="schema-include"):
        reader_options({**TABLE, "format": EVENTS, name: "yes"}, 1)


@pytest.mark.parametrize("connector", ["filesystem", "ingress"])
def test_options_of_the_format_are_honoured_or_refused(connector: str) -> None:
    table = {"connector": connector, "format": EVENTS}

    check_options({**table, "debezium-json.schema-include": "true"}, [], "", allow_testing=False)
    for refused in ("debezium-json.ignore-parse-errors", "debezium-json.schema-includes"):
        with pytest.raises(InvalidTableOption, match=refused):
            check_options({**table, refused: "true"}, [], "", allow_testing=False)
    for form in (OGG, MAXWELL):
        of_format = {"connector": connector, "format": form}
        check_options(
            {**of_format, f"{form}.ignore-parse-errors": "false"}, [], "", allow_testing=False
        )
        with pytest.raises(InvalidTableOption, match="schema-include"):
            check_options(
                {**of_format, f"{form}.schema-include": "true"}, [], "", allow_testing=False
            )


@pytest.mark.parametrize("form", FORMATS)
def test_sinks_do_not_write_events(form: str) -> None:
    with pytest.raises(DataflowError, match=form):
        format_of({"format": form}, SINK_FORMATS)


def test_of_upserts_no_row_before_is_asked_for(redis_client: redis.Redis, tmp_path: Path) -> None:
    # What PostgreSQL sends of a table whose replica identity is its primary key.
    lines = [
        event("c", None, row(1, "a")),
        event("u", None, row(1, "b")),
        event("d", row(1, None)),
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    options = {"path": "a.jsonl", "format": EVENTS}
    every = make_reader(redis_client, tmp_path, options=options)
    upserts = make_reader(redis_client, tmp_path, options={**options, "changelog-mode": "I,UA,D"})

    (epoch,) = read_all(every)
    assert [each[0] for each in epoch.rows] == [0, 3]
    assert "REPLICA IDENTITY FULL" in epoch.dead[0]
    (epoch,) = read_all(upserts)
    assert epoch.rows == [(0, 1, "a"), (2, 1, "b"), (3, 1, None)]
    assert epoch.dead == []


def test_kinds_that_the_table_may_not_carry_are_dead_letters(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(updates(1)))
    options = {"path": "a.jsonl", "format": EVENTS, "changelog-mode": "I"}

    (epoch,) = read_all(make_reader(redis_client, tmp_path, options=options))

    assert epoch.rows == history(1)[:1]
    assert len(epoch.dead) == 2
