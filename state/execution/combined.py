"""Several operations of one record side by side: what they ask for goes out as one request.

    left, right = await combine_all(lefts.value(), rights.value())      # one round trip, not two

Source: Flink's `StateFutureUtils.combineAll` and `StateFuture.thenCombine`. Flink has to cope with
every order in which futures complete; here all that the operations wait for is answered at once.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from state.backends.interface import Read
    from state.execution.requests import Request


class CombinedRequest:
    """Several requests as one."""

    __slots__ = ("_counts", "_requests", "reads")

    def __init__(self, requests: Sequence[Request]) -> None:
        of_each = [request.reads for request in requests]
        self._requests = requests
        self._counts = [len(reads) for reads in of_each]
        self.reads: Sequence[Read] = [read for reads in of_each for read in reads]

    def take(self, replies: Sequence[Any]) -> None:
        """Give each request its own."""
        start = 0
        for request, count in zip(self._requests, self._counts, strict=True):
            request.take(replies[start : start + count])
            start += count


async def combine_all(*operations: Coroutine[Any, None, Any]) -> list[Any]:
    """Run operations side by side, and give their results in the order given.

    They are of one record: all act on its key, and none may set a namespace. Each begins in the
    order given, and goes on in that order whenever what all of them wait for was answered. State
    that one of them writes is seen by the others from then on.

    Raises: What the first of them raises that does; the others are closed.
    """
    return await _side_by_side(operations)


@types.coroutine
def _side_by_side(
    operations: Sequence[Coroutine[Any, None, Any]],
) -> Generator[CombinedRequest, None, list[Any]]:
    results: list[Any] = [None] * len(operations)
    going = list(range(len(operations)))
    try:
        while going:
            requests: list[Request] = []
            waiting: list[int] = []
            for place in going:
                try:
                    requests.append(operations[place].send(None))
                    waiting.append(place)
                except StopIteration as end:
                    results[place] = end.value
            going = waiting
            if requests:
                yield CombinedRequest(requests)
    finally:
        for operation in operations:
            operation.close()
    return results
