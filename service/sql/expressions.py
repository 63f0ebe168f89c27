"""Binding scalar expressions: from the parser's tree to typed expressions of a plan.

Types are derived as Flink derives them, for they end up in the types of a plan's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from service.plan.rex import Literal, Rex, SymbolLiteral
from service.sql import literals, types
from service.sql.coercion import TIMES, as_argument, as_branch
from service.sql.collections import array_of, item, map_of, row_of
from service.sql.conditions import CONDITIONS
from service.sql.deadline import check_time
from service.sql.dialect import JsonAggregate, JsonCall, JsonConstructor, position_of
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.functions import (
    AGGREGATE_FUNCTIONS,
    EXTRACTED,
    RANK_FUNCTIONS,
    SCALAR_FUNCTIONS,
    WINDOW_TABLE_FUNCTIONS,
)
from service.sql.interval_literals import written_interval
from service.sql.json_calls import json_call, json_constructor
from service.sql.rex import as_operand, call, cast, is_null, type_of
from service.sql.scope import fields
from service.sql.time_units import timestamp_difference, timestamp_sum
from service.sql.type_names import written_type
from state.types import (
    INTEGER_BITS,
    INTERVAL_ROOTS,
    STRING_ROOTS,
    LogicalType,
    TypeParseError,
    TypeRoot,
    format_type,
    parse_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.sql.errors import Position
    from service.sql.functions import ScalarFunction
    from service.sql.rex import Expression
    from service.sql.scope import Scope
    from service.sql.source_text import Fragment

_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


Special: TypeAlias = "Callable[[exp.Expression], Expression | None]"
"""What an expression means where it stands: an aggregate, a group, an OVER function. None: it is
bound as any other."""


class ExpressionBinder:
    """Binds the expressions of one query block."""

    def __init__(self, scope: Scope, fragment: Fragment, special: Special | None = None) -> None:
        self._scope = scope
        self._fragment = fragment
        self._special = special

    def bind(self, node: exp.Expression) -> Expression:
        """The typed expression of a node.

        Raises:
            ValidationError: A name is unknown, or types do not fit.
            UnsupportedSql: A function or form that we do not plan.
        """
        check_time()
        if self._special is not None:
            found = self._special(node)
            if found is not None:
                return found
        read = _READERS.get(type(node))
        if read is not None:
            return read(self, node)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node)
        written = _WRITTEN.get(type(node), node.key.upper())
        raise UnsupportedSql(f"{written} is not supported", self.position(node))

    def rex(self, node: exp.Expression) -> Rex:
        """The same as a part of another expression."""
        return as_operand(self.bind(node))

    def column(self, node: exp.Expression) -> Expression:
        """The same as a column of a query.

        Raises:
            ValidationError: It is NULL of no type.
        """
        bound = self.bind(node)
        self.require_types([bound], node)
        return bound

    def require_types(self, given: Sequence[Expression], node: exp.Expression) -> None:
        """See that no NULL is without a type where nothing beside it gives it one.

        Raises:
            ValidationError: One is.
        """
        if any(type_of(each).root is TypeRoot.NULL for each in given):
            hint = "a CAST says its type: CAST(NULL AS INT)"
            raise ValidationError("Illegal use of 'NULL'", self.position(node), hint=hint)

    def condition(self, node: exp.Expression) -> Rex:
        """A boolean expression.

        Raises:
            ValidationError: It is none.
        """
        bound = self.rex(node)
        if type_of(bound).root not in (TypeRoot.BOOLEAN, TypeRoot.NULL):
            raise ValidationError("a condition must be BOOLEAN", self.position(node))
        return cast(bound, types.BOOLEAN) if is_null(bound) else bound

    def position(self, node: exp.Expression) -> Position:
        """Where a node stands."""
        return position_of(node, self._fragment)

    def _column(self, node: exp.Expression) -> Rex:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise ValidationError("* may stand only in a select list", self.position(node))
        names = tuple(part.name for part in node.parts)
        niladic = _NILADIC.get(names[0].upper()) if len(names) == 1 else None
        if niladic is not None and not node.this.args.get("quoted"):
            return call(names[0].upper(), [], niladic)
        return self._scope.resolve(names, self.position(node))

    def _array(self, node: exp.Expression) -> Rex:
        return array_of([self.rex(each) for each in node.expressions], self.position(node))

    def _bracket(self, node: exp.Expression) -> Rex:
        parts = [self.rex(each) for each in node.expressions]
        if isinstance(node.this, exp.Column) and node.this.sql().upper() == "MAP":
            return map_of(parts, self.position(node))
        return item(self.rex(node.this), parts[0], self.position(node))

    def _if(self, node: exp.Expression) -> Rex:
        parts = [node.this, node.args["true"], node.args.get("false")]
        return self._scalar("IF", [each for each in parts if each is not None], node)

    def _position(self, node: exp.Expression) -> Rex:
        return self._scalar("POSITION", [node.args["substr"], node.this], node)

    def _dot(self, node: exp.Expression) -> Rex:
        """A path of fields, of any depth, behind a column or what else is a row."""
        path: list[str] = []
        base = node
        while isinstance(base, exp.Dot):
            path.insert(0, base.expression.name)
            base = base.this
        if isinstance(base, exp.Column):
            names = (*(part.name for part in base.parts), *path)
            return self._scope.resolve(names, self.position(node))
        return fields(self.rex(base), tuple(path), self.position(node))

    def _bytes(self, node: exp.Expression) -> Rex:
        """`X'C0FFEE'`."""
        digits = str(node.this)
        if len(digits) % 2:
            raise ValidationError(
                "Binary literal string must contain an even number of hexits", self.position(node)
            )
        if not digits:
            raise ValidationError("a literal of no bytes has no type", self.position(node))
        return literals.binary(bytes.fromhex(digits))

    def _literal(self, node: exp.Expression) -> Rex:
        if node.is_string:
            return literals.text(node.name)
        return literals.number(node.name, self.position(node))

    def _boolean(self, node: exp.Expression) -> Rex:
        return Literal(bool(node.this), types.BOOLEAN.with_nullable(False), "")

    def _null(self, node: exp.Expression) -> Rex:
        return Literal(None, LogicalType(TypeRoot.NULL), "")

    def _interval(self, node: exp.Expression) -> Rex:
        return written_interval(node, self.position(node))

    def _paren(self, node: exp.Expression) -> Expression:
        return self.bind(node.this)

    def _negate(self, node: exp.Expression) -> Rex:
        operand = self.rex(node.this)
        if isinstance(operand, Literal) and isinstance(operand.value, int):
            return Literal(-operand.value, operand.type, "")
        return call("-", [operand], type_of(operand), syntax="PREFIX")

    def _arithmetic(self, node: exp.Expression) -> Rex:
        operator = _ARITHMETIC[type(node)]
        left, right = self.rex(node.this), self.rex(node.expression)
        kinds = type_of(left), type_of(right)
        if {kinds[0].root, kinds[1].root} & INTERVAL_ROOTS:
            if operator == "*":
                return self._scaled_interval(left, right, node)
            return self._time_arithmetic(operator, left, right, node)
        made = types.arithmetic_type(operator, *kinds)
        if made is None:
            raise ValidationError(
                f"{operator} is not defined for {kinds[0].root.name} and {kinds[1].root.name}",
                self.position(node),
            )
        if operator == "%":
            return call("MOD", [left, right], types.remainder_type(*kinds))
        return call(operator, [left, right], made)

    def _time_arithmetic(self, operator: str, left: Rex, right: Rex, node: exp.Expression) -> Rex:
        if type_of(left).root in INTERVAL_ROOTS and operator == "+":
            left, right = right, left
        given = types.regular(type_of(left))
        if given.root not in TIMES | INTERVAL_ROOTS or operator not in "+-":
            raise ValidationError(
                f"{operator} is not defined for {given.root.name} and an interval",
                self.position(node),
            )
        nullable = given.nullable or type_of(right).nullable
        return call(operator, [left, right], given.with_nullable(nullable), syntax="SPECIAL")

    def _scaled_interval(self, left: Rex, right: Rex, node: exp.Expression) -> Rex:
        """So many times an interval, in either order."""
        interval, factor = type_of(left), type_of(right)
        if factor.root in INTERVAL_ROOTS:
            interval, factor = factor, interval
        if factor.root not in INTEGER_BITS:
            raise ValidationError(
                f"* is not defined for {interval.root.name} and {factor.root.name}",
                self.position(node),
                hint="an interval is multiplied by a whole number",
            )
        nullable = interval.nullable or factor.nullable
        return call("*", [left, right], interval.with_nullable(nullable))

    def _case(self, node: exp.Expression) -> Rex:
        subject = node.this
        conditions, results = [], []
        for branch in node.args["ifs"]:
            test = branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)
            conditions.append(self.condition(test))
            results.append(self.rex(branch.args["true"]))
        default = node.args.get("default")
        results.append(
            Literal(None, LogicalType(TypeRoot.NULL), "") if default is None else self.rex(default)
        )
        made = types.common_type([type_of(each) for each in results])
        if made is None:
            raise ValidationError("the branches of CASE have no common type", self.position(node))
        if made.root is TypeRoot.NULL:
            raise ValidationError("a branch of CASE must not be NULL", self.position(node))
        branches = [as_branch(each, made) for each in results]
        operands = [part for pair in zip(conditions, branches, strict=False) for part in pair]
        return call("CASE", [*operands, branches[-1]], made)

    def _cast(self, node: exp.Expression) -> Rex:
        operand = self.rex(node.this)
        target = self._type(node.args["to"])
        is_try = isinstance(node, exp.TryCast)
        if is_null(operand):
            return cast(operand, target)
        is_text = type_of(operand).root in STRING_ROOTS
        if is_text and isinstance(operand, Literal) and not is_try:
            constant = literals.time_constant(str(operand.value), target, self.position(node))
            if constant is not None:
                return constant
        nullable = type_of(operand).nullable or is_try
        if type_of(operand) == target.with_nullable(nullable):
            return operand
        name = "TRY_CAST" if is_try else "CAST"
        return call(name, [operand], target.with_nullable(nullable), syntax="SPECIAL")

    def _type(self, node: exp.Expression) -> LogicalType:
        text = written_type(node) if isinstance(node, exp.DataType) else node.sql(dialect="spark")
        position = self.position(node.parent or node)  # a type itself has no place
        try:
            found = parse_type(text, is_sql=True)
        except TypeParseError as problem:
            raise UnsupportedSql(f"type {text}: {problem}", position) from problem
        if not types.is_known(found):
            raise ValidationError(f"unknown type {text}", position, hint=nearest(text, types.NAMES))
        return found

    def _concat(self, node: exp.Expression) -> Rex:
        operands = [self.rex(node.this), self.rex(node.expression)]
        nullable = types.any_nullable([type_of(each) for each in operands])
        return call("||", operands, types.STRING.with_nullable(nullable))

    def _extract(self, node: exp.Expression) -> Rex:
        name = node.this.name.upper()
        if name not in _EXTRACTED:
            raise ValidationError(
                f"unknown unit of time {node.this.name}",
                self.position(node),
                hint=nearest(name, _EXTRACTED),
            )
        return self._extracted(name, node.expression)

    def _extracted(self, name: str, node: exp.Expression) -> Rex:
        operand = self.rex(node)
        made = types.BIGINT.with_nullable(type_of(operand).nullable)
        return call("EXTRACT", [_unit(name), operand], made, syntax="SPECIAL")

    def _rounded(self, node: exp.Expression) -> Rex:
        """FLOOR and CEIL of a number, or of a time TO a unit."""
        unit = node.args.get("to")
        if unit is None:
            return self._named(node)
        operand, name = self.rex(node.this), unit.name.upper()
        if type_of(operand).root not in TIMES or name not in _EXTRACTED:
            raise ValidationError(
                f"{node.key.upper()} TO {name} is not supported", self.position(node)
            )
        return call(node.key.upper(), [operand, _unit(name)], type_of(operand))

    def _trim(self, node: exp.Expression) -> Rex:
        operand = self.rex(node.this)
        side = str(node.args.get("position") or "BOTH").upper()
        symbol = SymbolLiteral("TRIM", side, LogicalType(TypeRoot.SYMBOL, nullable=False), "")
        given = node.args.get("expression")
        what = literals.text(" ") if given is None else self.rex(given)
        made = types.STRING.with_nullable(type_of(operand).nullable)
        return call("TRIM", [symbol, what, operand], made, syntax="SPECIAL")

    def _subquery(self, node: exp.Expression) -> Rex:
        raise UnsupportedSql("a subquery as a value is not supported here", self.position(node))

    def _named(self, node: exp.Expression) -> Rex:
        """The functions that the parser reads itself because of their syntax."""
        arguments = [node.this, *node.args.values()]
        given = [each for each in arguments[1:] if isinstance(each, exp.Expression)]
        return self._scalar(node.key.upper(), given, node)

    def _function(self, node: exp.Expression) -> Rex:
        name = node.name.upper()
        if name in AGGREGATE_FUNCTIONS or name in RANK_FUNCTIONS:
            raise ValidationError(f"{name} is not allowed here", self.position(node))
        if name == "ROW" and node.expressions:
            return row_of([self.rex(each) for each in node.expressions])
        if name in _OF_UNITS:
            return self._of_unit(name, node)
        if name in EXTRACTED and len(node.expressions) == 1:
            return self._extracted(EXTRACTED[name], node.expressions[0])
        return self._scalar(_SYNONYMS.get(name, name), node.expressions, node)

    def _json(self, node: exp.Expression) -> Rex:
        returning = node.args.get("returning")
        return json_call(self, node, None if returning is None else self._type(returning))

    def _of_unit(self, name: str, node: exp.Expression) -> Rex:
        """TIMESTAMPDIFF and TIMESTAMPADD, whose first argument is a unit of time."""
        position = self.position(node)
        if len(node.expressions) != 3 or not isinstance(node.expressions[0], (exp.Column, exp.Var)):
            raise ValidationError(f"{name} needs a unit of time and two values", position)
        unit, first, second = node.expressions
        return _OF_UNITS[name](unit.name, self.rex(first), self.rex(second), position)

    def _scalar(self, name: str, nodes: Sequence[exp.Expression], node: exp.Expression) -> Rex:
        function = SCALAR_FUNCTIONS.get(name)
        if function is None:
            if name in EXTRACTED:
                raise ValidationError(f"{name} takes one time", self.position(node))
            known = [
                *SCALAR_FUNCTIONS,
                *EXTRACTED,
                *_OF_UNITS,
                *AGGREGATE_FUNCTIONS,
                *WINDOW_TABLE_FUNCTIONS,
            ]
            raise UnsupportedSql(
                f"function {name} is not supported", self.position(node), hint=nearest(name, known)
            )
        if not function.arguments_min <= len(nodes) <= function.arguments_max:
            raise ValidationError(
                f"{name} does not take {len(nodes)} arguments", self.position(node)
            )
        operands = [self.rex(each) for each in nodes]
        if function.taken is not None:
            operands = self._taken(function, operands, node)
        made = function.result([type_of(each) for each in operands])
        if name in _ROUNDING and made.root is TypeRoot.DECIMAL:
            made = types.rounded_decimal(made, literals.rounding_digits(operands[1:]))
        if name == "TO_TIMESTAMP_LTZ":
            made = types.counted_instant(made, literals.rounding_digits(operands[1:]))
        if name in _OF_ONE_TYPE:
            first = types.BOOLEAN if name == "IF" else made
            wanted = [first, *[made] * (len(operands) - 1)]
            typed = zip(operands, wanted, strict=True)
            operands = [cast(each, kind) if is_null(each) else each for each, kind in typed]
        self.require_types(operands, node)
        return call(name, operands, made, syntax=function.syntax)

    def _taken(
        self, function: ScalarFunction, operands: Sequence[Rex], node: exp.Expression
    ) -> list[Rex]:
        """The operands in the types that a function takes."""
        self.require_types(operands, node)
        given = [type_of(each) for each in operands]
        wanted = None if function.taken is None else function.taken(given)
        if wanted is not None:
            made = [as_argument(*pair) for pair in zip(operands, wanted, strict=True)]
            fitting = [each for each in made if each is not None]
            if len(fitting) == len(made):
                return fitting
        shown = ", ".join(map(format_type, given))
        raise UnsupportedSql(
            f"{function.name} of {shown} is not supported",
            self.position(node),
            hint="a CAST may bring one to the type of the other",
        )


_WRITTEN = {
    exp.SimilarTo: "SIMILAR TO",
    exp.WithinGroup: "WITHIN GROUP",
    exp.IgnoreNulls: "IGNORE NULLS here",
    exp.RespectNulls: "RESPECT NULLS here",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.Tuple: "a row of values in brackets here",
}
"""What is not read, as it is written; what is not here has sqlglot's name."""


def _unit(name: str) -> Rex:
    """A unit of time as an operand."""
    symbol = LogicalType(TypeRoot.SYMBOL, nullable=False)
    return SymbolLiteral("TIME_UNIT_RANGE", name, symbol, "")


_SYNONYMS = {"TRANSLATE": "TRANSLATE3"}
_ROUNDING = ("ROUND", "TRUNCATE")
_OF_ONE_TYPE = ("COALESCE", "IFNULL", "NULLIF", "IF", "GREATEST", "LEAST")
"""Functions that give one of their arguments: a bare NULL among them has the result's type."""
_OF_UNITS = {"TIMESTAMPDIFF": timestamp_difference, "TIMESTAMPADD": timestamp_sum}
_EXTRACTED = (
    "EPOCH", "MILLENNIUM", "CENTURY", "DECADE", "YEAR", "ISOYEAR", "QUARTER", "MONTH", "WEEK",
    "DAY", "DOY", "DOW", "ISODOW", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND",
    "NANOSECOND",
)  # fmt: skip  # a list of names, several a line
"""Of Flink's `TimeIntervalUnit`, for EXTRACT."""
_NILADIC = {
    "CURRENT_TIMESTAMP": LogicalType(TypeRoot.TIMESTAMP_LTZ, nullable=False, precision=3),
    "LOCALTIMESTAMP": LogicalType(TypeRoot.TIMESTAMP, nullable=False, precision=3),
    "CURRENT_DATE": types.DATE.with_nullable(False),
    "CURRENT_TIME": types.TIME.with_nullable(False),
    "LOCALTIME": types.TIME.with_nullable(False),
}
_READERS: dict[type, Callable[[ExpressionBinder, exp.Expression], Expression]] = {
    **CONDITIONS,
    exp.Column: ExpressionBinder._column,
    exp.Array: ExpressionBinder._array,
    exp.Bracket: ExpressionBinder._bracket,
    exp.If: ExpressionBinder._if,
    exp.StrPosition: ExpressionBinder._position,
    exp.Dot: ExpressionBinder._dot,
    exp.Literal: ExpressionBinder._literal,
    exp.HexString: ExpressionBinder._bytes,
    exp.Boolean: ExpressionBinder._boolean,
    exp.Null: ExpressionBinder._null,
    exp.Interval: ExpressionBinder._interval,
    exp.Paren: ExpressionBinder._paren,
    exp.Subquery: ExpressionBinder._subquery,
    exp.Neg: ExpressionBinder._negate,
    exp.Case: ExpressionBinder._case,
    exp.Cast: ExpressionBinder._cast,
    exp.TryCast: ExpressionBinder._cast,
    exp.DPipe: ExpressionBinder._concat,
    exp.Extract: ExpressionBinder._extract,
    exp.Trim: ExpressionBinder._trim,
    exp.Substring: ExpressionBinder._named,
    exp.Overlay: ExpressionBinder._named,
    exp.Floor: ExpressionBinder._rounded,
    exp.Ceil: ExpressionBinder._rounded,
    exp.Anonymous: ExpressionBinder._function,
    JsonAggregate: ExpressionBinder._function,
    JsonCall: ExpressionBinder._json,
    JsonConstructor: json_constructor,
}
