"""The parts of sqlglot's grammar that we plan; whatever else it reads is refused by name.

sqlglot reads the clauses of many dialects. Each kind of node lists what of it is understood here; a
clause beside these would be dropped silently, and the plan would be of another statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.sql.errors import UnsupportedSql, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.sql.errors import Position

_QUERY = frozenset({"with_", "order", "limit", "offset"})
_UNDERSTOOD: dict[type, frozenset[str]] = {
    exp.Select: _QUERY
    | {"expressions", "from_", "joins", "where", "group", "having", "distinct", "hint", "windows"}
    | {"qualify"},
    exp.Qualify: frozenset({"this"}),
    exp.Union: _QUERY | {"this", "expression", "distinct"},
    exp.Intersect: _QUERY | {"this", "expression", "distinct"},
    exp.Except: _QUERY | {"this", "expression", "distinct"},
    exp.Subquery: _QUERY | {"this", "alias", "joins"},
    exp.Values: frozenset({"expressions", "alias"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "version", "joins", "hint"}),
    exp.From: frozenset({"this"}),
    exp.Unnest: frozenset({"expressions", "alias", "offset"}),
    exp.Lateral: frozenset({"this", "alias"}),
    exp.Bracket: frozenset({"this", "expressions"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.Join: frozenset({"this", "side", "kind", "on", "using", "method"}),
    exp.Group: frozenset({"expressions", "grouping_sets", "rollup", "cube"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.With: frozenset({"expressions", "recursive"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Order: frozenset({"expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.LimitOptions: frozenset({"rows"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Between: frozenset({"this", "low", "high", "symmetric"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.TryCast: frozenset({"this", "to", "safe", "requires_string"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.Trim: frozenset({"this", "expression", "position"}),
    exp.Overlay: frozenset({"this", "expression", "from_", "for_"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Floor: frozenset({"this", "to"}),
    exp.Ceil: frozenset({"this", "to"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.Filter: frozenset({"this", "expression"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Star: frozenset(),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Exists: frozenset({"this"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.SimilarTo: frozenset({"this", "expression"}),
    exp.Escape: frozenset({"this", "expression"}),
    exp.Is: frozenset({"this", "expression"}),
    exp.JSON: frozenset({"this"}),
    exp.Extract: frozenset({"this", "expression"}),
}


_WHOLE = {"MATCH": "MATCH_RECOGNIZE", "SAMPLE": "TABLESAMPLE", "PIVOTS": "PIVOT"}
"""What sqlglot takes for a clause, by the word that was written."""


def check_grammar(tree: exp.Expression, place: Callable[[exp.Expression], Position]) -> None:
    """Refuse what of a tree we do not understand.

    Raises:
        UnsupportedSql: A clause that would be passed over.
        ValidationError: GROUP BY without what to group by.
    """
    for node in tree.walk():
        if isinstance(node, exp.Group) and not any(node.args.values()):
            raise ValidationError("GROUP BY is followed by nothing", place(node.parent or node))
        understood = _UNDERSTOOD.get(type(node))
        if understood is None:
            continue
        for name, value in node.args.items():
            if value and name not in understood:
                clause = name.strip("_").replace("_", " ").upper()
                if clause in _WHOLE:
                    raise UnsupportedSql(f"{_WHOLE[clause]} is not supported", place(node))
                raise UnsupportedSql(
                    f"{clause} of {node.key.upper()} is not supported", place(node)
                )
