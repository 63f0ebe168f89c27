"""What SET says of how a pipeline runs; how it is planned is `service.sql.options`.

    table.exec.state.ttl                          TTL of state whose plan names none
    table.exec.source.idle-timeout                how long a source may hold watermarks back
    execution.async-state.total-buffer-size       changes of an operator in flight
    execution.async-state.active-buffer-size      state requests that go out together
    execution.async-state.active-buffer-timeout   longest wait of a request for others
    table.exec.async-state.enabled                false: one change after the other
    table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high, .low
    table.local-time-zone                         zone of a plan that names none

What a request names wins over them. Operators always run through the controller, so that true says
nothing; with false a change begins when the one before it has ended. What is emitted is the same.

Source: Flink `ExecutionOptions` and `ExecutionConfigOptions` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pydantic

from service.api.models import OptionsBody
from service.api.validation_words import in_words
from service.plan.local_zone import UNSAID, ZONE_OPTION
from service.sql.errors import ValidationError
from service.sql.option_names import THRESHOLD_HIGH, THRESHOLD_LOW
from service.sql.options import Options
from state.execution.limits import BATCH_OPTION, IN_FLIGHT_OPTION, TIMEOUT_OPTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.runtime.records import PipelineOptions

_TTL = "table.exec.state.ttl"
_IDLE = "table.exec.source.idle-timeout"
_ENABLED = "table.exec.async-state.enabled"
_MEMBERS = {
    _TTL: "default_ttl_ms",
    _IDLE: "source_idle_timeout_ms",
    IN_FLIGHT_OPTION: "async_in_flight_max",
    BATCH_OPTION: "async_batch_max",
    TIMEOUT_OPTION: "async_timeout_ms",
    THRESHOLD_HIGH: "adaptive_threshold_high",
    THRESHOLD_LOW: "adaptive_threshold_low",
    ZONE_OPTION: "local_time_zone",
}
"""The member of a request's options that stands for each."""
_DURATIONS = (_TTL, _IDLE, TIMEOUT_OPTION)


def with_session(given: PipelineOptions, said: Mapping[str, str]) -> PipelineOptions:
    """The options of a request, with gaps filled by what SET said.

    Args:
        given: Those of the request.
        said: All options of the session; others than those above are not looked at.

    Raises:
        ValidationError: A value is none.
    """
    options = Options(said)
    found: dict[str, Any] = {
        member: _value(options, name)
        for name, member in _MEMBERS.items()
        if name in said and said[name] != UNSAID
    }
    _check_bounds(found)
    if not options.flag(_ENABLED, default=True):
        found["async_in_flight_max"] = 1
    return replace(
        given, **{name: each for name, each in found.items() if getattr(given, name) is None}
    )


def _value(options: Options, name: str) -> int | str:
    if name == ZONE_OPTION:
        return options.text(name, UNSAID)
    return options.duration_ms(name) if name in _DURATIONS else options.integer(name, 0)


def _check_bounds(found: Mapping[str, int | str]) -> None:
    """Refuse what a request could not ask for either."""
    try:
        OptionsBody.model_validate(found)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        names = {member: name for name, member in _MEMBERS.items()}
        name = names[str(problem["loc"][0])]
        raise ValidationError(
            f"option {name}: {in_words(problem['type'], problem['msg'])}"
        ) from error
