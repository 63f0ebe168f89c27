"""Query hints: STATE_TTL, MULTI_JOIN and LOOKUP, by the table names of the block they stand in.

Source: FLIP-373, FLIP-234; Flink `StateTtlHint` and `JoinHintsResolver` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.terms import LookupRetries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.sql.errors import Position
    from service.sql.source_text import Fragment

_IGNORED = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP")
"""Hints for batch joins; a streaming plan has no use for them."""


_RETRIES = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
_KNOWN_RETRIES = {"retry-predicate": "lookup_miss", "retry-strategy": "fixed_delay"}
_ASYNC = ("async", "output-mode", "capacity", "timeout", "shuffle")
"""What says how questions go out in Flink: here always in batches, answered in order."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the hints of one SELECT say."""

    ttl: Mapping[str, str] = field(default_factory=dict)
    """Duration by table name or alias."""
    multi_join: frozenset[str] = frozenset()
    lookup: Mapping[str, LookupRetries | None] = field(default_factory=dict)
    """By table name or alias: how a table that is looked up is asked again, if it is."""


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
    lookup: dict[str, LookupRetries | None] = {}
    for entry in hint.expressions:
        name = entry.name.upper()
        if name == "STATE_TTL":
            found = _key_values(entry, fragment)
            ttl = found if ttl is None else ttl
        elif name == "MULTI_JOIN":
            joined |= {argument.name for argument in entry.expressions}
        elif name == "LOOKUP":
            table, retries = _lookup(entry, position_of(entry, fragment))
            lookup.setdefault(table, retries)
        elif name not in _IGNORED:
            raise UnsupportedSql(
                f"hint {name} is not supported",
                position_of(entry, fragment),
                hint="OPTIONS stands behind the name of a table"
                if name == "OPTIONS"
                else nearest(name, ("STATE_TTL", "MULTI_JOIN", "LOOKUP")),
            )
    hints = Hints(ttl or {}, frozenset(joined), lookup)
    _check_names(hints, select, fragment)
    return hints


def _lookup(entry: exp.Expression, position: Position) -> tuple[str, LookupRetries | None]:
    """The table of a LOOKUP hint, and its retries.

    How many questions are under way at once, and in which order answers come, needs no saying here.
    """
    given: dict[str, str] = {}
    for pair in entry.expressions:
        if not isinstance(pair, exp.EQ):
            raise ValidationError(
                "Invalid list options in LOOKUP hint, only support key-value options.", position
            )
        given[pair.this.name.lower()] = pair.expression.name
    unknown = sorted(given.keys() - {"table", *_RETRIES, *_ASYNC})
    if unknown:
        raise ValidationError(
            f"Invalid LOOKUP hint: unknown option {unknown[0]!r}",
            position,
            hint=nearest(unknown[0], ("table", *_RETRIES, *_ASYNC)),
        )
    if not given.get("table"):
        raise ValidationError("Invalid LOOKUP hint: option 'table' is required", position)
    retries = {name: given[name] for name in _RETRIES if name in given}
    if not retries:
        return given["table"], None
    missing = [name for name in _RETRIES if name not in retries]
    if missing:
        raise ValidationError(
            f"Invalid LOOKUP hint: retry options can be both null or all not null, {missing[0]!r} "
            "is missing",
            position,
        )
    for name, known in _KNOWN_RETRIES.items():
        if retries[name].lower() != known:
            raise ValidationError(
                f"Invalid LOOKUP hint: {name} must be {known}, not {retries[name]!r}", position
            )
    try:
        delay_ms = parse_duration_ms(retries["fixed-delay"])
    except DurationError as problem:
        raise ValidationError(f"Invalid LOOKUP hint: fixed-delay: {problem}", position) from problem
    attempts = retries["max-attempts"]
    if not (attempts.isascii() and attempts.isdecimal() and 0 < int(attempts) < 1 << 31):
        raise ValidationError(
            f"Invalid LOOKUP hint: max-attempts must be a number above 0, not {attempts!r}",
            position,
        )
    return given["table"], LookupRetries(delay_ms, int(attempts))


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
    tables = [table for table in select.find_all(exp.Table) if table.name]
    all_names = known | {table.name for table in tables}
    unknown = [each for each in hints.lookup if each not in all_names]
    if unknown:
        raise ValidationError(
            "The options of following hints cannot match the name of input tables or views: "
            f"\n`{unknown[0]}` in `LOOKUP`",
            position_of(select.args["hint"], fragment),
            hint=nearest(unknown[0], all_names),
        )
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
