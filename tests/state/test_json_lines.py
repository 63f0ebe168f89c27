"""Blocks of JSON lines: the fast way and the exact way agree on every block."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.arrow_values import python_values, to_column
from state.codec import RowCodec
from state.json_lines import Decoded, LineDecoder
from state.line_shapes import (
    CHANGES,
    PLAIN,
    DebeziumLines,
    LineShape,
    MaxwellLines,
    OggLines,
)
from state.types import LogicalType, parse_type
from tests.state.codec_strategies import present, types, values

FAST = [
    *("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "INT NOT NULL"),
    *("DATE", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "DECIMAL(5, 2)", "DECIMAL(38, 0)"),
    *("DECIMAL(3, 3)", "STRING NOT NULL"),
]
FAST_TYPES = st.sampled_from([parse_type(each) for each in FAST])
# Texts that one of two parsers might read in its own way.
ODD = [
    *r"""
""|"x"|"\u0000"|"\ud800"|"\udc00\ud800"|"\ud83d\ude00"|"NaN"|"Infinity"|NaN|-Infinity|Infinity|-0
-0.0|0.0|0|1.|.5|01|+1|1e3|1E3|1e400|-1e-400|1e+38|3.5e38|99999999999999999999|0.1|1.005|127|128
-128|2147483648|9223372036854775807|9223372036854775808|"7"|" 7 "|true|True|"true"|null|[]|{}
{"a":1}|[1,2]|1_0|0x10|nul|"2020-02-30"|"2020-02-28"|"2020-02-28 24:00:00"|"2020-02-28 23:59:60"
"2020-02-28T23:59:59.9999999"|"2020-02-28T10:00:00.5Z"|"0000-01-01"|"9999-12-31 23:59:59.999999"
"1.5"|"1.555"|"-0.00"|"1e2"|"999.99"|"1000"|".5"|"5."|"0.123"|"2020-02-28 10:00"|"é"|"२"
"2020-02-28 10:00:00"|"2020-02-28t10:00:00"|"2020-02-28 10:00:00+01:00"|"2020-02-28 10:00:00.1239Z"
""".strip()
    .replace("\n", "|")
    .split("|"),
    *('"\t"', '"\x7f"', '"\x00"', "9" * 400, f'"{"9" * 60}"', "1" * 39, "[" * 50 + "]" * 50, ""),
]


SHAPES: dict[str, LineShape] = {
    "plain": PLAIN,
    "changes": CHANGES,
    "events": DebeziumLines(),
    "events for upserts": DebeziumLines(with_before=False),
    "events for upserts of a key": DebeziumLines(with_before=False, key=("a",)),
    "events in payloads": DebeziumLines(in_payload=True),
    "ogg": OggLines(),
    "maxwell": MaxwellLines(),
    "maxwell for upserts": MaxwellLines(with_before=False),
    "maxwell for upserts of a key": MaxwellLines(with_before=False, key=("a",)),
}
MAXWELLS = ['"insert"', '"update"', '"update"', '"delete"']


@st.composite
def lines(draw: st.DrawFn, logical: LogicalType, shape: str) -> bytes:
    """A line that is mostly a change of one column, in every way that it may be wrong."""
    good = present(logical).map(
        lambda value: orjson.dumps(RowCodec([logical], ["a"]).to_json([value])["a"]).decode()
    )
    texts = st.one_of(good, good, st.sampled_from(ODD))
    fields = [f'"a":{draw(texts)}'] if draw(st.integers(0, 9)) else []
    if not draw(st.integers(0, 5)):
        name = draw(st.sampled_from(["a", "b", "A", "\\u0061", ""]))
        fields.insert(draw(st.integers(0, len(fields))), f'"{name}":{draw(st.sampled_from(ODD))}')
    line = "{" + ",".join(fields) + "}"
    if shape.startswith("events"):
        op = draw(st.sampled_from(['"c"', '"r"', '"u"', '"d"'] * 3 + ['"t"', "1", "null"]))
        before, after = (draw(st.sampled_from([line, line, '{"a":null}', "null"])) for _ in "ba")
        line = f'{{"before":{before},"after":{after},"source":{{"lsn":1}},"op":{op}}}'
        if shape.endswith("payloads"):
            line = f'{{"schema":{{}},"payload":{line if draw(st.integers(0, 9)) else "null"}}}'
    if shape == "ogg":
        op = draw(st.sampled_from(['"I"', '"U"', '"D"'] * 3 + ['"T"', "1", "null"]))
        before, after = (draw(st.sampled_from([line, line, '{"a":null}', "null"])) for _ in "ba")
        line = f'{{"op_type":{op},"before":{before},"after":{after}}}'
    if shape.startswith("maxwell"):
        word = draw(st.sampled_from(MAXWELLS * 3 + ['"bootstrap-insert"', "1", "null"]))
        olds = [
            "{}",
            "{}",
            line,
            f'{{"a":{draw(texts)}}}',
            '{"a":null}',
            '{"\\u0061":null}',
            '{"b":{"a":1}}',
            "null",
            "[]",
        ]
        name = draw(st.sampled_from(["old"] * 8 + ["Old", "\\u006fld"]))
        old = f'"{name}":{draw(st.sampled_from(olds))}'
        members = [f'"type":{word}', f'"data":{line}', *([old] if draw(st.integers(0, 9)) else [])]
        line = "{" + ",".join(draw(st.permutations(members))) + "}"
    if shape == "changes":
        op = draw(st.sampled_from(['"+I"', '"-U"', '"+U"', '"-D"'] * 4 + ['"I"', "1", "null"]))
        line = f'{{"op":{op},"data":{line if draw(st.integers(0, 9)) else "null"}}}'
    if not draw(st.integers(0, 9)):
        line = draw(
            st.sampled_from(
                ["", " ", "\r", "\x0c", "[]", "{", "}", "7", line + line, line + "x", f" {line}\r"]
            )
        )
    return line.encode("utf-8", "surrogatepass") + (b"" if draw(st.integers(0, 30)) else b"\xff")


@st.composite
def blocks(draw: st.DrawFn) -> tuple[LogicalType, str, list[bytes]]:
    logical, shape = draw(FAST_TYPES), draw(st.sampled_from(list(SHAPES)))
    return logical, shape, draw(st.lists(lines(logical, shape), max_size=4))


def shown(decoded: Decoded, logical: LogicalType) -> Any:
    columns = [(each.type, python_values(logical, each)) for each in decoded.columns]
    return repr((decoded.kinds.tolist(), columns, decoded.row_index.tolist(), decoded.rejected))


INT = parse_type("INT")


@given(blocks())
@example((INT, "plain", [b'{"a":1} {"a":', b"2}"]))
@example((INT, "plain", [b'{"a":1}{"a":2}', b'{"a":', b"3}"]))
@example((INT, "plain", [b'{"a":1,"a":2}']))
@example((INT, "plain", [b'{"a":1,"z":NaN}']))
@example((INT, "plain", [b'{"a":1,"z":"\xff"}']))
@example((INT, "plain", [b'{"a":1,"z":1e400}']))
@example((INT, "plain", [b'{"a":1,"z":' + b"[" * 1024 + b"]" * 1024 + b"}"]))
@example((INT, "plain", [b'{"a":1,"z":' + b"[" * 900 + b"]" * 900 + b"}"]))
@example((INT, "changes", [b'{"op":"+I","op":"-D","data":{"a":1}}']))
@example((INT, "changes", [b'{"op":"+I","data":{"a":1},"data":{"a":2}}']))
@example((INT, "maxwell", [b'{"type":"update","data":{"a":1},"old":{"a":null}}']))
@example((INT, "maxwell", [b'{"type":"update","\\u006fld":{"a":null},"data":{"a":1}}']))
@example((parse_type("DOUBLE"), "plain", [b'{"a":-0}', b'{"a":-0.0}']))
@example((parse_type("DOUBLE"), "ogg", [b'{"op_type":"I","before":{"a":NaN},"after":{"a":1}}']))
@example((parse_type("FLOAT"), "maxwell", [b'{"type":"delete","data":{"a":1},"old":{"a":1e400}}']))
@settings(deadline=None)
def test_the_fast_way_agrees_with_the_exact_way(
    block: tuple[LogicalType, str, list[bytes]],
) -> None:
    logical, shape, found = block
    decoder = LineDecoder([logical], ["a"], SHAPES[shape])
    stripped = [(at, line.strip(b" \t\r\n")) for at, line in enumerate(found)]

    fast = decoder.decode(found)
    exact = decoder.decode_exactly([(at, line) for at, line in stripped if line])

    assert shown(fast, logical) == shown(exact, logical)
    assert shown(decoder.decode(b"\n".join(found)), logical) == shown(exact, logical)


@pytest.mark.parametrize("text", FAST)
def test_good_lines_take_the_fast_way(text: str) -> None:
    logical = parse_type(text)
    decoder = LineDecoder([logical], ["a"], CHANGES)
    value = {
        "BOOLEAN": True,
        "STRING": "x",
        "DATE": "2020-01-31",
        "TIMESTAMP(3)": "2020-01-31 10:00:00.25",
        "TIMESTAMP_LTZ(6)": "2020-01-31T10:00:00Z",
    }.get(text.removesuffix(" NOT NULL"), "0.5" if "DECIMAL(5" in text else 1)
    value = {"DECIMAL(38, 0)": "1", "DECIMAL(3, 3)": "0.5"}.get(text, value)

    assert decoder._fast is not None
    assert decoder._fast.read(orjson.dumps({"op": "+U", "data": {"a": value}}), None) is not None


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> bytes:
    images = {"before": before, "after": after}
    return orjson.dumps({**images, "op": op, "source": {"lsn": [7]}, **more})


ONE, TWO = {"a": 1}, {"a": 2}
EVENTS = [event("r", None, ONE), event("u", ONE, TWO), b"", event("d", TWO), event("c", None, ONE)]


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize(
    ("shape", "kinds", "row_values", "row_lines"),
    [
        (DebeziumLines(), [0, 1, 2, 3, 0], [1, 1, 2, 2, 1], [0, 1, 1, 3, 4]),
        (DebeziumLines(with_before=False), [0, 2, 3, 0], [1, 2, 2, 1], [0, 1, 3, 4]),
    ],
)
def test_an_event_of_a_database_is_what_was_and_what_is(
    shape: LineShape,
    kinds: list[int],
    row_values: list[int],
    row_lines: list[int],
    *,
    exactly: bool,
) -> None:
    decoder = LineDecoder([INT], ["a"], shape)
    numbered = [(at, each) for at, each in enumerate(EVENTS) if each]

    found = decoder.decode_exactly(numbered) if exactly else decoder.decode(b"\n".join(EVENTS))

    assert found.kinds.tolist() == kinds
    assert found.columns[0].to_pylist() == row_values
    assert found.row_index.tolist() == row_lines
    assert found.rejected == []


def maxwell(word: str, data: Any, **old: Any) -> bytes:
    return orjson.dumps({"database": "d", "type": word, "data": data, **old})


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        (DebeziumLines(), [each for each in EVENTS if each]),
        (OggLines(), [orjson.dumps({"op_type": "U", "before": ONE, "after": TWO})]),
        (MaxwellLines(), [maxwell("insert", {"a": None}), maxwell("update", TWO, old=ONE)]),
        (MaxwellLines(with_before=False), [maxwell("update", ONE, old={"a": None})]),
    ],
)
def test_good_events_take_the_fast_way(shape: LineShape, given: list[bytes]) -> None:
    decoder = LineDecoder([INT], ["a"], shape)

    assert decoder._fast is not None
    assert decoder._fast.read(b"\n".join(given), len(given)) is not None


def test_what_may_be_an_old_null_is_found_in_linear_time() -> None:
    # As many members of that name as a line of four million bytes has, and no null.
    line = b'{"type":"update","data":{' + b'"old":{},' * 450_000 + b'"a":1},"old":{}}'

    assert MaxwellLines().is_columnar(line)
    assert not MaxwellLines().is_columnar(line[:-2] + b'"a":null}}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (event("t"), '"op" must be one of c r u d'),
        (event("u", None, ONE), '"before" is null, and an update needs it; PostgreSQL sends it'),
        (event("d"), '"before" is null, and a delete needs it; PostgreSQL sends it'),
        (b'{"op":"d","after":null}', '"before" is missing, and a delete needs it; PostgreSQL'),
        (event("c", ONE), '"after" is null, and an insert needs it'),
        (event("u", ONE), '"after" is null, and an update needs it'),
        (event("c", None, [1]), '"after" must be an object, found an array'),
        (event(None, None, ONE), '"op" must be one of c r u d'),
        (b'{"before":null,"after":{"a":1}}', '"op" is missing'),
        (b'{"a":1}', '"op" is missing, and so are "before" and "after": it is no event'),
        (b"[" + event("c", None, ONE) + b"]", "must be an object, found an array"),
        (b"null", "must be an object, found null: a tombstone"),
        (
            orjson.dumps({"schema": {}, "payload": {"op": "c", "after": ONE}}),
            'the event is in "payload", beside its "schema"; set option debezium-json.schema-inc',
        ),
        (event("u", ONE, {"a": "x"}), 'column "a" must be INT'),
        (orjson.dumps({"payload": None}), '"op" is missing, and so are'),
    ],
)
def test_an_event_that_lacks_a_row_gives_none(line: bytes, reason: str) -> None:
    found = LineDecoder([INT], ["a"], DebeziumLines()).decode(line)

    assert len(found.kinds) == 0
    assert found.rejected[0][1].startswith(reason)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (event("c", None, ONE), '"payload" is missing; set option debezium-json.schema-include to'),
        (b'{"schema":{},"payload":null}', '"payload" is null: a tombstone'),
        (b'{"payload":[1]}', '"payload" must be an object, found an array'),
        (b'{"payload":{"op":"x"}}', '"op" must be one of c r u d'),
        (b'{"payload":{"after":{"a":1}}}', '"op" is missing'),
    ],
)
def test_an_event_beside_its_schema_says_what_is_wrong(line: bytes, reason: str) -> None:
    found = LineDecoder([INT], ["a"], DebeziumLines(in_payload=True)).decode(line)

    assert len(found.kinds) == 0
    assert found.rejected[0][1].startswith(reason)


ROW, OTHER = {"a": 1, "b": "x"}, {"a": 1, "b": "y"}


MAXWELL, OGG = MaxwellLines(), OggLines()


@pytest.mark.parametrize(
    ("shape", "line", "expected"),
    [
        (OGG, {"op_type": "I", "before": None, "after": ROW}, [(0, 1, "x")]),
        (OGG, {"op_type": "U", "before": ROW, "after": OTHER}, [(1, 1, "x"), (2, 1, "y")]),
        (OGG, {"op_type": "U", "before": {"a": 1}, "after": ROW}, [(1, 1, None), (2, 1, "x")]),
        (OGG, {"op_type": "D", "before": OTHER, "after": None}, [(3, 1, "y")]),
        (OGG, {"op_type": "U", "before": None, "after": ROW}, '"before" is null, and an update'),
        (OGG, {"op_type": "I", "before": ROW}, '"after" is missing, and an insert needs it'),
        (OGG, {"op_type": "T"}, '"op_type" must be one of I U D'),
        (OggLines(with_before=False), {"op_type": "U", "after": ROW}, [(2, 1, "x")]),
        (MAXWELL, {"type": "insert", "data": ROW}, [(0, 1, "x")]),
        (
            MAXWELL,
            {"type": "update", "data": OTHER, "old": {"b": "x"}},
            [(1, 1, "x"), (2, 1, "y")],
        ),
        (
            MAXWELL,
            {"type": "update", "data": ROW, "old": {"b": None}},
            [(1, 1, None), (2, 1, "x")],
        ),
        (MAXWELL, {"type": "update", "data": ROW, "old": {"B": 7}}, [(1, 1, "x"), (2, 1, "x")]),
        (MAXWELL, {"type": "delete", "data": OTHER, "old": ROW}, [(3, 1, "y")]),
        (MAXWELL, {"type": "update", "data": ROW}, '"old" must be an object, found null'),
        (MAXWELL, {"type": "insert", "data": None}, '"data" must be an object, found null'),
        (MAXWELL, {"type": "insert", "data": [ROW]}, '"data" must be an object, found an array'),
        (MAXWELL, {"type": "INSERT", "data": ROW}, '"type" must be one of insert update delete'),
        (MaxwellLines(with_before=False), {"type": "update", "data": ROW}, [(2, 1, "x")]),
    ],
)
def test_other_tools_lines_are_read_as_flink_reads_them(
    shape: LineShape, line: dict[str, Any], expected: list[tuple[Any, ...]] | str
) -> None:
    """Flink 2.3's results of the same lines; where it fails, the line is refused."""
    types = [INT, parse_type("STRING")]

    found = LineDecoder(types, ["a", "b"], shape).decode(orjson.dumps(line))

    columns = [each.to_pylist() for each in found.columns]
    if isinstance(expected, str):
        assert [reason.startswith(expected) for _, reason in found.rejected] == [True]
    else:
        assert [*zip(found.kinds.tolist(), *columns, strict=True)] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", "7"),
        ("1e2", "1e2"),
        ("1.10", "1.10"),
        ("true", "true"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("[]", "[]"),
        ('[1, null,\t"3"]', '[1,null,"3"]'),
        ('{"b": {"c": [1.10, 2E3]}, "a" : false}', '{"b":{"c":[1.10,2E3]},"a":false}'),
        (r'{"q\"":"\\ \u00e9 \n"}', r'{"q\"":"\\ é \n"}'),
    ],
)
def test_a_text_takes_any_value_as_its_json(value: str, expected: str) -> None:
    """As Flink 2.3 does, which only writes doubles within objects anew."""
    decoder = LineDecoder([parse_type("STRING")], ["a"], PLAIN)

    found = decoder.decode(f'{{"a":"x"}}\n{{"a":{value}}}'.encode())

    assert found.columns[0].to_pylist() == ["x", expected]


def test_an_array_that_is_nested_too_deep_for_a_text_is_refused() -> None:
    decoder = LineDecoder([parse_type("STRING")], ["a"], PLAIN)

    found = decoder.decode(b'{"a":' + b"[" * 1020 + b"]" * 1020 + b"}")

    assert found.rejected == [(0, 'column "a" must be STRING, found an array nested too deep')]


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[LogicalType], list[int], list[tuple[Any, ...]]]:
    columns = draw(st.lists(types(), min_size=1, max_size=3))
    found = draw(st.lists(st.tuples(st.integers(0, 3), *map(values, columns)), max_size=4))
    return columns, [each[0] for each in found], [each[1:] for each in found]


@given(rows())
@settings(deadline=None)
def test_written_lines_are_what_single_rows_show_and_read_back_the_same(
    table: tuple[list[LogicalType], list[int], list[tuple[Any, ...]]],
) -> None:
    kinds, found = table[1], table[2]
    codec = RowCodec(table[0], [f"c{n}" for n in range(len(table[0]))])
    data = zip(*found, strict=True) if found else [()] * len(codec.types)
    columns = [to_column(t, list(v)) for t, v in zip(codec.types, data, strict=True)]

    changes = codec.encode_json_lines(kinds, columns)
    plain = codec.encode_json_lines(None, columns)
    decoded = codec.decode_json_lines(changes, with_op=True)

    names = ("+I", "-U", "+U", "-D")
    assert plain == [orjson.dumps(codec.to_json(each)) for each in found]
    assert changes == [
        orjson.dumps({"op": names[kind], "data": codec.to_json(each)})
        for kind, each in zip(kinds, found, strict=True)
    ]
    assert codec.encode_json_block(kinds, columns) == b"".join(each + b"\n" for each in changes)
    assert decoded.rejected == []
    assert decoded.kinds.tolist() == kinds
    rows_read = codec.encode_columns(decoded.columns).to_pylist()
    assert rows_read == codec.encode_columns(columns).to_pylist()


def codec_of(**columns: str) -> RowCodec:
    return RowCodec([parse_type(each) for each in columns.values()], list(columns))


def test_a_change_is_written_as_flink_writes_it() -> None:
    codec = codec_of(k="INT", t="TIMESTAMP(3)", z="TIMESTAMP_LTZ(3)", m="MAP<STRING, INT>")
    time = dt.datetime(2020, 1, 1, 0, 0, 10, tzinfo=dt.UTC)
    values_of_row = [1, time.replace(tzinfo=None), time, {"x": 1}]
    columns = [to_column(t, [v]) for t, v in zip(codec.types[:3], values_of_row[:3], strict=True)]
    columns.append(pa.array([[("x", 1)]], codec.arrow_types[3]))

    assert codec.encode_json_lines([1], columns) == [
        b'{"op":"-U","data":{"k":1,"t":"2020-01-01 00:00:10","z":"2020-01-01 00:00:10Z",'
        b'"m":{"x":1}}}'
    ]


BAD: list[tuple[bytes, str]] = [
    (b"{", "not valid JSON"),
    (b"[1]", "must be an object, found an array"),
    (b"7", "must be an object, found an integer"),
    (b'{"data":{"a":1}}', '"op" must be one of +I -U +U -D'),
    (b'{"op":"x","data":{"a":1}}', '"op" must be one of +I -U +U -D'),
    (b'{"op":["+I"],"data":{"a":1}}', '"op" must be one of +I -U +U -D'),
    (b'{"op":"+I"}', '"data" must be an object, found null'),
    (b'{"op":"+I","data":[1]}', '"data" must be an object, found an array'),
    (
        b'{"op":"+I","data":{"a":"secret"}}',
        'column "a" must be INT, found a string of another form',
    ),
    (b'{"op":"+I","data":{}}', 'column "a" must be INT NOT NULL, found null'),
    (b'{"op":"+I","data":{"a":' + b"[" * 3000 + b"]" * 3000 + b"}}", "not valid JSON"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_line_is_told_by_number_and_reason(line: bytes, reason: str) -> None:
    good = b'{"op":"+U","data":{"a":5,"other":1},"t":7}'

    found = codec_of(a="INT NOT NULL").decode_json_lines(
        b"\n".join([good, b"", line, b" \r", good]), with_op=True
    )

    assert found.rejected == [(2, reason)]
    assert found.row_index.tolist() == [0, 4]
    assert found.kinds.tolist() == [2, 2]
    assert [each.to_pylist() for each in found.columns] == [[5, 5]]


def test_decimals_in_lines_keep_all_their_digits() -> None:
    line = b'{"d":12345678901234567890.1234567891,"i":12345678901234567890123456789012345678}'

    found = codec_of(d="DECIMAL(38, 10)", i="DECIMAL(38, 0)").decode_json_lines(line, with_op=False)

    assert [each.to_pylist() for each in found.columns] == [
        [Decimal("12345678901234567890.1234567891")],
        [Decimal(12345678901234567890123456789012345678)],
    ]


def test_an_overlong_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.json_lines.LINE_BYTES_MAX", 20)

    found = codec_of(a="STRING").decode_json_lines(
        b'{"a":"x"}\n{"a":"' + b"y" * 30 + b'"}', with_op=False
    )

    assert found.rejected == [(1, "longer than 20 bytes")]
    assert found.row_index.tolist() == [0]


def test_no_lines_give_empty_columns_of_the_right_types() -> None:
    codec = codec_of(a="INT", b="ARRAY<STRING>")

    found = codec.decode_json_lines(b"\n \n", with_op=True)

    assert [each.type for each in found.columns] == list(codec.arrow_types)
    assert found.kinds.tolist() == []


@pytest.mark.parametrize("text", ["INT", "ARRAY<INT>"])
def test_line_numbers_count_blank_lines(text: str) -> None:
    good = b'{"a":null}'
    lines = [b"", good, b" \t\r", good, b""]

    for each in (lines, b"\n".join(lines)):
        assert codec_of(a=text).decode_json_lines(each, with_op=False).row_index.tolist() == [1, 3]


def test_a_newline_inside_a_given_line_does_not_make_two() -> None:
    good = b'{"a":1}'

    found = codec_of(a="INT").decode_json_lines([good + b"\n" + good, good], with_op=False)

    assert [number for number, _ in found.rejected] == [0]
    assert found.row_index.tolist() == [1]


def test_names_are_escaped() -> None:
    codec = RowCodec([INT], ['a"\\\né'])

    line = codec.encode_json_lines(None, [pa.array([1], pa.int32())])[0]

    assert json.loads(line) == {'a"\\\né': 1}
    assert codec.decode_json_lines([line], with_op=False).columns[0].to_pylist() == [1]
