"""Heap, Redis and a naive model go the same way: attempts, commits, closes, crashes, runs.

An epoch's writes are drawn once and are the same for each attempt, as for a pure operator. Attempts
of any age may still fetch and commit; what a current one sees is always the state after the epoch
before, and what a stale one does never shows.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state.backends.heap import HeapBackend
from state.backends.interface import (
    Drop,
    HashAdd,
    HashDelete,
    HashPut,
    HashScan,
    LexCount,
    LexRange,
    LexRemove,
    ScoreRemove,
    SortedPut,
    SortedRemove,
    SortedTop,
    StreamAppend,
    StreamScan,
)
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.errors import Fenced
from state.reader import CommittedReader
from state.testing.stand import NODE, Stand

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from state.backends.interface import EpochTransaction, Read, Write

GROUPS = (0, 1)
H, C, Z, L, S = b"h", b"c", b"z", b"l", b"s"
_names = st.sampled_from([b"a", b"b", b"c\xff"])
_bounds = st.one_of(
    st.sampled_from([b"-", b"+"]), st.builds(bytes.__add__, st.sampled_from([b"[", b"("]), _names)
)
_values = st.sampled_from([b"", b"1", b"long" * 20])
_writes = st.one_of(
    st.builds(
        lambda p: HashPut(H, [e for pair in p for e in pair]), st.lists(st.tuples(_names, _values))
    ),
    st.builds(lambda f: HashDelete(H, f), st.lists(_names)),
    st.builds(lambda f, n: HashAdd(C, f, n), _names, st.integers(-3, 3)),
    st.builds(
        lambda p: SortedPut(Z, [e for pair in p for e in pair]),
        st.lists(st.tuples(st.integers(-2, 2), _names)),
    ),
    st.builds(lambda m: SortedRemove(Z, m), st.lists(_names)),
    st.builds(lambda most: ScoreRemove(Z, most), st.integers(-3, 3)),
    st.builds(
        lambda p: SortedPut(L, [e for name in p for e in (0, name)]), st.lists(_names, max_size=3)
    ),
    st.builds(lambda low, high: LexRemove(L, low, high), _bounds, _bounds),
    st.builds(
        lambda e, n: StreamAppend(S, [[b"k", x] for x in e], n),
        st.lists(_values),
        st.integers(1, 3),
    ),
    st.builds(Drop, st.sampled_from([H, C, Z, L, S])),
)
_epochs = st.fixed_dictionaries({each: st.lists(_writes, max_size=4) for each in GROUPS})
READS: list[Read] = [
    read
    for each in GROUPS
    for read in (
        HashScan(each, H),
        HashScan(each, C),
        SortedTop(each, Z, 9),
        LexRange(each, L, b"-", b"+"),
        LexRange(each, L, b"(a", b"(c\xff", 1, reverse=True),
        LexCount(each, L, b"[b", b"+"),
        StreamScan(each, S, None, 9),
    )
]


def within(member: bytes, low: bytes, high: bytes) -> bool:
    """Whether a member lies between two bounds."""
    above = {b"-": True, b"+": False, b"[": member >= low[1:], b"(": member > low[1:]}[low[:1]]
    below = {b"-": False, b"+": True, b"[": member <= high[1:], b"(": member < high[1:]}[high[:1]]
    return above and below


def is_idle(writes: dict[int, list[Write]]) -> bool:
    """Whether these writes do nothing."""
    variadic = (HashPut, HashDelete, SortedPut, SortedRemove, StreamAppend)
    every = [write for group in writes.values() for write in group]
    return all(isinstance(each, variadic) and not each[1] for each in every)


class Model:
    """One key group as plain Python."""

    def __init__(self) -> None:
        self.hashes: dict[bytes, dict[bytes, bytes]] = {H: {}, C: {}}
        self.scores: dict[bytes, float] = {}
        self.members: set[bytes] = set()
        self.stream: list[tuple[bytes, list[bytes]]] = []
        self.last = (0, -1)

    def apply(self, writes: Sequence[Write], epoch: int) -> None:
        for write in writes:
            self._apply(write, epoch)

    def _apply(self, write: Write, epoch: int) -> None:
        match write:
            case HashPut(name, pairs):
                for at in range(0, len(pairs), 2):
                    self.hashes[name][pairs[at]] = pairs[at + 1]
            case HashDelete(name, fields):
                self.hashes[name] = {k: v for k, v in self.hashes[name].items() if k not in fields}
            case HashAdd(name, field, by):
                self.hashes[name][field] = b"%d" % (int(self.hashes[name].get(field, 0)) + by)
            case SortedPut(name, pairs) if name == L:
                self.members.update(pairs[1::2])
            case LexRemove(_, low, high):
                self.members = {m for m in self.members if not within(m, low, high)}
            case SortedPut(_, pairs):
                for at in range(0, len(pairs), 2):
                    self.scores[pairs[at + 1]] = float(pairs[at])
            case ScoreRemove(_, most):
                self.scores = {k: v for k, v in self.scores.items() if v > most}
            case SortedRemove(_, members):
                self.scores = {k: v for k, v in self.scores.items() if k not in members}
            case StreamAppend(_, entries, most):
                for entry in entries[-most:]:
                    self.last = (epoch, self.last[1] + 1 if self.last[0] == epoch else 0)
                    self.stream.append((b"%d-%d" % self.last, list(entry)))
                if entries:
                    self.stream = self.stream[-most:]
            case Drop(name):
                self._drop(name)

    def _drop(self, name: bytes) -> None:
        if name in self.hashes:
            self.hashes[name] = {}
        elif name == Z:
            self.scores = {}
        elif name == L:
            self.members = set()
        else:
            self.stream, self.last = [], (0, -1)

    def read(self) -> list[Any]:
        top = sorted(((score, member) for member, score in self.scores.items()), reverse=True)
        last = sorted(m for m in self.members if within(m, b"(a", b"(c\xff"))[-1:]
        return [
            self.hashes[H],
            self.hashes[C],
            [(m, s) for s, m in top],
            sorted(self.members),
            last,
            sum(within(m, b"[b", b"+") for m in self.members),
            self.stream,
        ]


class EpochMachine(RuleBasedStateMachine):
    """Two backends in step, and the model."""

    stands: list[Stand]

    def fresh(self) -> list[Stand]:
        raise NotImplementedError

    @initialize(writes=_epochs)
    def start(self, writes: dict[int, list[Write]]) -> None:
        self.stands = self.fresh()
        self.model = [Model() for _ in GROUPS]
        self.closed = 0
        self.run = 0
        self.writes = {1: writes}
        self.is_committed = False
        self.attempts: list[tuple[int, int, list[EpochTransaction]]] = []
        self.begin_run()

    @rule()
    def begin_run(self) -> None:
        """The driver died; another run takes over."""
        self.run += 1
        self.is_committed = False
        assert [each.open_run() for each in self.stands] == [self.run] * 2

    @rule()
    def begin_attempt(self) -> None:
        begun = [each.begin(self.closed + 1, self.run) for each in self.stands]
        self.attempts.append((self.closed + 1, self.run, begun))

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def fetch(self, data: st.DataObject) -> None:
        epoch, run, transactions = data.draw(st.sampled_from(self.attempts))
        results = [self._outcome(each.fetch, READS) for each in transactions]
        assert results[0] == results[1]
        if (epoch, run) == (self.closed + 1, self.run):
            assert results[0] == [value for each in self.model for value in each.read()]

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from(self.attempts))
        self.attempts.remove(attempt)
        epoch, run, transactions = attempt
        results = [self._outcome(each.commit, self.writes[epoch]) for each in transactions]
        assert results[0] == results[1]
        if (epoch, run) == (self.closed + 1, self.run):
            assert results[0] is None
            self.is_committed = True
        elif run < self.run:
            # What has nothing to write needs no fence, once it has begun.
            assert results[0] is Fenced or is_idle(self.writes[epoch])

    @precondition(lambda self: self.attempts)
    @rule()
    def crash(self) -> None:
        """Workers are gone, whatever they were at."""
        self.attempts.clear()

    @precondition(lambda self: self.is_committed)
    @rule(writes=_epochs)
    def close(self, writes: dict[int, list[Write]]) -> None:
        self.closed += 1
        for group, model in zip(GROUPS, self.model, strict=True):
            model.apply(self.writes[self.closed][group], self.closed)
        self.is_committed = False
        self.writes[self.closed + 1] = writes
        assert all(each.close(self.closed, run=self.run) for each in self.stands)

    @rule()
    def close_again(self) -> None:
        if self.closed:
            assert not any(each.close(self.closed, run=self.run) for each in self.stands)

    @rule()
    def promote(self) -> None:
        for each in self.stands:
            each.ledger.promote_all([NODE], 4)

    @rule()
    def look(self) -> None:
        for each in self.stands:
            view = each.view(NODE)
            assert view.fetch(READS) == [v for m in self.model for v in m.read()]
            assert view.epoch == self.closed

    @invariant()
    def marker_is_the_last_closed_epoch(self) -> None:
        for each in self.stands:
            assert each.ledger.marker().epoch == self.closed

    @staticmethod
    def _outcome(call: Any, argument: Any) -> Any:
        try:
            return copy.deepcopy(call(argument))
        except Fenced:
            return Fenced


def test_heap_redis_and_model_agree(redis_client: redis.Redis) -> None:
    transport = RedisTransport(redis_client)
    reader = CommittedReader(redis_client, "orders")

    class Machine(EpochMachine):
        def fresh(self) -> list[Stand]:
            redis_client.flushall()
            heap = HeapBackend()
            backend = RedisBackend(transport, "orders")
            ledger = EpochLedger(transport, "orders")
            return [
                Stand("heap", heap, heap.ledger(), heap.view, heap.store.slot.read, pytest.fail),
                Stand("orders", backend, ledger, reader.view, pytest.fail, pytest.fail),
            ]

    case = Machine.TestCase()
    case.settings = settings(
        deadline=None, stateful_step_count=40, suppress_health_check=list(HealthCheck)
    )
    case.runTest()
    reader.close()
    transport.close()
