"""A pipeline whose database or broker is away is tried again for as long as that lasts."""

from __future__ import annotations

from service.runtime.status import Neighbour, Waiting
from tests.service.runtime.rig import LIMITS, Rig, in_rig

AWAY = "sink-unavailable"


async def refused(rig: Rig, times: int) -> list[int | None]:
    """Let queries start and end so often with the sink away; the wait behind each."""
    delays = []
    for _ in range(times):
        rig.query_ends(AWAY)
        await rig.look()
        delays.append(rig.clock.remaining_ms())
        await rig.clock.advance(LIMITS.backoff_max_ms)
    return delays


@in_rig
async def test_a_silent_sink_is_tried_again_without_a_limit_ever_more_slowly(rig: Rig) -> None:
    await rig.running()

    delays = await refused(rig, LIMITS.restarts_max + 3)

    assert delays == [500, 1_000, 2_000, 4_000, 4_000, 4_000]
    assert (rig.status.state, rig.status.restarts) == ("RUNNING", 0)


@in_rig
async def test_the_status_says_since_when_a_sink_is_waited_for(rig: Rig) -> None:
    await rig.running()
    rig.query_ends(AWAY)
    await rig.look()
    since = Waiting(Neighbour.SINK, rig.clock.ms)

    assert (rig.status.state, rig.error_code, rig.status.waiting) == ("RESTARTING", AWAY, since)
    # A look at the registry in between asks nobody but Redis.
    rig.supervisor.wake("p")
    await rig.settle()
    assert (rig.status.state, rig.error_code, rig.status.waiting) == ("RESTARTING", AWAY, since)

    await rig.clock.advance(500)
    assert (rig.status.state, rig.status.waiting) == ("RUNNING", None)
    rig.query_ends(AWAY)
    await rig.look()
    assert rig.status.waiting == since


@in_rig
async def test_an_epoch_that_is_closed_ends_the_wait_for_a_sink(rig: Rig) -> None:
    await rig.running()
    await refused(rig, 3)
    rig.ledgers.epochs["p"] = 1
    await rig.look()

    (delay,) = await refused(rig, 1)

    assert delay == 500


@in_rig
async def test_other_failures_are_counted_beside_a_silent_sink(rig: Rig) -> None:
    await rig.running()
    for _ in range(LIMITS.restarts_max):
        rig.query_ends()
        await rig.look()
        await rig.clock.advance(LIMITS.backoff_max_ms)
        await refused(rig, 2)

    rig.query_ends()
    await rig.look()

    assert (rig.status.state, rig.error_code) == ("FAILED", "query.failed")


@in_rig
async def test_a_pipeline_that_waits_for_its_sink_can_be_stopped_and_started(rig: Rig) -> None:
    await rig.running()
    await refused(rig, 3)
    rig.query_ends(AWAY)
    await rig.look()

    await rig.order("STOPPED")
    assert (rig.status.state, rig.status.waiting, rig.error_code) == ("STOPPED", None, None)
    await rig.order("RUNNING")
    assert rig.status.state == "RUNNING"


@in_rig
async def test_an_order_tries_a_silent_sink_at_once(rig: Rig) -> None:
    await rig.running()
    await refused(rig, 3)
    rig.query_ends(AWAY)
    await rig.look()

    await rig.order("RUNNING")

    assert rig.status.state == "RUNNING"
    assert await refused(rig, 1) == [500]
