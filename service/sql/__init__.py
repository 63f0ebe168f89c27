"""SQL in, Flink's compiled plan out.

script, statements                  reading a script; what its statements are
cursor, source_text                 where they stand in it
option_names                        what SET may name
dialect, grammar, foreign, sql_text Flink's grammar on sqlglot; expressions written back as SQL
hint_comments                       hints as the tokenizer can read them
quantifiers, misspelt               ANY, SOME and ALL; words of the grammar that are misspelt
catalogue, ddl, table_hints         tables and views; CREATE TABLE; OPTIONS behind a table
table_draft, table_like, table_as   a table while it is declared; CREATE TABLE .. LIKE, .. AS
metadata                            metadata columns against what connectors have
java_maps                           the order in which Flink lists some of it
types, literals, functions          what expressions are made of; type_names
expressions, conditions, scope      names and expressions bound to typed ones
json_calls, time_units, interval_literals     those with a syntax of their own
deviations                          STDDEV and VAR of sums and counts
constant_folding                    what reads no column, computed
collections, collection_functions   ARRAY[..], MAP[..], ROW(..), elements; functions of these
coercion, rex                       casts that nobody wrote; expressions made and rewritten
binder/                             queries to the algebra: FROM, WHERE, GROUP BY, OVER, hints
algebra, window_relations, terms    relational operators, and what they are described with
rules/                              one rewriting a file, in the order of `RULES`
join_keys, logical_keys, intervals, window_columns     what rules ask about relations
physical/                           nodes for relations; changes, phases, sinks; their JSON
to_plan, to_json                    the document: ids, edges, types
options                             what SET may change about a plan
session                             statements one after the other; `compile_script`
named_session                       a session that outlives its request, as text
show, explain, logical_text         what SHOW, DESCRIBE and EXPLAIN answer
errors                              the tree of what can be wrong, with line and column
deadline                            how long planning may take
"""

from service.sql.errors import (
    PlanningError,
    Position,
    SqlError,
    SqlSyntaxError,
    SqlTimeout,
    SqlTooLarge,
    UnsupportedSql,
    ValidationError,
)
from service.sql.session import PlannedStatement, Session, compile_script

__all__ = [
    "PlannedStatement",
    "PlanningError",
    "Position",
    "Session",
    "SqlError",
    "SqlSyntaxError",
    "SqlTimeout",
    "SqlTooLarge",
    "UnsupportedSql",
    "ValidationError",
    "compile_script",
]
