"""The compiled plan: Flink's JSON, read into typed nodes, checked, explained.

document          text -> `CompiledPlan`, or everything that is wrong with it
nodes, node_reader, node_types, node_checks      what a node is, and what it must keep to
node_shapes       what Flink reads of nodes that have no view here
correlate         table functions that a row is joined with: UNNEST, repeated rows
graph             edges: inputs in order, topological order, sinks
properties        JSON objects read by type, with the place where that fails; json_names
tables            tables as a plan describes them, and a catalogue's
secrets           which of their options are secret
metadata          what connectors tell of a record beside its columns
rex, type_json    expressions and types; rex_values: literals
local_zone, zoned the plan's time zone; expressions that read it, in terms of UTC
durations, state_ttl       times to live, and who said so
changelog_mode, changelog_modes, keys      what an edge carries, and what tells its rows apart
support           what we cannot run yet; pushed: what sources took over
determinism       what is computed anew where it had to be what it was
missing_retractions       nodes that are not given the row before an update
explanation, findings      the same for people; trees: drawn
state_warnings    what grows for ever, what is forgotten too early
diff, ttl_edit    what a change of a plan means for state; changing a time to live
state_meaning     what states, tables and sources mean
continuation      the judgement: what of them another plan goes on with
restore           tables of which a plan has only the names, from a catalogue
deadline          how long all of this may take
errors            the tree of what can be wrong
"""

from service.plan.changelog_mode import ChangelogMode
from service.plan.changelog_modes import changelog_modes
from service.plan.diff import PlanDifference, diff
from service.plan.document import CompiledPlan, PlanLimits, check_document, load_plan
from service.plan.durations import format_duration_ms, parse_duration_ms
from service.plan.errors import DurationError, PlanError
from service.plan.explanation import Explanation, explain
from service.plan.findings import Finding, validate, wrong_tables
from service.plan.keys import upsert_keys
from service.plan.nodes import Edge, ExecNode, StateMetadata
from service.plan.support import RUN_WITHOUT_VIEW, Unsupported, unsupported
from service.plan.ttl_edit import edited_plan, with_ttls

__all__ = [
    "RUN_WITHOUT_VIEW",
    "ChangelogMode",
    "CompiledPlan",
    "DurationError",
    "Edge",
    "ExecNode",
    "Explanation",
    "Finding",
    "PlanDifference",
    "PlanError",
    "PlanLimits",
    "StateMetadata",
    "Unsupported",
    "changelog_modes",
    "check_document",
    "diff",
    "edited_plan",
    "explain",
    "format_duration_ms",
    "load_plan",
    "parse_duration_ms",
    "unsupported",
    "upsert_keys",
    "validate",
    "with_ttls",
    "wrong_tables",
]
