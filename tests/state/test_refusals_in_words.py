"""What is wrong with a line is told in the words of who wrote it: its columns, SQL's types, JSON.

Random lines of random tables; what may be said of them is written down here.
"""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from state.json_lines import LineDecoder
from state.line_shapes import CHANGES, PLAIN, CanalLines, DebeziumLines, MaxwellLines, OggLines
from state.types import parse_type

SIMPLE = (
    *("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "VARCHAR(5)", "CHAR(3)"),
    *("BYTES", "BINARY(2)", "DATE", "TIME(0)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"),
    *("DECIMAL(10, 2)", "DECIMAL(38, 18)"),
)
TYPES = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        inner.map("ARRAY<{}>".format),
        inner.map("MAP<STRING, {}>".format),
        inner.map("MULTISET<{}>".format),
        inner.map("ROW<x {}, y STRING>".format),
    ),
    max_leaves=3,
)
TABLES = st.lists(
    st.tuples(TYPES, st.sampled_from(("", " NOT NULL"))).map("".join), min_size=1, max_size=3
)
SECRET = "s3cret"
NUMBERS = st.sampled_from(["1", "-1", "1.5", "1e3", "1e400", "99999999999999999999", "0.125"])
LEAVES = NUMBERS | st.sampled_from(["null", "true", f'"{SECRET}"', '"2020-13-01"', '"12"'])
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda each: f"[{','.join(each)}]")
        | st.dictionaries(st.sampled_from(["a", "x", "y"]), inner, max_size=2).map(
            lambda each: "{" + ",".join(f'"{name}":{value}' for name, value in each.items()) + "}"
        )
    ),
    max_leaves=4,
)
SHAPES = st.sampled_from(
    [
        *(PLAIN, CHANGES, DebeziumLines(), DebeziumLines(in_payload=True)),
        *(MaxwellLines(), CanalLines(), OggLines()),
    ]
)
TYPE = (
    r"(?:TINYINT|INT|BIGINT|FLOAT|DOUBLE|BOOLEAN|STRING|VARCHAR\(5\)|CHAR\(3\)|BYTES|BINARY\(2\)"
    r"|DATE|TIME\(0\)|TIMESTAMP\(3\)|TIMESTAMP_LTZ\(6\)|DECIMAL\(10, 2\)|DECIMAL\(38, 18\)"
    r"|ARRAY|MAP|MULTISET|ROW|NOT NULL|[<>,`xy ]+)*"
)
KIND = (
    r"null|a boolean|an integer|a number(?: with a fraction| out of range)?|an array|an object"
    r"|a string(?: of another form| that is not base64| longer than \d+)?|\d+ fields"
    r"|an array of other things than pairs|a(?:n| number)? [a-z ]+"
)
OF_VALUE = re.compile(
    rf'(?:column "[abc]"|value) must be {TYPE}(?: of \d+ fields| such as [\d:TZ -]+| as base64)?'
    rf", found (?:{KIND})"
)
OF_LINE = re.compile(
    r"not valid JSON|must be an object, found [a-z ,:]+|\"(?:op|op_type|type|data|old|before|after"
    r"|payload)\" (?:must be|is missing|is null|has).*|the event is in \"payload\".*"
)


@given(TABLES, st.lists(JSON, min_size=3, max_size=3), SHAPES)
@example(["DATE"], ["1.5", "1.5", "1.5"], PLAIN)
@example(["DECIMAL(10, 2)", "DATE"], ["1.5", "1.5", "1.5"], PLAIN)
def test_a_refusal_names_the_column_its_type_and_what_was_there(
    types: list[str], values: list[str], shape: object
) -> None:
    names = ["a", "b", "c"][: len(types)]
    row = "{" + ",".join(f'"{n}":{v}' for n, v in zip("abc", values, strict=True)) + "}"
    lines = [
        row,
        *values,
        f'{{"op":"+I","data":{row}}}',
        f'{{"op":"u","before":{row},"after":{values[0]}}}',
        f'{{"payload":{{"op":"d","before":{row}}}}}',
        f'{{"type":"update","data":{row},"old":{values[1]}}}',
        f'{{"type":"INSERT","data":[{row},{values[2]}]}}',
        f'{{"op_type":"U","before":{values[0]},"after":{row}}}',
    ]
    decoder = LineDecoder([parse_type(each) for each in types], names, shape)  # type: ignore[arg-type]  # one of SHAPES

    for _, reason in decoder.decode("\n".join(lines).encode()).rejected:
        assert OF_VALUE.fullmatch(reason) or OF_LINE.fullmatch(reason), reason
        assert SECRET not in reason
