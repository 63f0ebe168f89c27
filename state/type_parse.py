"""Reads Flink's SQL text of logical types; `state.type_format` writes it.

What Flink's parser takes is taken: any case, synonyms, backticks doubled inside names, comments on
row fields, the postfix forms `INT ARRAY` and `INT MULTISET`.

Source: Flink `LogicalTypeParser` (2.3). Unlike Flink, a name whose closing backtick is missing is
refused, and nesting is limited.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from typing import NoReturn

from state.logical_type import (
    LENGTH_MAX,
    LogicalType,
    LogicalTypeError,
    TypeRoot,
)

DEPTH_MAX = 64
"""Types inside types: far above any real table, far below Python's recursion limit."""

_SHOWN_MAX = 200


class TypeParseError(LogicalTypeError):
    """The text is not a type of Flink; `position` counts characters from 0."""

    code = "types.parse"

    def __init__(self, reason: str, text: str, position: int) -> None:
        shown = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
        super().__init__(f"{reason} at position {position} of type {shown!r}")
        self.reason = reason
        self.text = text
        self.position = position


@functools.lru_cache(maxsize=1024)
def parse_type(text: str, *, is_sql: bool = False, is_ours: bool = False) -> LogicalType:
    """Read a type, as ``DECIMAL(10, 2) NOT NULL`` or ``ROW<`k` INT NOT NULL, `v` ARRAY<INT>>``.

    Args:
        text: The type.
        is_sql: Whether it stands in a statement. There VARCHAR and VARBINARY are as long as they
            can be where no length is said, and have other names; else their length is 1.
        is_ours: Whether `format_type` wrote it. Then it may be CHAR(0), which '' has and no text
            of a user.

    Raises:
        TypeParseError: The text is not a type, or breaks a limit of Flink (precision, length, ...).

    >>> parse_type("VARCHAR(20) NOT NULL").length
    20
    >>> parse_type("CHARACTER VARYING", is_sql=True).length
    2147483647
    """
    return _Parser(text, is_sql=is_sql, is_ours=is_ours).parse()


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>[A-Za-z_$][\w$]*) |
        (?P<integer>\d+) |
        `(?P<name>(?:[^`]|``)*)` |
        '(?P<text>(?:[^']|'')*)' |
        (?P<sign>[<>(),.?])
    )""",
    re.VERBOSE,
)
_SIMPLE = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INTEGER,
    "INTEGER": TypeRoot.INTEGER,
    "BIGINT": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "DATE": TypeRoot.DATE,
    "NULL": TypeRoot.NULL,
    "VARIANT": TypeRoot.VARIANT,
    "BITMAP": TypeRoot.BITMAP,
    "DESCRIPTOR": TypeRoot.DESCRIPTOR,
}
_LENGTHS = {
    "CHAR": TypeRoot.CHAR,
    "VARCHAR": TypeRoot.VARCHAR,
    "BINARY": TypeRoot.BINARY,
    "VARBINARY": TypeRoot.VARBINARY,
}
_VARYING = {TypeRoot.CHAR: TypeRoot.VARCHAR, TypeRoot.BINARY: TypeRoot.VARBINARY}
_LONGEST = {"STRING": TypeRoot.VARCHAR, "BYTES": TypeRoot.VARBINARY}
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_DAY_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")

_Token = tuple[str, str, int]


class _Parser:
    """Recursive descent over the tokens of one text."""

    __slots__ = ("_at", "_depth", "_is_ours", "_is_sql", "_text", "_tokens")

    def __init__(self, text: str, *, is_sql: bool, is_ours: bool) -> None:
        self._text = text
        self._is_sql = is_sql
        self._is_ours = is_ours
        self._tokens = self._scan()
        self._at = 0
        self._depth = 0

    def parse(self) -> LogicalType:
        logical = self._type()
        if self._tokens[self._at][0] != "end":
            self._unexpected()
        return logical

    def _scan(self) -> list[_Token]:
        tokens: list[_Token] = []
        text, position = self._text, 0
        while match := _TOKEN.match(text, position):
            kind = match.lastgroup or ""
            start = match.start(kind) - (kind in ("name", "text"))
            tokens.append((kind, _unescape(kind, match[kind]), start))
            position = match.end()
        if rest := text[position:].lstrip():
            raise TypeParseError("unexpected character", text, len(text) - len(rest))
        tokens.append(("end", "", len(text)))
        return tokens

    # One token at a time.

    def _fail(self, reason: str) -> NoReturn:
        raise TypeParseError(reason, self._text, self._tokens[self._at][2])

    def _unexpected(self) -> NoReturn:
        kind, value, _ = self._tokens[self._at]
        self._fail("unexpected end" if kind == "end" else f"unexpected {value!r}")

    def _take(self, *kinds: str) -> str:
        kind, value, _ = self._tokens[self._at]
        if kind not in kinds:
            self._unexpected()
        self._at += 1
        return value

    def _skip(self, *expected: str) -> bool:
        """Pass over these words or signs, if all of them come next."""
        found = self._tokens[self._at : self._at + len(expected)]
        for (kind, value, _), wanted in zip(found, expected, strict=False):
            if kind not in ("word", "sign") or value.upper() != wanted:
                return False
        if len(found) < len(expected):
            return False
        self._at += len(expected)
        return True

    def _need(self, *expected: str) -> None:
        for each in expected:
            if not self._skip(each):
                self._unexpected()

    def _number(self) -> int:
        value = int(self._take("integer")[:20])
        if value > LENGTH_MAX:
            self._at -= 1
            self._fail("number is too large")
        return value

    def _bracketed(self, default: int) -> int:
        """A number in brackets, or the default where there is none."""
        if not self._skip("("):
            return default
        value = self._number()
        self._need(")")
        return value

    # Types.

    def _type(self) -> LogicalType:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail("too many types inside types")
        start = self._at
        try:
            logical = self._nullability(self._base())
            if (wrapper := self._postfix()) is not None:
                logical = self._nullability(LogicalType(wrapper, children=(logical,)))
        except LogicalTypeError as error:
            if isinstance(error, TypeParseError):
                raise
            raise TypeParseError(str(error), self._text, self._tokens[start][2]) from None
        self._depth -= 1
        return logical

    def _nullability(self, logical: LogicalType) -> LogicalType:
        if self._skip("NOT", "NULL"):
            return dataclasses.replace(logical, nullable=False)
        self._skip("NULL")
        return logical

    def _postfix(self) -> TypeRoot | None:
        if self._skip("ARRAY"):
            return TypeRoot.ARRAY
        return TypeRoot.MULTISET if self._skip("MULTISET") else None

    def _base(self) -> LogicalType:
        kind, value, _ = self._tokens[self._at]
        word = value.upper()
        if kind == "word" and self._is_sql and word == "CHARACTER":
            word = "CHAR"
        if kind == "name" or (kind == "word" and not self._is_keyword(word)):
            path = self._path()
            if self._tokens[self._at][:2] == ("sign", "("):
                # Types of a catalogue have no brackets behind their names.
                self._fail(f"unexpected '(', as no type is called {value}{_meant(word)},")
            return path
        self._take("word")
        if word in _SIMPLE:
            return LogicalType(_SIMPLE[word])
        if word in _LENGTHS:
            return self._with_length(_LENGTHS[word])
        if word in _LONGEST:
            return LogicalType(_LONGEST[word], length=LENGTH_MAX)
        if word in _DECIMALS:
            return self._decimal()
        logical: LogicalType = getattr(self, _RULES[word])()
        return logical

    def _is_keyword(self, word: str) -> bool:
        # A word before a point starts a path, whatever it is.
        if self._tokens[self._at + 1][:2] == ("sign", "."):
            return False
        return any(word in words for words in (_SIMPLE, _LENGTHS, _LONGEST, _DECIMALS, _RULES))

    def _path(self) -> LogicalType:
        parts = [self._take("name", "word")]
        while self._skip("."):
            parts.append(self._take("name", "word"))
        if len(parts) > 3:
            self._fail("too many parts in a path")
        return LogicalType(TypeRoot.UNRESOLVED, arguments=tuple(parts))

    def _with_length(self, root: TypeRoot) -> LogicalType:
        if self._is_sql and root in _VARYING and self._skip("VARYING"):
            root = _VARYING[root]
        is_longest = self._is_sql and root in _LONGEST.values()
        length = self._bracketed(LENGTH_MAX if is_longest else 1)
        if not length and not self._is_ours:
            raise LogicalTypeError(f"length must be between 1 and {LENGTH_MAX}")
        return LogicalType(root, length=length)

    def _decimal(self) -> LogicalType:
        precision, scale = 10, 0
        if self._skip("("):
            precision = self._number()
            if self._skip(","):
                scale = self._number()
            self._need(")")
        return LogicalType(TypeRoot.DECIMAL, precision=precision, scale=scale)

    def _double(self) -> LogicalType:
        self._skip("PRECISION")
        return LogicalType(TypeRoot.DOUBLE)

    def _time(self) -> LogicalType:
        precision = self._bracketed(0)
        self._skip("WITHOUT", "TIME", "ZONE")
        return LogicalType(TypeRoot.TIME, precision=precision)

    def _timestamp(self) -> LogicalType:
        precision, root = self._bracketed(6), TypeRoot.TIMESTAMP
        if self._skip("WITH", "LOCAL", "TIME", "ZONE"):
            root = TypeRoot.TIMESTAMP_LTZ
        elif self._skip("WITH", "TIME", "ZONE"):
            root = TypeRoot.TIMESTAMP_TZ
        else:
            self._skip("WITHOUT", "TIME", "ZONE")
        return LogicalType(root, precision=precision)

    def _timestamp_ltz(self) -> LogicalType:
        return LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=self._bracketed(6))

    def _interval(self) -> LogicalType:
        if self._skip("YEAR"):
            precision = self._ranged("year", 2, 1, 4)
            resolution = "YEAR TO MONTH" if self._skip("TO", "MONTH") else "YEAR"
            return LogicalType(
                TypeRoot.INTERVAL_YEAR_MONTH, precision=precision, resolution=resolution
            )
        if self._skip("MONTH"):
            return LogicalType(TypeRoot.INTERVAL_YEAR_MONTH, precision=2, resolution="MONTH")
        return self._day_time_interval()

    def _day_time_interval(self) -> LogicalType:
        first = last = self._take("word").upper()
        if first not in _DAY_FIELDS:
            self._at -= 1
            self._unexpected()
        precision = self._ranged("day", 2, 1, 6) if first == "DAY" else 2
        if self._skip("TO"):
            last = self._take("word").upper()
            if last not in _DAY_FIELDS[_DAY_FIELDS.index(first) + 1 :]:
                self._at -= 1
                self._unexpected()
        scale = self._ranged("second", 6, 0, 9) if last == "SECOND" else 6
        return LogicalType(
            TypeRoot.INTERVAL_DAY_TIME,
            precision=precision,
            scale=scale,
            resolution=first if first == last else f"{first} TO {last}",
        )

    def _ranged(self, what: str, default: int, least: int, most: int) -> int:
        value = self._bracketed(default)
        if not least <= value <= most:
            raise LogicalTypeError(f"{what} precision must be between {least} and {most}")
        return value

    def _array(self) -> LogicalType:
        return self._container(TypeRoot.ARRAY, 1)

    def _multiset(self) -> LogicalType:
        return self._container(TypeRoot.MULTISET, 1)

    def _map(self) -> LogicalType:
        return self._container(TypeRoot.MAP, 2)

    def _container(self, root: TypeRoot, count: int) -> LogicalType:
        self._need("<")
        children = [self._type()]
        for _ in range(count - 1):
            self._need(",")
            children.append(self._type())
        self._need(">")
        return LogicalType(root, children=tuple(children))

    def _row(self) -> LogicalType:
        if self._skip("("):
            return self._fields(TypeRoot.ROW, ")")
        self._need("<")
        return self._fields(TypeRoot.ROW, ">")

    def _structured(self) -> LogicalType:
        self._need("<")
        name = self._take("text")
        fields = self._fields(TypeRoot.ROW, ">", first=not self._skip(","))
        return dataclasses.replace(
            fields, root=TypeRoot.STRUCTURED, arguments=(name,), field_comments=()
        )

    def _fields(self, root: TypeRoot, closing: str, *, first: bool = True) -> LogicalType:
        """Fields up to a closing sign; there may be none if nothing stood before."""
        names: list[str] = []
        types: list[LogicalType] = []
        comments: list[str | None] = []
        while not (first and self._skip(closing)):
            names.append(self._take("name", "word"))
            types.append(self._type())
            has_comment = self._tokens[self._at][0] == "text"
            comments.append(self._take("text") if has_comment else None)
            first = False
            if self._skip(closing):
                break
            self._need(",")
        return LogicalType(
            root,
            children=tuple(types),
            field_names=tuple(names),
            field_comments=tuple(comments) if any(each is not None for each in comments) else (),
        )

    def _raw(self) -> LogicalType:
        return self._with_texts(TypeRoot.RAW)

    def _legacy(self) -> LogicalType:
        return self._with_texts(TypeRoot.LEGACY)

    def _with_texts(self, root: TypeRoot) -> LogicalType:
        self._need("(")
        first = self._take("text")
        self._need(",")
        second = self._take("text")
        self._need(")")
        return LogicalType(root, arguments=(first, second))


_RULES = {
    "DOUBLE": "_double",
    "TIME": "_time",
    "TIMESTAMP": "_timestamp",
    "TIMESTAMP_LTZ": "_timestamp_ltz",
    "INTERVAL": "_interval",
    "ARRAY": "_array",
    "MULTISET": "_multiset",
    "MAP": "_map",
    "ROW": "_row",
    "STRUCTURED": "_structured",
    "RAW": "_raw",
    "LEGACY": "_legacy",
}


def _meant(word: str) -> str:
    known = [*_SIMPLE, *_LENGTHS, *_LONGEST, *_DECIMALS, *_RULES]
    near = difflib.get_close_matches(word, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _unescape(kind: str, value: str) -> str:
    if kind == "name":
        return value.replace("``", "`")
    return value.replace("''", "'") if kind == "text" else value
