"""Errors of keyed state.

    StateError                     code state-error
    ├── StateUnavailable           Redis is away, loading, full or too slow: retry with a limit
    │   ├── ViewMoved              an epoch was closed while a reader looked: look again
    │   └── LookupTimedOut         what a record was looked up in did not answer in time
    ├── StateAccessDenied          Redis refuses our credentials or a command: a person must act
    ├── Fenced                     the caller is stale: a newer run, or its epoch is closed
    ├── StagedWritesGone           what an epoch's tasks staged is gone: run the epoch again
    ├── IncarnationChanged         Redis restarted under a run: start a new run
    ├── StateLost                  Redis and checkpoint do not belong together: never go on
    ├── StateCorrupt               something stored is not what we write: stop, keep the evidence
    ├── FormatVersionMismatch      something stored is of another format version
    ├── CodecMismatch              a state was registered with another kind or codec
    ├── InvalidTtl                 a time to live, or how it is cleaned up, makes no sense
    ├── InvalidThresholds          the thresholds of a layout leave no gap
    ├── InvalidName                a state cannot have this name
    ├── SavepointError             something about a savepoint; never raised itself
    │   ├── SavepointCorrupt       its files are not what was written: nothing was restored
    │   ├── SavepointMismatch      it does not fit the pipeline: nothing was restored
    │   ├── SavepointTargetInUse   the pipeline to restore into has state already
    │   └── SavepointIncomplete    a restore began and did not end: restore again
    ├── OperatorFailed             an operator's own code raised: the task fails
    └── InvariantViolation         our bug: stop, keep the evidence

Spark brings an error of a worker to the service as text only, so `code` is what the service acts
on. Messages name pipelines, nodes, key groups, epochs and runs; never row values.
"""

from __future__ import annotations

from typing import ClassVar


class StateError(Exception):
    """Something that keyed state cannot go on with."""

    code = "state-error"
    """Stable; for logs, the API and the text that passes through Spark."""
    where = ""
    """The node, epoch and hashed key of the record that met it, where a controller ran one."""
    advice: ClassVar[str] = ""
    """What to do, where an error has no hint of its own."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.advice


class StateUnavailable(StateError):
    """Redis does not answer, is loading its data, is full, or refuses writes for now."""

    code = "state-unavailable"


class ViewMoved(StateUnavailable):
    """Another epoch was closed while a reader looked; looking again shows that one."""

    code = "state-view-moved"


class LookupTimedOut(StateUnavailable):
    """What a record was looked up in did not answer within its time, retries included."""

    code = "lookup-timed-out"


class StateAccessDenied(StateError):
    """Redis refuses the credentials, or does not allow them a command."""

    code = "state-access-denied"


class Fenced(StateError):
    """The caller is stale: a newer run owns the pipeline, or the epoch is closed already.

    Never a reason to retry in place: either another attempt did the work, or another run will.
    """

    code = "state-fenced"


class SinkTakenOver(Fenced):
    """Another pipeline has taken over what this one writes: no run of this one writes there again.

    That is for good, whoever tries again.
    """

    code = "sink-taken-over"


class StagedWritesGone(StateError):
    """An epoch cannot close, because a staged list is missing or short; a new run stages anew."""

    code = "state-staged-writes-gone"


class IncarnationChanged(StateError):
    """Redis is not the process that the run began with: acknowledged writes may be gone.

    The query fails and is started again as a new run, which runs the whole epoch anew.
    """

    code = "state-incarnation-changed"

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(
            f"redis run id is {found}, the run began with {expected}",
            hint="a new run takes over by itself; nothing that was closed is touched",
        )
        self.expected = expected
        self.found = found


class StateLost(StateError):
    """State and checkpoint do not belong together; going on would give wrong results."""

    code = "state-lost"

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="restore the redis that belongs to the checkpoint, or create the pipeline anew, "
            "from a savepoint if there is one",
        )


class StateCorrupt(StateError):
    """Something stored is not what this version writes, or has another type."""

    code = "state-corrupt"
    advice = (
        "nothing was overwritten: look at what is stored, then restore the latest savepoint, or "
        "the redis that belongs to the checkpoint"
    )


class FormatVersionMismatch(StateError):
    """Something stored has a format version that this version of the software cannot read."""

    code = "state-format-version-mismatch"
    advice = "run the version of the software that wrote it, and move by a savepoint"


class CodecMismatch(StateError):
    """A state is stored in another kind or with another codec than it is asked for with."""

    code = "state-codec-mismatch"
    advice = "give the state another name, or restore a savepoint that was converted"


class InvalidTtl(StateError, ValueError):
    """A time to live that is not positive, or limits of its clean-up that are negative."""

    code = "state-invalid-ttl"
    advice = "give a number of milliseconds above 0"


class InvalidThresholds(StateError, ValueError):
    """The two sizes between which a layout changes leave no gap."""

    code = "state-invalid-thresholds"
    advice = "let the size at which a layout is packed again be below that at which it is spread"


class InvalidName(StateError, ValueError):
    """No name for a state: it is no ASCII identifier, or one of those that we keep for us."""

    code = "state-invalid-name"


class SavepointError(StateError):
    """What errors of savepoints have in common."""

    code = "savepoint"


class SavepointCorrupt(SavepointError):
    """A file of a savepoint is missing, cut off or changed; nothing was restored from it."""

    code = "savepoint-corrupt"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="use another savepoint, or a copy of this one")


class SavepointMismatch(SavepointError):
    """A savepoint does not fit the pipeline that it is to be restored into."""

    code = "savepoint-mismatch"


class SavepointTargetInUse(SavepointError):
    """The pipeline that a savepoint is to be restored into has state; nothing was touched."""

    code = "savepoint-target-in-use"


class SavepointIncomplete(SavepointError):
    """A restore into the pipeline began and did not end: what is there is no state."""

    code = "savepoint-incomplete"


class OperatorFailed(StateError):
    """The code of an operator raised; says where, and its cause is what was raised."""

    code = "operator-failed"


class InvariantViolation(StateError):
    """A rule that only a bug of ours can break was broken."""

    code = "state-invariant"
