"""The watermark-compacting materializer of a sink: ON CONFLICT DO ERROR, DO NOTHING."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.compacting_materializer import CompactingSpec
from service.plan.nodes import Sink

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def compacting_spec(at: StatefulNode) -> CompactingSpec:
    """The operator that stands before a sink whose conflicts are settled by the watermark.

    It takes the place of the upsert materializer, whatever strategy the plan names.

    Raises:
        UnsupportedNode: The sink has no primary key, or another clause.
    """
    sink = at.node.view
    if not isinstance(sink, Sink) or not sink.primary_key:
        raise at.refuse("a primary key is needed to settle conflicts", "dynamicTableSink")
    if sink.conflict_behavior not in ("ERROR", "NOTHING"):
        raise at.refuse("only DO ERROR and DO NOTHING wait for watermarks", "conflictStrategy")
    return CompactingSpec.build(
        inputs=(at.input(0, sink.primary_key),),
        upsert_key=sink.input_upsert_key or (),
        behavior=sink.conflict_behavior,
        net_changes=at.options.net_changes if at.options else False,
        **at.common,
    )
