"""Epochs in a topic: sent once, by the run that may, or refused."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import confluent_kafka
import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException

from operators.wire import WorkerError
from service.runtime.dataflow_errors import InvalidTableOption, SinkRefused, SinkUnavailable
from service.runtime.sinks import items
from service.runtime.sinks.kafka import session
from service.runtime.slot_keys import KAFKA_NAME, slot_key
from state.epochs import EpochLedger
from state.errors import Fenced, StateLost
from state.testing.faults import ProcessDied
from tests.service.runtime.sinks.kafka.broker import PRODUCE
from tests.service.runtime.sinks.kafka.stand import (
    APPEND,
    CHANGELOG,
    COLUMNS,
    UPSERT,
    KafkaPipeline,
    forget_sessions,
    table_of,
)

if TYPE_CHECKING:
    from tests.service.runtime.sinks.kafka.broker import Broker

GROUP = "tailrace:p:out"
KEYS = "key.fields"
MS = timedelta(milliseconds=1)


def held(broker: Broker) -> str:
    found = broker.group(GROUP, "out")
    assert found is not None
    assert found[1] is not None
    return found[1].rstrip("\0")


def test_a_record_is_the_last_row_of_its_key_or_a_key_alone(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    upsert.write(1, [("+I", "a", 1), ("+U", "a", 2), ("+I", "b", 1)], [("+I", "c", None)])
    upsert.write(2, [("-D", "a", 2), ("-U", "b", 1), ("+U", "b", 3), ("-U", "c", None)])

    assert sorted(broker.read("out"), key=repr) == [
        (b'{"k":"a"}', None),
        (b'{"k":"a"}', b'{"k":"a","v":2}'),
        (b'{"k":"b"}', b'{"k":"b","v":1}'),
        (b'{"k":"b"}', b'{"k":"b","v":3}'),
        (b'{"k":"c"}', None),
        (b'{"k":"c"}', b'{"k":"c","v":null}'),
    ]
    assert table_of(broker.read("out")) == {("b",): {"k": "b", "v": 3}}


def test_a_key_that_moves_from_one_task_to_another_stays(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    upsert.write(1, [("+I", "a", 2)], [("-D", "a", 1)])

    assert table_of(broker.read("out")) == {("a",): {"k": "a", "v": 2}}


def test_the_group_tells_run_and_epoch_also_of_epochs_without_rows(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    assert held(broker) == f"tailrace/1 {upsert.id} 1 0"
    upsert.write(1)
    upsert.write(2, [("+I", "a", 1)])
    assert held(broker) == f"tailrace/1 {upsert.id} 1 2"
    assert broker.group(GROUP, "out")[0] == 2
    upsert.start()
    assert held(broker) == f"tailrace/1 {upsert.id} 2 2"


def test_a_new_run_goes_on_and_the_one_before_is_fenced(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    zombie = dataclasses.replace(upsert)
    upsert.write(1, [("+I", "a", 1)])
    upsert.start()
    # Twice: with the session that it kept, and with one that it opens.
    for _ in range(2):
        with pytest.raises((WorkerError, Fenced), match="run 2"):
            zombie.write(2, [("+I", "a", 7)])
        forget_sessions()
    upsert.write(2, [("+U", "a", 2)])

    assert table_of(broker.read("out")) == {("a",): {"k": "a", "v": 2}}
    assert len(broker.read("out", uncommitted=True)) == 2


def test_an_epoch_that_the_topic_has_is_not_sent_again(
    broker: Broker, upsert: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _die_behind_the_transaction(upsert, monkeypatch)
    assert held(broker) == f"tailrace/1 {upsert.id} 2 1"
    upsert.write(1, [("+I", "a", 1)])

    assert broker.read("out", uncommitted=True) == [(b'{"k":"a"}', b'{"k":"a","v":1}')]


def _die_behind_the_transaction(upsert: KafkaPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of epoch 1; the next run has begun."""

    def die(*_given: object) -> None:
        raise ProcessDied

    with monkeypatch.context() as patch:
        patch.setattr(EpochLedger, "close_epoch", die)
        with pytest.raises(ProcessDied):
            upsert.write(1, [("+I", "a", 1)])
    upsert.start()


def test_an_epoch_that_the_topic_has_of_another_input_is_lost_state(
    broker: Broker, upsert: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine stopped behind the transaction; Spark lost its record, and made it anew."""
    _die_behind_the_transaction(upsert, monkeypatch)
    upsert.at = 1

    with pytest.raises(WorkerError, match="topic out has epoch 1, which was written with other"):
        upsert.write(1, [("+I", "a", 1), ("+I", "b", 2)])

    upsert.at = 0
    upsert.write(1, [("+I", "a", 1)])
    assert len(broker.read("out")) == 1


@pytest.mark.parametrize("behind", [0, 3])
def test_a_topic_of_another_epoch_than_the_state_is_refused(
    broker: Broker, upsert: KafkaPipeline, behind: int
) -> None:
    for epoch in (1, 2, 3):
        upsert.write(epoch, [("+I", "a", epoch)])
    key = f"tailrace:{{{upsert.name}}}:marker"
    upsert.client.hset(key, "epoch", 1 if not behind else 3 + behind)

    with pytest.raises(StateLost, match=r"topic out of epoch 3"):
        upsert.start()


def test_a_group_that_was_lost_is_made_again_where_nothing_is_in_doubt(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    upsert.write(1, [("+I", "a", 1)])
    broker.offsets.clear()
    upsert.start()
    assert held(broker) == f"tailrace/1 {upsert.id} 2 1"
    upsert.write(2, [("+U", "a", 2)])
    assert len(broker.read("out")) == 2


def test_a_group_that_was_lost_with_an_epoch_in_doubt_is_refused(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    upsert.write(1, [("+I", "a", 1)])
    upsert.client.hset(slot_key(upsert.name, KAFKA_NAME), GROUP, 2)
    broker.offsets.clear()

    with pytest.raises(StateLost, match="may have epoch 2"):
        upsert.start()


def test_a_group_that_is_lost_while_a_run_writes_ends_it(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    upsert.write(1, [("+I", "a", 1)])
    broker.offsets.clear()

    with pytest.raises(WorkerError, match="state-lost"):
        upsert.write(2, [("+I", "b", 1)])
    assert len(broker.read("out", uncommitted=True)) == 1


def test_a_claim_that_arrived_while_its_answer_was_lost_holds(
    broker: Broker, pipeline: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim looks again, and finds itself: no second sink has the topic."""
    pipeline.topic(broker, "out", COLUMNS, UPSERT, key=["k"])
    left = ["a zombie takes the transactional id after the commit"]

    class Overtaken(confluent_kafka.Producer):
        def commit_transaction(self, *given: Any) -> None:
            super().commit_transaction(*given)
            if left:
                left.clear()
                raise KafkaException(KafkaError(KafkaError._FENCED))

    monkeypatch.setattr(session, "Producer", Overtaken)
    pipeline.start()

    assert left == []
    assert held(broker) == f"tailrace/1 {pipeline.id} 1 0"
    pipeline.write(1, [("+I", "a", 1)])
    assert broker.read("out") == [(b'{"k":"a"}', b'{"k":"a","v":1}')]


def test_an_epoch_that_is_larger_than_what_the_client_holds_is_sent_whole(
    broker: Broker, pipeline: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the brokers take records there is room for the next: memory does not grow with it."""
    full = []

    class Counted(confluent_kafka.Producer):
        def produce(self, *given: Any, **named: Any) -> None:
            try:
                super().produce(*given, **named)
            except BufferError:
                full.append(1)
                raise

    monkeypatch.setattr(session, "Producer", Counted)
    monkeypatch.setattr(session, "_QUEUE_KB", 4)
    given = {"properties.max.request.size": "1000"}
    pipeline.topic(broker, "one", COLUMNS, APPEND, **given)
    pipeline.start()
    rows = 3 * items.ROWS_PER_ITEM // 2
    pipeline.write(1, [("+I", "a", n) for n in range(rows)])

    assert full
    values = [orjson.loads(value)["v"] for _, value in broker.read("one")]
    assert values == list(range(rows))


def test_brokers_that_take_nothing_are_waited_for_no_longer_than_told(
    broker: Broker, pipeline: KafkaPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be as long as a transaction may last."""

    class Hasty(confluent_kafka.Producer):
        """Waits are over soon, and counted whole."""

        def poll(self, _seconds: float) -> int:
            return int(super().poll(0.01))

    monkeypatch.setattr(session, "Producer", Hasty)
    monkeypatch.setattr(session, "_QUEUE_KB", 4)
    pipeline.topic(broker, "one", COLUMNS, APPEND, **{"properties.max.request.size": "1000"})
    pipeline.start()

    def refuse(kind: int) -> None:
        if kind == PRODUCE:
            raise ConnectionAbortedError

    broker.before = refuse
    with pytest.raises(SinkUnavailable, match="takes no records for topic one"):
        pipeline.write(1, [("+I", "a", n) for n in range(1_000)])
    broker.before = lambda _kind: None
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1)])
    assert broker.read("one") == [(None, b'{"k":"a","v":1}')]


def test_an_offset_that_somebody_else_has_committed_is_refused(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    broker.offsets[GROUP, "out", 0] = (17, "")

    with pytest.raises(StateLost, match="none that a sink has left"):
        upsert.start()


def test_a_pipeline_made_anew_takes_the_topic_over(broker: Broker, upsert: KafkaPipeline) -> None:
    upsert.write(1, [("+I", "a", 1)])
    anew = upsert.anew()
    anew.start(drops=True)
    anew.write(1, [("+I", "b", 1)])

    with pytest.raises((WorkerError, Fenced), match="another pipeline"):
        upsert.write(2, [("+I", "a", 7)])
    assert sorted(table_of(broker.read("out"))) == [("a",), ("b",)]


def test_inserts_keep_their_order_and_go_without_a_key(
    broker: Broker, pipeline: KafkaPipeline
) -> None:
    pipeline.topic(broker, "out", COLUMNS, APPEND)
    pipeline.start()
    rows = [("+I", "a", n) for n in range(5)]
    pipeline.write(1, rows, [("+I", "b", 1)])

    values = [value for _, value in broker.read("out")]
    assert values == [b'{"k":"a","v":%d}' % n for n in range(5)] + [b'{"k":"b","v":1}']
    assert [len(each) for each in broker.logs["out"]] == [5, 1, 0]
    assert {key for key, _ in broker.read("out")} == {None}


TOLD = {
    "headers": "MAP<VARCHAR(2147483647), VARBINARY(2147483647)>",
    "at": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
}
AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def test_metadata_is_told_beside_the_value(broker: Broker, pipeline: KafkaPipeline) -> None:
    pipeline.topic(
        broker,
        "out",
        COLUMNS | TOLD,
        APPEND,
        metadata=("headers", "timestamp"),
        **{KEYS: "k", "key.format": "json"},
    )
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1, [("x", b"1"), ("y", None)], AT), ("+I", "a", 2, None, None)])

    first, second = (each for log in broker.logs["out"] for each in log)
    assert (first.key, first.value) == (b'{"k":"a"}', b'{"k":"a","v":1}')
    assert (first.time_ms, first.headers) == (1_767_323_045_678, ((b"x", b"1"),))
    assert second.value == b'{"k":"a","v":2}'
    assert second.time_ms > first.time_ms
    assert second.headers == ()


def test_a_header_tells_the_epoch_also_of_a_row_that_is_gone(
    broker: Broker, pipeline: KafkaPipeline
) -> None:
    columns = COLUMNS | {"headers": TOLD["headers"]}
    named = {"sink.epoch-header": "epoch"}
    pipeline.topic(broker, "out", columns, UPSERT, key=["k"], metadata=("headers",), **named)
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1, [("x", b"1")]), ("+I", "b", 1, None)])
    pipeline.write(2, [("-D", "a", 1, None)])

    told = {(each.key, each.value, each.headers) for log in broker.logs["out"] for each in log}
    assert told == {
        (b'{"k":"a"}', b'{"k":"a","v":1}', ((b"x", b"1"), (b"epoch", b"1"))),
        (b'{"k":"b"}', b'{"k":"b","v":1}', ((b"epoch", b"1"),)),
        (b'{"k":"a"}', None, ((b"epoch", b"2"),)),
    }


def test_a_row_that_is_gone_tells_its_metadata(broker: Broker, pipeline: KafkaPipeline) -> None:
    at = {"at": TOLD["at"]}
    pipeline.topic(broker, "out", COLUMNS | at, UPSERT, key=["k"], metadata=("timestamp",))
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1, AT), ("+I", "b", 1, AT)])
    pipeline.write(2, [("-D", "a", 1, AT), ("+U", "b", 2, None)])

    told = {(each.value, each.time_ms) for log in broker.logs["out"] for each in log}
    assert (None, 1_767_323_045_678) in told
    assert (b'{"k":"a","v":1}', 1_767_323_045_678) in told
    assert (b'{"k":"b","v":2}', 1_767_323_045_678) not in told


@pytest.mark.parametrize("time_ms", [0, -1])
def test_a_time_that_no_record_can_have_is_refused(
    broker: Broker, pipeline: KafkaPipeline, time_ms: int
) -> None:
    at = {"at": TOLD["at"]}
    pipeline.topic(broker, "out", COLUMNS | at, APPEND, metadata=("timestamp",))
    pipeline.start()

    with pytest.raises(SinkRefused, match="must be after 1970-01-01"):
        pipeline.write(1, [("+I", "a", 1, datetime(1970, 1, 1, tzinfo=UTC) + time_ms * MS)])
    assert broker.read("out") == []


def test_an_update_at_a_sink_of_inserts_is_refused(broker: Broker, pipeline: KafkaPipeline) -> None:
    pipeline.topic(broker, "out", COLUMNS, APPEND)
    pipeline.start()

    with pytest.raises(SinkRefused, match="takes inserts only"):
        pipeline.write(1, [("+U", "a", 1)])


def test_a_changelog_has_every_change_with_its_kind(
    broker: Broker, pipeline: KafkaPipeline
) -> None:
    given = {"key.format": "json", "key.fields": "k"}
    pipeline.topic(broker, "one", COLUMNS, CHANGELOG, mode="retract", **given)
    pipeline.start()
    pipeline.write(1, [("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 2), ("-D", "a", 2)])

    records = broker.read("one")
    assert {key for key, _ in records} == {b'{"k":"a"}'}
    assert [value.decode() for _, value in records] == [
        '{"op":"+I","data":{"k":"a","v":1}}',
        '{"op":"-U","data":{"k":"a","v":1}}',
        '{"op":"+U","data":{"k":"a","v":2}}',
        '{"op":"-D","data":{"k":"a","v":2}}',
    ]


def test_keys_lose_their_prefix_and_values_the_key(broker: Broker, pipeline: KafkaPipeline) -> None:
    columns = {"id_b": "INT NOT NULL", "v": "INT", "id_a": "INT NOT NULL"}
    given = {"key.fields-prefix": "id_", "value.fields-include": "EXCEPT_KEY"}
    pipeline.topic(broker, "one", columns, UPSERT, key=["id_a", "id_b"], **given)
    pipeline.start()
    pipeline.write(1, [("+I", 1, 5, 2)])

    assert broker.read("one") == [(b'{"a":2,"b":1}', b'{"v":5}')]


def test_all_records_of_a_key_go_to_the_partition_that_kafka_would_choose(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    """Source: Kafka `BuiltInPartitioner.partitionForKey`, `Utils.murmur2`."""
    keys = [f"k{n}" for n in range(20)]
    for epoch in (1, 2):
        upsert.write(epoch, [("+I", key, epoch) for key in keys])

    for key in keys:
        data = b'{"k":"%s"}' % key.encode()
        place = (murmur2(data) & 0x7FFFFFFF) % 3
        assert [each.key for each in broker.logs["out"][place]].count(data) == 2


def murmur2(data: bytes) -> int:
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        found = (found * mixer & mask) ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * mixer & mask
    found = (found ^ found >> 13) * mixer & mask
    return found ^ found >> 15


def test_two_sinks_of_one_topic_are_one_transaction(
    broker: Broker, pipeline: KafkaPipeline
) -> None:
    pipeline.topic(broker, "one", COLUMNS, APPEND)
    pipeline.topic(broker, "one", COLUMNS, APPEND)
    pipeline.start()
    pipeline.write_all(1, {0: [("+I", "a", 1)], 1: [("+I", "b", 2)]})

    assert [orjson.loads(value)["v"] for _, value in broker.read("one")] == [1, 2]
    pipeline.topic(broker, "one", COLUMNS, APPEND, **{"properties.client.id": "x"})
    with pytest.raises(InvalidTableOption, match="properties differ"):
        pipeline.start()


def test_a_topic_that_is_not_there_starts_no_run(broker: Broker, pipeline: KafkaPipeline) -> None:
    pipeline.topic(broker, "nowhere", COLUMNS, APPEND)

    with pytest.raises(SinkRefused, match="no topic nowhere"):
        pipeline.start()
    assert broker.offsets == {}


@pytest.mark.parametrize("what", ["out", GROUP])
def test_what_may_not_be_written_is_refused_by_name(
    broker: Broker, upsert: KafkaPipeline, what: str
) -> None:
    broker.denied.add(what)
    forget_sessions()

    with pytest.raises(SinkRefused, match=r"topic out: T[A-Z_]+_AUTHORIZATION_FAILED; the user"):
        upsert.write(1, [("+I", "a", 1)])
    assert broker.read("out") == []


def test_a_record_that_is_too_large_is_refused_and_nothing_of_the_epoch_is_seen(
    broker: Broker, upsert: KafkaPipeline
) -> None:
    broker.record_max = 200

    with pytest.raises(SinkRefused, match="MSG_SIZE_TOO_LARGE") as refused:
        upsert.write(1, [("+I", f"key{n:06}", 1) for n in range(50)])
    assert "key0" not in str(refused.value)
    assert broker.read("out") == []
    broker.record_max = 1_000_000
    upsert.write(1, [("+I", "a", 1)])
    assert table_of(broker.read("out")) == {("a",): {"k": "a", "v": 1}}


def test_a_broker_that_is_away_is_to_be_tried_again(
    broker: Broker, pipeline: KafkaPipeline
) -> None:
    more = {"properties.max.block.ms": "500", "properties.sasl.jaas.config": JAAS}
    pipeline.topic(broker, "out", COLUMNS, UPSERT, key=["k"], **more)
    broker.close()

    with pytest.raises(SinkUnavailable, match=r"cannot tell of topic out for now") as failed:
        pipeline.start()
    assert "pw7" not in str(failed.value)


JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="pw7";'
)
