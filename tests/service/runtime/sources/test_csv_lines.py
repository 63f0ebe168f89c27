"""CSV: a line means the same whatever stands beside it, and a bad one ends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.runtime.sources.csv_lines import CsvDecoder
from service.runtime.sources.spec import SourceSpec
from state.arrow_values import python_values
from state.types import parse_type

if TYPE_CHECKING:
    from service.runtime.sources.decoding import DecodedLines

TYPES = [
    *("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "INT NOT NULL"),
    *("DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "DECIMAL(5, 2)", "DECIMAL(38, 0)"),
    *("BYTES", "STRING NOT NULL", "DECIMAL(3, 3)"),
]
# Texts that Arrow's casts and the exact way might read in their own ways.
ODD = [
    *(b"", b'""', b"0x10", b"1", b"0", b"-0", b"+1", b" 7 ", b"007", b"128", b"2147483648"),
    *(b"true", b"True", b"TRUE", b"false", b"inf", b"-inf", b"nan", b"NaN", b"Infinity", b"1e400"),
    *(b"3.5e38", b"1e-46", b"-1e-400", b"1.", b".5", b"1.5", b"1.555", b"999.999", b"1e2", b"0.1"),
    *(b"2013-01-01", b"2013-02-30", b"0000-01-01", b"2013-01-01 10:00", b"2013-01-01 10:00:00"),
    *(
        b"2013-01-01T10:00:00.123456789",
        b"2013-01-01 10:00:00.1239Z",
    ),
    b"2013-01-01 10:00:00+01:00",
    *(
        b"10:00:00",
        b"10:00:00.1239",
        b"24:00:00",
        b"abc",
        b"YWJj",
        b"YWJ",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *("é२".encode(), b'"a""b"', b'"a,b"', b'a"b', b'"a"b', b'"open', b'"', b"a\rb", b"\r", b"\x00"),
    *(
        b"9" * 25,
        b"9" * 400,
        b"NULL",
        b"a\\,b",
        b"\\",
        b'"a\\"b"',
        b" ",
        b'""""',
        b"16777217.000001",
    ),
]
FIELDS = st.one_of(st.sampled_from(ODD), st.binary(max_size=4), st.just(b"1"), st.just(b'"x"'))


def decoder(*types: str, asked: int | None = None, **options: str) -> CsvDecoder:
    """Of columns of these types, of which the last ones are asked for, in turned order."""
    names = tuple(f"c{at}" for at in range(len(types)))
    physical = tuple(zip(names, types, strict=True))
    if asked is not None:
        names, types = names[::-1][:asked], types[::-1][:asked]
    named = {f"csv.{name.replace('_', '-')}": value for name, value in options.items()}
    return CsvDecoder(
        SourceSpec("filesystem", "t", "p", "", names, types, physical, {"format": "csv"} | named)
    )


def rows_of(found: DecodedLines, types: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Line number and values of each row, as texts: NaN is NaN, and -0.0 is not 0.0."""
    pairs = zip(types, found.columns, strict=True)
    columns = [[repr(each) for each in python_values(parse_type(t), c)] for t, c in pairs]
    return list(zip(found.lines.tolist(), *columns, strict=True))


@given(
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=2).flatmap(
        lambda types: st.tuples(
            st.just(tuple(types)),
            st.lists(
                st.lists(FIELDS, min_size=len(types), max_size=len(types)).map(b",".join)
                | FIELDS
                | st.just(b""),
                max_size=4,
            ),
        )
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([{}, {}, {"null_literal": "NULL"}, {"escape_character": "\\"}]),
    st.integers(0, 2),
)
@example((("STRING", "STRING"), [b'1,"a', b'2,b"', b"3,c\r4,d"]), b"\n", {}, 2)
@example((("INT", "INT"), [b"\xff,1", b"1,1"]), b"\n", {}, 1)
@example((("STRING",), [b"\xef\xbb\xbfa", b"b", b"\xef\xbb\xbf"]), b"\n", {}, 1)
@example((("DOUBLE",), [b"1", b"x"]), b"\n", {}, 1)
@settings(deadline=None, max_examples=400)
def test_a_block_gives_what_its_lines_give_alone(
    drawn: tuple[tuple[str, ...], list[bytes]], end: bytes, options: dict[str, str], asked: int
) -> None:
    types, lines = drawn
    lines = [part for line in lines for part in line.split(b"\n")]
    block = end.join(lines) + end
    one = decoder(*types, asked=asked, **options)
    types = types[::-1][:asked]

    whole, exact = one.decode(block), one.decode_exactly(block)
    alone = [one.decode(line + end) for line in lines]

    assert rows_of(whole, types) == rows_of(exact, types)
    assert list(whole.rejected) == list(exact.rejected)
    assert rows_of(whole, types) == [
        (at, *row[1:]) for at, each in enumerate(alone) for row in rows_of(each, types)
    ]
    assert [at for at, _ in whole.rejected] == [
        at for at, each in enumerate(alone) for _ in each.rejected
    ]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        *(("BOOLEAN", "true"), ("INT", "-7"), ("BIGINT", "007"), ("DOUBLE", "-1.5e3")),
        *(("FLOAT", "0.1"), ("DECIMAL(5, 2)", "1.5"), ("DATE", "2013-01-31")),
        *(("TIMESTAMP(3)", "2013-01-31 10:00:00.123456"), ("STRING NOT NULL", '"a ""b"", c"')),
        *(("TIMESTAMP_LTZ(6)", "2013-01-31T10:00:00Z"), ("STRING", "")),
    ],
)
def test_good_lines_take_the_fast_way(
    text: str, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CsvDecoder, "decode_exactly", None)

    assert len(decoder(text, "INT").decode(f"{good},1\n{good},\r\n".encode()).lines) == 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\xff,2", "not valid UTF-8"),
        (b'1,"open', "a quote that is not closed, or text beside quotes"),
        (b'"1"x,2', "a quote that is not closed, or text beside quotes"),
        (b"1,2,3", "3 fields instead of 2"),
        (b"0x10,a", 'column "c0" must be INT'),
        (b",a", 'column "c0" must be INT'),
    ],
)
def test_a_bad_line_is_refused_with_its_reason_and_its_neighbours_are_kept(
    bad: bytes, reason: str
) -> None:
    found = decoder("INT NOT NULL", "STRING").decode(b"1,a\n" + bad + b"\n2,b\n")

    assert rows_of(found, ("INT", "STRING")) == [(0, "1", "'a'"), (2, "2", "'b'")]
    ((line, why),) = found.rejected
    assert line == 1
    assert why.startswith(reason)


def test_an_escaped_character_is_itself_inside_of_quotes_and_outside() -> None:
    found = decoder("STRING", "STRING", escape_character="\\", null_literal="\\N").decode(
        rb"a\,b,\N" + b"\n" + rb'"c\"d","\N"' + b"\n"
    )

    assert rows_of(found, ("STRING", "STRING")) == [
        (0, repr("a,b"), "None"),
        (1, repr('c"d'), repr("N")),
    ]


def test_no_column_asked_for_still_counts_rows() -> None:
    spec = SourceSpec("filesystem", "t", "p", "", (), (), (("a", "INT"),), {"format": "csv"})

    assert CsvDecoder(spec).decode(b"1\n2\nx,y\n").lines.tolist() == [0, 1]
