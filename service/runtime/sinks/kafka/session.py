"""A client of one topic, the only one that writes it; and what errors of Kafka become.

Nothing of a text of librdkafka goes on: it holds addresses, users and values of properties. What is
told is our own words, the topic, and the name of Kafka's error.

To take a transactional id lasts up to half a second here, most of it timers of the client; what
comes after takes milliseconds. So a session serves epoch after epoch, until it fails.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from service.runtime.dataflow_errors import SinkRefused, SinkUnavailable
from service.runtime.sinks.kafka.fence import Held
from service.runtime.sinks.kafka.properties import RECORD_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.runtime.sinks.kafka.options import Place

_ABORT_LIMIT_S = 5.0
_POLL_S = 1.0
_QUEUE_KB = 64 << 10
"""Of records that were sent and not acknowledged, if one record cannot be larger: what the process
holds of them, and what a broker must take within the wait at an epoch's end."""
_TAKEN = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Another one has taken the transactional id since."""
_REFUSALS = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "INVALID_RECORD",
        "INVALID_TIMESTAMP", "INVALID_TRANSACTION_TIMEOUT", "MSG_SIZE_TOO_LARGE",
        "POLICY_VIOLATION", "RECORD_LIST_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TOPIC_DELETION_DISABLED", "UNKNOWN_TOPIC_OR_PART",
        "UNSUPPORTED_VERSION", "_UNKNOWN_TOPIC", "_UNSUPPORTED_FEATURE",
        "GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID",
    }
)  # fmt: skip  # a list of names, several a line
"""What another attempt would meet again."""
_HINTS = {
    "MSG_SIZE_TOO_LARGE": "properties.max.request.size, and max.message.bytes of the topic",
    "TOPIC_AUTHORIZATION_FAILED": "the user must be allowed to WRITE and READ the topic",
    "GROUP_AUTHORIZATION_FAILED": "the user must be allowed to READ the sink's group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user must be allowed to WRITE the sink's "
    "transactional id",
    "INVALID_TRANSACTION_TIMEOUT": "properties.transaction.timeout.ms, at most the brokers' "
    "transaction.max.timeout.ms",
    "UNKNOWN_MEMBER_ID": "somebody reads with the sink's group",
}
_BY_KEY = -1
_NOW = 0
"""Instead of a partition and a time: librdkafka's own."""
_SILENT = logging.Logger("tailrace.librdkafka")  # noqa: LOG001  # of no hierarchy: nobody may see it
_SILENT.addHandler(logging.NullHandler())


class TakenOver(Exception):
    """Another one has taken the transactional id; who that is, the place tells."""


class TopicSession:
    """The producer of a topic, which nobody else is while it lasts, and the group's offsets.

    Characteristics:
        blocks        each call up to `place.wait_ms`
        thread-safe   no
        ends          by `close`, or with the process; no transaction of its ever commits later
    """

    def __init__(self, place: Place, group: str) -> None:
        """Make clients; nothing is sent before they are used.

        Args:
            place: The topic.
            group: Also the transactional id.

        Raises:
            SinkRefused: The client does not take its properties.
        """
        self._place = place
        self._group = group
        self._wait_s = place.wait_ms / 1_000
        self._evidence = ""
        common = {**dict(place.client), "error_cb": self._note_error, "logger": _SILENT}
        consuming = {
            "group.id": group,
            "enable.auto.commit": False,
            # So a group's offset is told once no transaction is open on it.
            "isolation.level": "read_committed",
        }
        producing = {
            "transactional.id": group,
            # As Kafka's own producers choose the partition of a key.
            "partitioner": "murmur2_random",
            "queue.buffering.max.kbytes": _queue_kb(place.client),
        }
        try:
            self._consumer = Consumer({**common, **consuming})
            self._producer = Producer({**common, **producing})
        except KafkaException:
            # Its text shows the value that it does not take.
            raise SinkRefused(
                f"Kafka's client does not take the properties of topic {place.topic}"
            ) from None

    def partitions(self) -> int:
        """How many partitions the topic has.

        Raises:
            SinkRefused: There is no such topic.
            SinkRefused, SinkUnavailable: As the broker says.
        """
        topic = self._place.topic
        with self._translated("tell of"):
            found = self._consumer.list_topics(topic, timeout=self._wait_s).topics[topic]
            if found.error is not None:
                if found.error.name() == "UNKNOWN_TOPIC_OR_PART":
                    raise SinkRefused(
                        f"Kafka has no topic {topic}, or does not show it to this user; topics are "
                        "not made here"
                    )
                raise KafkaException(found.error)
        return len(found.partitions)

    def is_unwritten(self) -> bool:
        """Whether the topic never had a record, in no partition.

        Raises:
            SinkRefused, SinkUnavailable: As `partitions`.
        """
        places = [TopicPartition(self._place.topic, at) for at in range(self.partitions())]
        with self._translated("tell the records of"):
            return not any(
                self._consumer.get_watermark_offsets(each, timeout=self._wait_s)[1]
                for each in places
            )

    def take(self) -> None:
        """Take the transactional id: what others have begun with it ends.

        Raises:
            TakenOver: Somebody does the same right now.
            SinkRefused, SinkUnavailable: As the broker says.
        """
        with self._translated("let a writer have"):
            self._producer.init_transactions(self._wait_s)

    def held(self, group: str = "") -> Held | None:
        """What a group's committed offset says, by default of the session's; as of its last end.

        Raises:
            StateLost: It is nothing of ours.
            SinkRefused, SinkUnavailable: As the broker says.
        """
        if group and group != self._group:
            with contextlib.closing(TopicSession(self._place, group)) as other:
                return other.held()
        with self._translated("tell the epoch of"):
            asked = [TopicPartition(self._place.topic, 0)]
            (found,) = self._consumer.committed(asked, timeout=self._wait_s)
            if found.error is not None:
                raise KafkaException(found.error)
        return Held.of(self._group, found.offset, found.metadata)

    @contextlib.contextmanager
    def transaction(self, places: Mapping[str, Held]) -> Iterator[TopicSession]:
        """A transaction in which records are sent, and then what groups are to say.

        Args:
            places: By group: what it says from then on.

        Raises:
            TakenOver: Another one has taken the transactional id.
            SinkRefused: A record or the transaction is not taken, now or later.
            SinkUnavailable: A broker does not answer; unknown whether the transaction ended.
        """
        with self._translated("take records for"):
            self._producer.begin_transaction()
            try:
                yield self
                self._producer.flush(self._wait_s)
                for group, place in places.items():
                    self._send_place(group, place)
            except BaseException:  # readers wait behind an open transaction
                self._abort()
                raise
            try:
                self._producer.commit_transaction(self._wait_s)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._abort()
                raise

    def send(
        self,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        *,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Send a record, in a transaction.

        Args:
            key: None: it has none.
            value: None: the key is gone.
            partition: None: the key decides.
            timestamp_ms: None: when it is sent.
            headers: In their order.

        Raises:
            SinkUnavailable: The client is full, and no broker has taken a record within the wait.
        """
        quiet_s = 0.0
        while True:
            try:
                self._producer.produce(
                    self._place.topic,
                    value=value,
                    key=key,
                    partition=_BY_KEY if partition is None else partition,
                    timestamp=_NOW if timestamp_ms is None else timestamp_ms,
                    headers=[*headers],
                )
            except BufferError:
                before = len(self._producer)
                self._producer.poll(_POLL_S)
                quiet_s = quiet_s + _POLL_S if len(self._producer) >= before else 0.0
                if quiet_s >= self._wait_s:
                    raise SinkUnavailable(
                        f"Kafka takes no records for topic {self._place.topic} for now"
                        f"{self._evidence}"
                    ) from None
            except KafkaException as error:
                if error.args[0].name() == "_STATE":
                    # A record before it was refused; asked to commit, the transaction tells why.
                    self._producer.commit_transaction(0)
                raise
            else:
                return

    def close(self) -> None:
        """End the clients' threads and connections."""
        with contextlib.suppress(KafkaException):  # it is done; the next session meets the rest
            self._consumer.close()
        # Its own `close` would try to abort once more, and warn where that fails.
        del self._producer

    def _send_place(self, group: str, place: Held) -> None:
        topic = self._place.topic
        offsets = [TopicPartition(topic, 0, place.epoch, place.text())]
        if group == self._group:
            self._send_offsets(offsets, self._consumer)
            return
        with contextlib.closing(TopicSession(self._place, group)) as other:
            self._send_offsets(offsets, other._consumer)

    def _send_offsets(self, offsets: list[TopicPartition], consumer: Consumer) -> None:
        metadata = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, self._wait_s)

    def _abort(self) -> None:
        """End the transaction if that can be; else the next writer, or its timeout, does."""
        with contextlib.suppress(KafkaException):  # the error that led here is the one to tell
            self._producer.abort_transaction(min(self._wait_s, _ABORT_LIMIT_S))

    def _note_error(self, error: KafkaError) -> None:
        self._evidence = f", {error.name().lstrip('_')}"

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        self._evidence = ""
        try:
            yield
        except KafkaException as error:
            reason = error.args[0]
            name, topic = reason.name(), self._place.topic
            if name in _TAKEN:
                raise TakenOver from None
            if name in _REFUSALS:
                hint = f"; {_HINTS[name]}" if name in _HINTS else ""
                raise SinkRefused(f"Kafka refuses to {what} topic {topic}: {name}{hint}") from None
            raise SinkUnavailable(
                f"Kafka cannot {what} topic {topic} for now: {name.lstrip('_')}{self._evidence}"
            ) from None


def _queue_kb(client: Sequence[tuple[str, str]]) -> int:
    """Room for the largest record, else none of that size would ever be taken."""
    return max(_QUEUE_KB, int(dict(client)[RECORD_MAX]) // 1_024 + 1)
