"""Flink's SQL on top of sqlglot: tokens, queries and expressions.

sqlglot knows functions by name and turns them into classes of its own, under which Flink's names
are lost; here every function call stays a plain call, but for those with a syntax of their own
(CAST, TRIM, EXTRACT, ...). What Flink has and sqlglot lacks is added: `TABLE t` as an argument.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType

from service.sql.deadline import check_time
from service.sql.errors import Position, SqlSyntaxError, SqlTooLarge
from service.sql.foreign import check_first, check_tokens
from service.sql.grammar import check_grammar
from service.sql.hint_comments import plain_hints
from service.sql.misspelt import misspelt
from service.sql.quantifiers import without_quantifiers

if TYPE_CHECKING:
    from service.sql.source_text import Fragment

# sqlglot warns on its own logger of what it falls back to; what we do not support we refuse.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_INCOMPLETE = re.compile(r"missing for <class '[\w.]*\.(\w+)'>")
_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "CEIL", "FLOOR")
_NESTED_TYPES = ("ARRAY", "MAP", "MULTISET", "ROW")
_JSON_BEHAVIOURS = (
    ("EMPTY", "ARRAY"),
    ("EMPTY", "OBJECT"),
    *((word,) for word in ("NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN")),
)
TOKENS_MAX = 60_000
"""Words and signs of one query; enough for the columns of the widest table, each with a name."""
DEPTH_MAX = 200
"""Brackets inside each other; Python's own limit on calls may come first."""


class JsonAggregate(exp.Anonymous):  # type: ignore[misc]  # sqlglot's types are not followed
    """JSON_OBJECTAGG or JSON_ARRAYAGG, by the name that it has with what it does with NULL."""


class JsonCall(exp.Anonymous):  # type: ignore[misc]  # sqlglot's types are not followed
    """JSON_VALUE, JSON_QUERY or JSON_EXISTS, with what it returns and gives for nothing."""

    arg_types: ClassVar[dict[str, bool]] = {
        **exp.Anonymous.arg_types,
        "returning": False,
        "wrapper": False,
        "on": False,
    }


class JsonConstructor(exp.Anonymous):  # type: ignore[misc]  # sqlglot's types are not followed
    """JSON_OBJECT of names and values, or JSON_ARRAY, with what it does with NULL."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Anonymous.arg_types, "nulls": True}


class Flink(Dialect):  # type: ignore[misc]  # sqlglot's types are not followed
    """The part of Flink's grammar that stands in queries and expressions."""

    class Tokenizer(tokens.Tokenizer):  # type: ignore[misc]  # sqlglot's types are not followed
        """Backticks quote names, single quotes quote text."""

        IDENTIFIERS: ClassVar[list[str]] = ["`"]
        QUOTES: ClassVar[list[str]] = ["'"]
        HEX_STRINGS: ClassVar[list[tuple[str, str]]] = [("X'", "'"), ("x'", "'")]
        # Statements that sqlglot does not know would be one text each.
        COMMANDS: ClassVar[set[TokenType]] = set()
        NESTED_COMMENTS: ClassVar[bool] = False
        # A hint is a word wherever it stands, so that the parser refuses it where none may be.
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set(TokenType)
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            # SESSION is a window function here, no word of the grammar.
            **{key: kind for key, kind in tokens.Tokenizer.KEYWORDS.items() if key != "SESSION"},
            "/*+": TokenType.HINT,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    class Parser(parser.Parser):  # type: ignore[misc]  # sqlglot's types are not followed
        """Keeps calls as they were written."""

        # IS NULL and its like bind looser than comparisons: `a = b IS NULL` is `(a = b) IS NULL`.
        IS_PREDICATE_PRECEDENCE = parser.IsPredicatePrecedence.EQUALITY
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        LAMBDAS: ClassVar[dict[TokenType, Any]] = {
            **parser.Parser.LAMBDAS,
            TokenType.FARROW: lambda self, names: self._parse_named_argument(names[0].name),
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in parser.Parser.FUNCTION_PARSERS.items()
            if name in _OWN_SYNTAX
        } | {
            "CEILING": parser.Parser.FUNCTION_PARSERS["CEIL"],
            "OVERLAY": lambda self: self._parse_overlaid(),
            "JSON_OBJECTAGG": lambda self: self._parse_json_objectagg(),
            "JSON_ARRAYAGG": lambda self: self._parse_json_arrayagg(),
            "JSON_OBJECT": lambda self: self._parse_json_object(),
            "JSON_ARRAY": lambda self: self._parse_json_array(),
            "JSON_VALUE": lambda self: self._parse_json_call("JSON_VALUE"),
            "JSON_QUERY": lambda self: self._parse_json_call("JSON_QUERY"),
            "JSON_EXISTS": lambda self: self._parse_json_call("JSON_EXISTS"),
        }

        def _is_predicate_ahead(self) -> bool:
            found: bool = super()._is_predicate_ahead()
            return found and not self._is_distinct_ahead()

        def _is_distinct_ahead(self) -> bool:
            """Whether IS [NOT] DISTINCT FROM follows, which binds tighter than comparisons."""
            words = [token.text.upper() for token in self._tokens[self._index :][:3]]
            return words[:2] == ["IS", "DISTINCT"] or words == ["IS", "NOT", "DISTINCT"]

        def _parse_types(
            self, check_func: bool = False, **options: object
        ) -> exp.Expression | None:
            """A type; one that has types inside is kept as its text, which our parser reads."""
            word = "" if self._curr is None else self._curr.text.upper()
            opening = "" if self._next is None else self._next.text
            is_nested = opening == "<" or (opening == "(" and word == "ROW" and not check_func)
            if not is_nested or word not in _NESTED_TYPES:
                return super()._parse_types(check_func=check_func, **options)
            start, depth = self._curr, 0
            while self._index < self._tokens_size:
                depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(self._curr.text, 0)
                is_opening = self._curr is start
                self._advance()
                if depth == 0 and not is_opening:
                    text = self._find_sql(start, self._prev)
                    return exp.DataType(this=exp.DType.USERDEFINED, kind=text)
            self.raise_error(f"{word} is not closed")
            return None

        def _parse_is_rhs(self, distinct: bool = False) -> exp.Expression | None:
            return self._parse_null() or self._parse_bitwise()

        def _parse_overlaid(self) -> exp.Expression:
            """`OVERLAY(text PLACING other FROM start [FOR length])`."""
            given = {"this": self._parse_bitwise()}
            for word, name in (("PLACING", "expression"), ("FROM", "from_"), ("FOR", "for_")):
                if self._match_text_seq(word):
                    given[name] = self._parse_bitwise()
                elif word != "FOR":
                    self.raise_error(f"{word} is expected in OVERLAY")
            return self.expression(exp.Overlay(**given))

        def _parse_json_objectagg(self) -> exp.Expression:
            """`JSON_OBJECTAGG([KEY] k VALUE v [NULL | ABSENT ON NULL])`."""
            self._match_text_seq("KEY")
            key = self._parse_bitwise()
            if not self._match_text_seq("VALUE"):
                self.raise_error("VALUE is expected in JSON_OBJECTAGG")
            return self._json_aggregate("JSON_OBJECTAGG", [key, self._parse_bitwise()], "NULL")

        def _parse_json_arrayagg(self) -> exp.Expression:
            """`JSON_ARRAYAGG(v [NULL | ABSENT ON NULL])`."""
            return self._json_aggregate("JSON_ARRAYAGG", [self._parse_bitwise()], "ABSENT")

        def _json_aggregate(
            self, name: str, arguments: list[exp.Expression | None], nulls: str
        ) -> exp.Expression:
            if self._curr is not None and self._curr.token_type is TokenType.ORDER_BY:
                self.raise_error(f"ORDER BY in {name} is not supported")
            nulls = self._parse_json_nulls() or nulls
            given = [each for each in arguments if each is not None]
            return self.expression(JsonAggregate(this=f"{name}_{nulls}_ON_NULL", expressions=given))

        def _parse_json_nulls(self) -> str | None:
            """`NULL ON NULL` or `ABSENT ON NULL`, if it is there."""
            nulls = ("NULL", "ABSENT")
            return next((each for each in nulls if self._match_text_seq(each, "ON", "NULL")), None)

        def _parse_json_object(self) -> exp.Expression:
            """`JSON_OBJECT([[KEY] name VALUE value | name: value, ..] [NULL | ABSENT ON NULL])`."""
            nulls, given = self._parse_json_nulls(), []
            if nulls is None:
                pairs = [] if self._is_closing() else self._parse_csv(self._parse_json_pair)
                given = [part for pair in pairs for part in pair]
                nulls = self._parse_json_nulls() or "NULL"
            return self.expression(
                JsonConstructor(this="JSON_OBJECT", expressions=given, nulls=nulls)
            )

        def _parse_json_pair(self) -> list[exp.Expression]:
            # A quoted `KEY` is a column.
            is_word = self._curr is not None and self._curr.token_type is not TokenType.IDENTIFIER
            has_key = is_word and self._match_text_seq("KEY")
            name = self._parse_bitwise()
            if not self._match_text_seq("VALUE") and (has_key or not self._match(TokenType.COLON)):
                self.raise_error("VALUE is expected in JSON_OBJECT")
            value = self._parse_assignment()
            if name is None or value is None:
                self.raise_error("a name and a value are expected in JSON_OBJECT")
            return [name, value]

        def _parse_json_array(self) -> exp.Expression:
            """`JSON_ARRAY([value, ..] [NULL | ABSENT ON NULL])`."""
            given = [] if self._is_closing() else self._parse_csv(self._parse_assignment)
            nulls = self._parse_json_nulls() or "ABSENT"
            return self.expression(
                JsonConstructor(this="JSON_ARRAY", expressions=given, nulls=nulls)
            )

        def _is_closing(self) -> bool:
            return self._curr is not None and self._curr.token_type is TokenType.R_PAREN

        def _parse_json_call(self, name: str) -> exp.Expression:
            """`JSON_VALUE(json, path [RETURNING type] [.. ON EMPTY] [.. ON ERROR])`, its like."""
            operand = self._parse_bitwise()
            if not self._match(TokenType.COMMA):
                self.raise_error(f"{name} takes a text and a path")
            given = [each for each in (operand, self._parse_bitwise()) if each is not None]
            call = JsonCall(this=name, expressions=given)
            if self._match_text_seq("RETURNING"):
                returned = self._parse_types()
                if returned is None:
                    self.raise_error("a type is expected behind RETURNING")
                call.set("returning", returned)
            call.set("wrapper", self._parse_json_wrapper())
            parts = []
            while self._curr is not None and self._curr.token_type is not TokenType.R_PAREN:
                parts.append(self._parse_json_behaviour())
            call.set("on", parts)
            return self.expression(call)

        def _parse_json_wrapper(self) -> str | None:
            if self._match_text_seq("WITHOUT"):
                found = "WITHOUT_ARRAY"
            elif self._match_text_seq("WITH"):
                is_conditional = self._match_text_seq("CONDITIONAL")
                found = "CONDITIONAL_ARRAY" if is_conditional else "WITH_UNCONDITIONAL_ARRAY"
                self._match_text_seq("UNCONDITIONAL")
            else:
                return None
            self._match_text_seq("ARRAY")
            if not self._match_text_seq("WRAPPER"):
                self.raise_error("WRAPPER is expected")
            return found

        def _parse_json_behaviour(self) -> exp.Expression:
            """What is given for nothing, or an error: `this` is it, `expression` for which."""
            if self._match_text_seq("DEFAULT"):
                given = self._parse_bitwise()
            else:
                words = next(
                    (each for each in _JSON_BEHAVIOURS if self._match_text_seq(*each)), None
                )
                if words is None:
                    self.raise_error("NULL, ERROR, DEFAULT, .. ON EMPTY or ON ERROR is expected")
                given = exp.var("_".join(words or ()))
            what = next(
                (each for each in ("EMPTY", "ERROR") if self._match_text_seq("ON", each)), ""
            )
            if not what:
                self.raise_error("ON EMPTY or ON ERROR is expected")
            return self.expression(exp.Kwarg(this=given, expression=exp.var(what)))

        def _retreat(self, index: int) -> None:
            # Reading forward ends with the text; only reading again may not.
            if index != self._index:
                check_time()
                super()._retreat(index)

        def _parse_table_parts(self, *given: object, **options: object) -> exp.Expression:
            table = super()._parse_table_parts(*given, **options)
            is_named = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
            if is_named and self._match(TokenType.HINT):
                table.set("hint", exp.var(self._prev.text).update_positions(self._prev))
            return table

        def _parse_lambda(self, alias: bool = False) -> exp.Expression | None:
            following = self._next
            is_table = self._curr is not None and self._curr.token_type is TokenType.TABLE
            if is_table and following is not None and following.token_type != TokenType.L_PAREN:
                return self._parse_table_argument()
            return super()._parse_lambda(alias=alias)

        def _parse_named_argument(self, name: str) -> exp.Expression:
            """`NAME => value`, where a value may be `TABLE t`."""
            is_table = self._curr is not None and self._curr.token_type is TokenType.TABLE
            value = self._parse_table_argument() if is_table else self._parse_assignment()
            return self.expression(exp.Kwarg(this=exp.var(name), expression=value))

        def _parse_table_argument(self) -> exp.Expression:
            """`TABLE t [PARTITION BY columns]`: a tuple of the table and the columns."""
            self._advance()
            parts = [self._parse_table_parts()]
            if parts[0].args.get("hint") is not None:
                self.raise_error("a hint is not expected behind TABLE")
            if self._match(TokenType.PARTITION_BY):
                if self._match(TokenType.L_PAREN):
                    parts += self._parse_csv(self._parse_column)
                    self._match_r_paren()
                else:
                    parts.append(self._parse_column())
            return self.expression(exp.Tuple(expressions=parts))


_DIALECT = Flink()


def tokenize(fragment: Fragment) -> list[Token]:
    """The tokens of a piece of a script; their offsets count from its beginning.

    Raises:
        SqlSyntaxError: A text or name is not closed, a name in backticks is empty, or a hint stands
            first.
        SqlTooLarge: Brackets are nested deeper than `DEPTH_MAX`.
    """
    try:
        found: list[Token] = _DIALECT.tokenize(plain_hints(fragment.text))
    except TokenError as problem:
        # What is not closed begins at the last quote, but for quotes inside of comments.
        last = max(fragment.text.rfind(quote) for quote in ("'", "`", "/*"))
        raise SqlSyntaxError(
            "a string, name or comment is not closed", fragment.position(max(last, 0))
        ) from problem
    for token in found:
        if token.token_type is TokenType.IDENTIFIER and not token.text:
            raise SqlSyntaxError("a name is empty", fragment.position(token.start))
        if token.token_type is TokenType.HEX_STRING and fragment.text[token.start] == "0":
            # A number of hexadecimal digits is none of SQL's; `X'1F'` are bytes.
            raise SqlSyntaxError(
                f"x{token.text} is not expected here", fragment.position(token.start + 1)
            )
    _check_depth(found, fragment)
    check_first(found, fragment)
    return found


def parse_query(fragment: Fragment) -> exp.Expression:
    """The query that a piece of a script holds.

    Raises:
        SqlSyntaxError: It holds none.
    """
    return _parse(fragment, None)


def parse_expression(fragment: Fragment) -> exp.Expression:
    """The scalar expression that a piece of a script holds.

    Raises:
        SqlSyntaxError: It holds none.
    """
    return _parse(fragment, exp.Condition)


def _parse(fragment: Fragment, into: type[exp.Expression] | None) -> exp.Expression:
    found = tokenize(fragment)
    if len(found) > TOKENS_MAX:
        raise SqlTooLarge(
            f"a query of {len(found)} words; {TOKENS_MAX} are allowed",
            fragment.position(),
            hint="split it over views",
        )
    check_tokens(found, fragment)
    try:
        trees = _trees(found, fragment.text, into)
    except ParseError as problem:
        raise _misspelt(problem, found, fragment, into) or _syntax_error(
            problem, fragment
        ) from problem
    except SqlglotError as problem:
        raise SqlSyntaxError(_first_line(problem), fragment.position()) from problem
    except RecursionError as problem:
        raise SqlTooLarge("the statement is nested too deeply", fragment.position()) from problem
    if len(trees) != 1 or trees[0] is None:
        raise SqlSyntaxError("a query was expected", fragment.position())
    tree = without_quantifiers(trees[0], lambda node: position_of(node, fragment))
    check_grammar(tree, lambda node: position_of(node, fragment))
    return tree


def _trees(
    found: list[Token], text: str, into: type[exp.Expression] | None
) -> list[exp.Expression | None]:
    made = _DIALECT.parser()
    trees: list[exp.Expression | None] = (
        made.parse(found, text) if into is None else made.parse_into(into, found, text)
    )
    return trees


def position_of(node: exp.Expression, fragment: Fragment) -> Position:
    """Where a node of the tree stands: its own place, or the first below it that is known."""
    starts = [
        part.meta["start"]
        for part in node.walk()
        if part._meta is not None and "start" in part.meta
    ]
    return fragment.position(min(starts, default=0))


def hint_of(table: exp.Expression, fragment: Fragment) -> Fragment | None:
    """The hint behind the name of a table in the tree, with the signs around it."""
    hint = table.args.get("hint")
    if hint is None:
        return None
    return fragment.part(hint.meta["start"], hint.meta["end"] + 1)


def _check_depth(found: list[Token], fragment: Fragment) -> None:
    depth = 0
    for token in found:
        if token.token_type is TokenType.L_PAREN:
            depth += 1
            if depth > DEPTH_MAX:
                raise SqlTooLarge(
                    f"brackets are nested deeper than {DEPTH_MAX}",
                    fragment.position(token.start),
                    hint="split the statement over views",
                )
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1


def _syntax_error(problem: ParseError, fragment: Fragment) -> SqlSyntaxError:
    """The parser's first complaint, with its place in the script."""
    details = problem.errors[0] if problem.errors else {}
    reason = str(details.get("description") or _first_line(problem))
    reason = reason.partition(" but got <Token")[0]
    incomplete = _INCOMPLETE.search(reason)
    if incomplete is not None:
        reason = f"{incomplete[1].upper()} is incomplete"
    near = str(details.get("highlight") or "")
    is_hint = near.startswith("/*+")
    if is_hint:
        reason = "a hint is not expected here"
    line, column = details.get("line"), details.get("col")
    position = fragment.position()
    if isinstance(line, int) and isinstance(column, int):
        start = position.column if line == 1 else 1
        width = max(len(near) - 1, 0)
        position = Position(position.line + line - 1, max(start + column - 1 - width, 1))
    # What a hint says may be secret.
    is_shown = near and not is_hint
    return SqlSyntaxError(f"{reason}, near {near!r}" if is_shown else reason, position)


def _misspelt(
    problem: ParseError, found: list[Token], fragment: Fragment, into: type[exp.Expression] | None
) -> SqlSyntaxError | None:
    """The complaint about a misspelt word, if it is one that the parser stumbled over."""

    def fails_at(text: str) -> int | None:
        words: list[Token] = _DIALECT.tokenize(text)
        try:
            _trees(words, text, into)
        except ParseError as other:
            return len(words) - _place(other, words)
        except (SqlglotError, RecursionError):
            return len(words)
        return None

    meant = misspelt(fragment.text, found, _place(problem, found), fails_at)
    if meant is None:
        return None
    token, word = meant
    return SqlSyntaxError(
        f"{str(token.text)!r} is not expected here",
        fragment.position(token.start),
        hint=f"did you mean {word}?",
    )


def _place(problem: ParseError, found: list[Token]) -> int:
    """Which of the words the parser complains of; the first one if it does not say."""
    details = problem.errors[0] if problem.errors else {}
    place = (details.get("line"), details.get("col"))
    return next((at for at, each in enumerate(found) if (each.line, each.col) == place), 0)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [""])[0]
