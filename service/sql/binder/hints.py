"""Query hints: STATE_TTL and MULTI_JOIN, by the table names of the block that they stand in.

Source: FLIP-373; Flink `StateTtlHint` and `JoinHintsResolver` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.sql.source_text import Fragment

_IGNORED = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP")
"""Hints for batch joins; a streaming plan has no use for them."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the hints of one SELECT say."""

    ttl: Mapping[str, str] = field(default_factory=dict)
    """Duration by table name or alias."""
    multi_join: frozenset[str] = frozenset()


def read_hints(select: exp.Expression, fragment: Fragment) -> Hints:
    """The hints after SELECT.

    Raises:
        ValidationError: A hint is malformed, or names no table of the query.
        UnsupportedSql: A hint that we do not know.
    """
    hint = select.args.get("hint")
    if hint is None:
        return Hints()
    ttl: dict[str, str] | None = None
    joined: set[str] = set()
    for entry in hint.expressions:
        name = entry.name.upper()
        if name == "STATE_TTL":
            found = _key_values(entry, fragment)
            ttl = found if ttl is None else ttl
        elif name == "MULTI_JOIN":
            joined |= {argument.name for argument in entry.expressions}
        elif name not in _IGNORED:
            raise UnsupportedSql(
                f"hint {name} is not supported",
                position_of(entry, fragment),
                hint="OPTIONS stands behind the name of a table"
                if name == "OPTIONS"
                else nearest(name, ("STATE_TTL", "MULTI_JOIN")),
            )
    hints = Hints(ttl or {}, frozenset(joined))
    _check_names(hints, select, fragment)
    return hints


def _key_values(entry: exp.Expression, fragment: Fragment) -> dict[str, str]:
    position = position_of(entry, fragment)
    if not entry.expressions:
        raise ValidationError(
            "Invalid STATE_TTL hint, expecting at least one key-value options specified.", position
        )
    found: dict[str, str] = {}
    for pair in entry.expressions:
        if not isinstance(pair, exp.EQ):
            raise ValidationError(
                "Invalid list options in STATE_TTL hint, only support key-value options.", position
            )
        value = pair.expression.name
        try:
            parse_duration_ms(value)
        except DurationError as problem:
            raise ValidationError(f"Invalid STATE_TTL hint value: {problem}", position) from problem
        found[pair.this.name] = value
    return found


def _check_names(hints: Hints, select: exp.Expression, fragment: Fragment) -> None:
    known = {table.alias_or_name for table in select.find_all(exp.Table)}
    known |= {query.alias for query in select.find_all(exp.Subquery) if query.alias}
    for name, wanted in (("STATE_TTL", hints.ttl), ("MULTI_JOIN", hints.multi_join)):
        missing = [each for each in wanted if each not in known]
        if missing:
            listed = ", ".join(f"`{each}`" for each in missing)
            raise ValidationError(
                "The options of following hints cannot match the name of input tables or views: "
                f"\n{listed} in `{name}`",
                position_of(select.args["hint"], fragment),
                hint=nearest(missing[0], known),
            )
