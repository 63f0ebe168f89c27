"""What an operation on state waits for: reads, and where their replies go.

Every operation of a state handle is a coroutine. One that finds what it needs in the epoch's cache
runs to its end; another one yields a `Request` and is resumed once that was executed. Whoever
drives it decides when: at once (`state.execution.sync`), or together with the requests of other
records. There is no event loop, and a request carries no result: the replies fill the cache, and
the operation looks there again.

Source: FLIP-425's StateRequest, with the callback replaced by the rest of the coroutine.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from state.backends.interface import Read


class Request(Protocol):
    """Reads that can go out in one round trip with any others."""

    @property
    def reads(self) -> Sequence[Read]:
        """What is to be read; settled when the request is made."""

    def take(self, replies: Sequence[Any]) -> None:
        """Put the replies, one for each read, where they belong; called once.

        What the epoch has settled meanwhile stays: a reply tells the state before the epoch.
        """


class OneRead:
    """The request for one read, whose reply is given to a function."""

    __slots__ = ("_take", "reads")

    def __init__(self, read: Read, take: Callable[[Any], None]) -> None:
        self.reads = (read,)
        self._take = take

    def take(self, replies: Sequence[Any]) -> None:
        """Give it."""
        self._take(replies[0])


class StateExecutor(Protocol):
    """Executes requests."""

    def execute(self, requests: Sequence[Request]) -> None:
        """Read for all of them in one round trip, and give each its replies.

        Raises: As `EpochTransaction.fetch`.
        """


@types.coroutine
def wait_for(request: Request) -> Generator[Request, None, None]:
    """Suspend the current coroutine until the request was executed."""
    yield request
