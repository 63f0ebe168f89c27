"""Options of a pipeline about what stands before its sinks: refused where nothing follows them.

emit_expired                  needs an upsert materializer, and no sink of ON CONFLICT DO
ERROR or DO NOTHING: there expiry is never told
net_changes                   needs a materializer, of whatever ON CONFLICT
upsert_materialize_strategy   needs an upsert materializer: no other keeps histories
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.nodes import Sink
from service.runtime.dataflow_errors import InvalidPipelineOption

if TYPE_CHECKING:
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.records import PipelineOptions


def check_materializer_options(plan: CompiledPlan, options: PipelineOptions) -> None:
    """See that something follows what the options say of materializers.

    Raises:
        InvalidPipelineOption: Nothing does, or not all that should.
    """
    sinks = [(node, node.view) for node in plan.nodes if isinstance(node.view, Sink)]
    settling = [node for node, sink in sinks if sink.settles_conflicts]
    keeping = [
        node
        for node, sink in sinks
        if sink.require_upsert_materialize and not sink.settles_conflicts
    ]
    others = [node for node, _ in sinks if node not in settling and node not in keeping]
    if options.emit_expired and (settling or not keeping):
        raise _refused("emit_expired", settling or others)
    if options.net_changes and not (settling or keeping):
        raise _refused("net_changes", others)
    if options.upsert_materialize_strategy is not None and not keeping:
        raise _refused("upsert_materialize_strategy", settling or others)


def _refused(option: str, nodes: list[ExecNode]) -> InvalidPipelineOption:
    """The error that names an option and the first sink that cannot follow it."""
    node = nodes[0]
    settles = isinstance(node.view, Sink) and node.view.settles_conflicts
    found = (
        "settles conflicts by the watermark and keeps no histories"
        if settles
        else "has no upsert materializer"
    )
    return InvalidPipelineOption(
        f'nothing follows option "{option}": the sink {found}',
        option=option,
        hint="leave the option out, or compile the statement with ON CONFLICT DO DEDUPLICATE",
        node_id=node.id,
        node_type=node.type_text,
    )
