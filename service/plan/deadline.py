"""How long a compiled plan may take to be read, checked, explained or compared.

Size, depth and counts are limited before (`PlanLimits`); what is left to time is work that grows
faster than the document, and a machine that is slow. Loops over nodes and expressions call
`check_time`. Without a deadline, as where a pipeline starts, the call does nothing.
"""

from __future__ import annotations

from service.deadline import is_over
from service.plan.errors import PlanTimeout


def check_time() -> None:
    """End work on a plan whose time is over.

    Raises:
        PlanTimeout: It is.
    """
    if is_over():
        raise PlanTimeout(
            "reading the plan takes longer than limits.planning_timeout_ms",
            hint="split it into several pipelines",
        )
