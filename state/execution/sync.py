"""The synchronous mode: coroutines over state are driven to their end in place.

`run_now` costs a round trip for each request that the cache cannot answer. `run_together` drives
coroutines of different keys side by side, so that each step of all of them shares one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from state.execution.requests import Request, StateExecutor

T = TypeVar("T")


def run_now(coroutine: Coroutine[Request, None, T], executor: StateExecutor) -> T:
    """Drive one coroutine to its end and give its result.

    Raises: What the coroutine raises, and what `StateExecutor.execute` raises.
    """
    try:
        while True:
            executor.execute((coroutine.send(None),))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()


def run_together(
    coroutines: Iterable[Coroutine[Request, None, Any]], executor: StateExecutor
) -> None:
    """Drive coroutines that do not touch the same key; each step of all is one round trip.

    Raises: What a coroutine raises, and what `StateExecutor.execute` raises; the others are closed.
    """
    running = list(coroutines)
    try:
        while running:
            waiting, requests = [], []
            for each in running:
                try:
                    requests.append(each.send(None))
                except StopIteration:
                    continue
                waiting.append(each)
            running = waiting
            if requests:
                executor.execute(requests)
    finally:
        for each in running:
            each.close()
