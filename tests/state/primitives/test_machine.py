"""The primitives against their models, on both backends, with every layout and TTL."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from state.testing.primitive_machine import PrimitiveMachine
from state.testing.stand import heap_stand, redis_stand

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import redis

    from state.testing.stand import Stand


def run(open_stand: Callable[[], AbstractContextManager[Stand]], examples: int) -> None:
    machine: Any = type("Machine", (PrimitiveMachine,), {"open_stand": staticmethod(open_stand)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            deadline=None,
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_on_heap() -> None:
    run(lambda: contextlib.nullcontext(heap_stand()), settings.default.max_examples)


def test_on_redis(redis_client: redis.Redis) -> None:
    """A quarter of the examples: an epoch is several round trips."""

    @contextlib.contextmanager
    def fresh() -> Any:
        redis_client.flushall()
        with redis_stand(redis_client) as stand:
            yield stand

    run(fresh, settings.default.max_examples // 4)
