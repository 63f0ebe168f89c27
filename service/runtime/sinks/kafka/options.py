"""Flink's options of a Kafka table that is written, checked without a broker.

Those of upsert-kafka are those of its tables that are read, too.

    topic                             one name
    properties.bootstrap.servers      and other `properties.*` (`properties`)
    upsert-kafka
      key.format, value.format        json; the record's key is the primary key
    kafka
      format | value.format           json: inserts only; changelog-json: a line of each change
      key.format, key.fields          json, and the columns of the record's key; none by default
    key.fields-prefix                 what the key's columns begin with, and lose in records
    value.fields-include              ALL, EXCEPT_KEY
    sink.transactional-id-prefix      tells writers of two installations apart; tailrace by default
    sink.epoch-header                 header of each record that tells its epoch; none by default

Options for reading are known and change nothing. Nothing here imports Kafka's client.

Source: Flink `KafkaConnectorOptions`, `UpsertKafkaDynamicTableFactory`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from service.runtime.kafka_fields import KEY_FORMAT, UPSERT
from service.runtime.sinks.kafka.properties import (
    PREFIX,
    SERVERS,
    client_properties,
    listed,
    wait_ms,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PACKAGE = "confluent-kafka"
_PORT = 9092
"""Of a server that names none."""
_PREFIX_DEFAULT = "tailrace"
EPOCH_HEADER = "sink.epoch-header"
"""Names the header that tells a record's epoch."""
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_ID_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NUMBERED = re.compile(r"[0-9]{1,9}|-1")
_ANYTHING = re.compile(r".*", re.DOTALL)
_JSON_OPTIONS: Mapping[str, re.Pattern[str]] = {
    # As the json format of files: what of Flink's changes nothing here.
    "json.fail-on-missing-field": re.compile("true|false"),
    "json.ignore-parse-errors": re.compile("true|false"),
    "json.timestamp-format.standard": re.compile("sql", re.IGNORECASE),
    "json.map-null-key.mode": _ANYTHING,
    "json.map-null-key.literal": _ANYTHING,
    "json.encode.ignore-null-fields": re.compile("false"),
    "json.decode.json-parser.enabled": _ANYTHING,
}
_KNOWN: Mapping[str, re.Pattern[str]] = {
    "connector": _ANYTHING,
    "property-version": re.compile("1"),
    "topic": _ANYTHING,
    "key.format": _ANYTHING,
    "key.fields-prefix": _ANYTHING,
    "value.format": _ANYTHING,
    "value.fields-include": re.compile("ALL|EXCEPT_KEY"),
    "sink.transactional-id-prefix": _ID_PREFIX,
    EPOCH_HEADER: re.compile(r"[ -~]{1,100}"),
    # Every sink here is exactly once, which is at least once as well.
    "sink.delivery-guarantee": re.compile("exactly-once|at-least-once"),
    # How many tasks share the work; `execution.parallelism` says it.
    "sink.parallelism": _ANYTHING,
    "scan.parallelism": _ANYTHING,
    **{f"key.{name}": values for name, values in _JSON_OPTIONS.items()},
    **{f"value.{name}": values for name, values in _JSON_OPTIONS.items()},
}
_OF_UPSERT: Mapping[str, re.Pattern[str]] = {
    "changelog-mode": re.compile("upsert"),
    # When Flink sends what it has gathered; here an epoch is sent, with its end.
    "sink.buffer-flush.max-rows": _NUMBERED,
    "sink.buffer-flush.interval": _ANYTHING,
}
_OF_KAFKA: Mapping[str, re.Pattern[str]] = {
    "changelog-mode": _ANYTHING,
    "format": _ANYTHING,
    "key.fields": _ANYTHING,
    "sink.partitioner": re.compile("default"),
    **_JSON_OPTIONS,
    # Of readers, which the same table may serve.
    "scan.startup.mode": _ANYTHING,
    "scan.startup.timestamp-millis": _ANYTHING,
    "scan.startup.specific-offsets": _ANYTHING,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A topic on a cluster, and how a pipeline's writers of it are known there."""

    topic: str
    id_prefix: str
    client: tuple[tuple[str, str], ...] = field(repr=False)
    """Properties of librdkafka, passwords among them; sorted."""
    wait_ms: int
    """Longest wait for a broker's answer."""


def place_of(options: Mapping[str, str]) -> Place:
    """Where a table's records go.

    Raises:
        InvalidTableOption: An option is missing or cannot be.
    """
    topic = options.get("topic", "")
    if _TOPIC.fullmatch(topic) is None:
        raise InvalidTableOption(
            'option "topic" names no topic' if topic else 'option "topic" is missing',
            hint="a sink writes one topic",
        )
    prefix = options.get("sink.transactional-id-prefix", _PREFIX_DEFAULT)
    client = tuple(sorted(client_properties(options).items()))
    return Place(topic, prefix, client, wait_ms(options))


def changes_nothing(name: str, value: str) -> bool:
    """Whether an option of a table that is read is one for writers, or says what is so anyway."""
    known = _OF_KAFKA.get(name) or _KNOWN.get(name)
    return known is not None and known.fullmatch(value) is not None


def check_options(options: Mapping[str, str]) -> None:
    """See that every option is one that is honoured.

    Raises:
        InvalidTableOption: One is not, or has a value that is not.
    """
    connector = options["connector"]
    known = {**_KNOWN, **(_OF_UPSERT if connector == UPSERT else _OF_KAFKA)}
    whose = "" if connector == UPSERT else "a sink of "
    for name, value in sorted(options.items()):
        if name.startswith(PREFIX):
            continue
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1, cutoff=0.75)
            raise InvalidTableOption(
                f'option "{name}" is not honoured by {whose}connector "{connector}"',
                hint=f'did you mean "{near[0]}"?' if near else "",
            )
        if known[name].fullmatch(value) is None:
            raise InvalidTableOption(
                f'option "{name}" has a value that is not honoured by {whose}connector '
                f'"{connector}"',
                hint=listed(known[name]),
            )


def value_format(options: Mapping[str, str]) -> str:
    """The format of the records' values: json, or of `kafka` changelog-json.

    Raises:
        InvalidTableOption: There is none, or it is given twice.
        UnsupportedConnector: It is not one of ours.
    """
    is_upsert = options["connector"] == UPSERT
    names = ("value.format",) if is_upsert else ("format", "value.format")
    given = [options[name] for name in names if name in options]
    formats = ("json",) if is_upsert else ("json", "changelog-json")
    if len(given) != 1:
        raise InvalidTableOption(
            'options "format" and "value.format" say the same'
            if given
            else f'option "{names[0]}" is missing',
            hint=f"one of {', '.join(formats)}",
        )
    return _known_format(given[0], formats, options["connector"])


def check_key_format(options: Mapping[str, str]) -> None:
    """See that option `key.format` is json where it is given, and given where it must be.

    Raises:
        InvalidTableOption: It is not given, and must be.
        UnsupportedConnector: It is another one.
    """
    if KEY_FORMAT in options:
        _known_format(options[KEY_FORMAT], ("json",), options["connector"])
    elif options["connector"] == UPSERT:
        raise InvalidTableOption('option "key.format" is missing', hint="json")


def check_hosts(place: Place, hosts: Sequence[str]) -> None:
    """See that the settings let plans write to a cluster.

    What its brokers name as addresses of other brokers is taken from them.

    Raises:
        InvalidTableOption: They do not list one of its servers.
    """
    known = {each.lower() for each in hosts}
    for server in dict(place.client)[SERVERS].lower().split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdecimal():
            host, port = server.strip(), str(_PORT)
        host = host.strip("[]")
        if not known.intersection({"*", host, f"{host}:{port}"}):
            raise InvalidTableOption(
                f'option "{PREFIX}{SERVERS}" names a server that the settings do not list',
                hint="list its host, or host:port, in TAILRACE_DATABASES__HOSTS",
            )


def check_client() -> None:
    """See that the package that speaks to Kafka is installed here.

    Raises:
        UnsupportedConnector: It is not.
    """
    if find_spec("confluent_kafka") is None:
        raise UnsupportedConnector(
            f"a Kafka sink needs the Python package {_PACKAGE}",
            hint="install tailrace[kafka] for the service and the Spark workers",
        )


def _known_format(name: str, formats: tuple[str, ...], connector: str) -> str:
    if name not in formats:
        raise UnsupportedConnector(
            f'format "{name}" is not supported for connector "{connector}"',
            hint=f"one of {', '.join(formats)}" if len(formats) > 1 else formats[0],
        )
    return name
