"""Rewriting a query: what it means stays, the shape becomes that of Flink's plan.

A rule is a module with one function of its name, from relation to relation; its docstring shows a
query before and after. `RULES` is their order, which matters; the reason stands beside each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from service.sql.rules.expand_below_windows import expand_below_windows
from service.sql.rules.expand_grouping_sets import expand_grouping_sets
from service.sql.rules.expand_set_operations import expand_set_operations
from service.sql.rules.extract_over import extract_over
from service.sql.rules.lift_projections import lift_projections
from service.sql.rules.materialize_time import materialize_time
from service.sql.rules.merge_joins import merge_joins
from service.sql.rules.merge_projections import merge_projections
from service.sql.rules.propagate_constants import propagate_constants
from service.sql.rules.prune_columns import prune_columns
from service.sql.rules.prune_empty import prune_empty
from service.sql.rules.pull_constants import pull_constants
from service.sql.rules.push_aggregates import push_aggregates
from service.sql.rules.push_filters import push_filters
from service.sql.rules.push_join_expressions import push_join_expressions
from service.sql.rules.push_projections import push_projections
from service.sql.rules.recognize_rank import recognize_rank
from service.sql.rules.reduce_averages import reduce_averages
from service.sql.rules.reduce_deviations import reduce_deviations
from service.sql.rules.remove_aggregates import remove_aggregates
from service.sql.rules.remove_joins import remove_joins
from service.sql.rules.split_distinct import split_distinct
from service.sql.rules.wrap_json_arguments import wrap_json_arguments

if TYPE_CHECKING:
    from service.sql.algebra import Relation
    from service.sql.options import Options


class Rule(Protocol):
    """A rewriting."""

    def __call__(self, relation: Relation) -> Relation:
        """The same rows, made in another way; the same object where nothing applies."""


BEFORE: tuple[Rule, ...] = (
    merge_projections,  # first: what only renames is no operator, and hides none
    push_filters,  # early: a condition must stand right above what it can turn into something else
    expand_set_operations,  # after it: a condition passes to both sides, but no count of rows
    prune_empty,  # needs conditions where they are asked; what has no rows is nobody's concern
    remove_aggregates,  # before ranks, of which it knows no key
    merge_projections,  # what came in the place of aggregates
    recognize_rank,  # needs the condition above ROW_NUMBER; else the function becomes an Over
    push_filters,  # conditions that waited above ROW_NUMBER
    extract_over,  # what is left of OVER; from here on projections are plain
    expand_grouping_sets,  # gives aggregates without sets, which the rest understands
    merge_projections,  # the projection below must stand right above windows
    expand_below_windows,  # what was expanded may be windows
    push_filters,  # conditions on groups that waited above the sets
    propagate_constants,  # before pruning: a constant column need not be carried
    pull_constants,  # after it: conditions make constants of columns
    push_join_expressions,  # before pruning: the columns that it reads are needed below only
    merge_projections,  # fewer projections for the rules that look at what is right below
    remove_joins,  # before pruning: it looks at whole joins
    push_aggregates,  # after it: a join that goes needs no aggregate below
)
NARROWING: tuple[Rule, ...] = (
    prune_columns,  # projections appear below joins and ranks
    push_projections,  # after pruning, which says what of a union is read
    merge_projections,  # those that pruning put above others
    lift_projections,  # after pruning: it takes back what pruning put below sorts
    reduce_deviations,  # before averages: it takes them along
    reduce_averages,  # looks at the calls that are left
    wrap_json_arguments,  # adds columns, which pruning would take back
    merge_projections,  # what was added above projections
)
AFTER: tuple[Rule, ...] = (
    materialize_time,  # last of those that add expressions
    merge_projections,  # what was added above projections
)


def rewrite(relation: Relation, options: Options) -> Relation:
    """The relation that nodes are chosen for."""
    for rule in BEFORE:
        relation = rule(relation)
    # Before pruning: what stands between the joins of a chain would keep them apart.
    relation = merge_joins(relation, options)
    for rule in NARROWING:
        relation = rule(relation)
    # Whether and how it applies is for the options to say, as for the one above.
    relation = split_distinct(relation, options)
    for rule in AFTER:
        relation = rule(relation)
    return relation
