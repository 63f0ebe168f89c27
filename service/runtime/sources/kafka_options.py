"""Flink's options of a Kafka table, checked, and as Spark's Kafka source takes them.

    topic | topic-pattern          names parted by `;`, or a Java regular expression on whole names
    properties.bootstrap.servers   and other `properties.*`, handed to the Kafka consumer
    scan.startup.mode              earliest-offset, latest-offset, timestamp, specific-offsets
    format | value.format          changelog-json, json, or one of change data capture (`formats`)
    debezium-json.schema-include   whether events have their schemas beside them; with
                                   `value.format` its name begins with `value.`
    canal-json.database.include    and `.table.include`: what is read, likewise
    changelog-mode                 the kinds that the table may carry, as for every source of ours
    key.format, key.fields, ..     columns that are in records' keys (`kafka_fields`)

Of `upsert-kafka` the key is the primary key, `key.format` and `value.format` are json, and a new
pipeline reads from the start, as in Flink.

Whatever else stands there is refused by name, and so is Flink's default for the start: it goes on
from offsets that a consumer group has committed, which Spark neither reads nor commits.

Errors name options and never show what is in them: `properties.*` holds passwords.

Source: Flink `KafkaConnectorOptions`; Spark `KafkaSourceProvider`.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

import orjson

from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from service.runtime.kafka_fields import KEY_OPTIONS, UPSERT, RecordFields
from service.runtime.sinks.kafka import options as written
from service.runtime.sources.capture import check_capture
from service.runtime.sources.formats import (
    CAPTURE_OPTIONS,
    CHANGE_FORMATS,
    allowed_kinds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.runtime.sources.spec import SourceSpec

FORMATS = (*CHANGE_FORMATS, "json")
_PROPERTY = "properties."
_SERVERS = "properties.bootstrap.servers"
_MODE = "scan.startup.mode"
_TIMESTAMP = "scan.startup.timestamp-millis"
_INCLUDE = "value.fields-include"
_OFFSETS = "scan.startup.specific-offsets"
_KNOWN = frozenset(
    {
        "connector", "topic", "topic-pattern", "format", "value.format", "changelog-mode",
        _MODE, _TIMESTAMP, _OFFSETS, *KEY_OPTIONS,
    }
)  # fmt: skip  # a list of names, several a line
_SPARKS_OWN = frozenset(
    {
        "auto.offset.reset", "enable.auto.commit", "interceptor.classes",
        "key.deserializer", "value.deserializer",
    }
)  # fmt: skip  # a list of names, several a line
"""Properties that Spark sets itself and takes from nobody."""
_FLINKS_OWN = frozenset(
    {
        "client.id.prefix", "commit.offsets.on.checkpoint", "partition.discovery.interval.ms",
        "register.consumer.metrics",
    }
)  # fmt: skip  # a list of names, several a line
"""Properties for Flink's source, which Kafka's consumer would pass over in silence."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OFFSET = re.compile(r"partition:(\d{1,9}),offset:(\d{1,18})")
_LONG_MAX = 2**63 - 1
_MODES = ("earliest-offset", "latest-offset", "timestamp", "specific-offsets")


def reader_options(options: Mapping[str, str], rows_per_epoch_max: int) -> dict[str, str]:
    """What Spark's Kafka source is told.

    Raises:
        InvalidTableOption: an option is missing, unknown or out of range.
        UnsupportedConnector: the format, or the way to start, does not exist here.
    """
    is_upsert = options.get("connector") == UPSERT
    form = value_format(options)
    if is_upsert:
        written.check_options(options)
        given = {name for name in options if name.startswith(_PROPERTY)}
    else:
        allowed_kinds(options)
        given = options.keys() - _capture_names(options).keys()
    for name in sorted(given):
        if not _is_known(name) and not written.changes_nothing(name, options[name]):
            near = difflib.get_close_matches(name, sorted(_KNOWN), 1, cutoff=0.75)
            raise InvalidTableOption(
                f'option "{name}" of a Kafka table is not supported',
                hint=f'did you mean "{near[0]}"?' if near else "",
            )
    check_capture(form, task_options(options))
    written.check_key_format({"connector": "kafka", **options})
    if options.get(_INCLUDE, "ALL") not in ("ALL", "EXCEPT_KEY"):
        raise InvalidTableOption(f'option "{_INCLUDE}" must be ALL or EXCEPT_KEY')
    if not options.get(_SERVERS):
        raise InvalidTableOption(f'option "{_SERVERS}" is missing')
    consumer = {
        f"kafka.{name.removeprefix(_PROPERTY)}": value
        for name, value in options.items()
        if name.startswith(_PROPERTY)
    }
    return {
        **consumer,
        **_subscription(options),
        **({"startingOffsets": "earliest"} if is_upsert else _start(options)),
        "maxOffsetsPerTrigger": str(rows_per_epoch_max),
        "failOnDataLoss": "true",
    }


def value_format(options: Mapping[str, str]) -> str:
    """The format of the records' values.

    Raises:
        InvalidTableOption: there is none, or it is given twice.
        UnsupportedConnector: it is not one of ours.
    """
    if options.get("connector") == UPSERT:
        return written.value_format(options)
    given = [options[name] for name in ("format", "value.format") if name in options]
    if len(given) != 1:
        missing = "the table has no format"
        raise InvalidTableOption(
            'options "format" and "value.format" say the same' if given else missing,
            hint=f"one of {', '.join(FORMATS)}",
        )
    if given[0] not in FORMATS:
        raise UnsupportedConnector(
            f'format "{given[0]}" is not supported for Kafka', hint=f"one of {', '.join(FORMATS)}"
        )
    return given[0]


def topics_of(options: Mapping[str, str]) -> list[str]:
    """The topics that the table names, sorted; none if it has a pattern."""
    return sorted({each.strip() for each in options.get("topic", "").split(";")} - {""})


def task_options(options: Mapping[str, str]) -> dict[str, str]:
    """What a task that decodes records must know: how to read them, nothing of how to get them."""
    is_upsert = options.get("connector") == UPSERT
    wanted = ("topic", *KEY_OPTIONS, *(() if is_upsert else ("changelog-mode",)))
    kept = {each: options[each] for each in wanted if each in options}
    kept |= {ours: options[name] for name, ours in _capture_names(options).items()}
    return {**kept, "format": value_format(options)}


def record_fields(spec: SourceSpec) -> RecordFields:
    """Which columns of a table are in its records' keys, and which in their values.

    Raises:
        InvalidTableOption: Options contradict each other, or the table.
    """
    names = [name for name, _ in spec.physical]
    primary_key = spec.primary_key if spec.connector == UPSERT else None
    return RecordFields.of(spec.options, names, primary_key, table=spec.table)


def _capture_names(options: Mapping[str, str]) -> dict[str, str]:
    """The given options of the format, and their own names: they are prefixed as the format is."""
    prefix = "" if "format" in options else "value."
    names = CAPTURE_OPTIONS.get(value_format(options), ())
    return {prefix + name: name for name in names if prefix + name in options}


def _is_known(name: str) -> bool:
    if name.startswith(_PROPERTY):
        return name.removeprefix(_PROPERTY).lower() not in {"", *_SPARKS_OWN, *_FLINKS_OWN}
    return name in _KNOWN


def _subscription(options: Mapping[str, str]) -> dict[str, str]:
    topics, pattern = topics_of(options), options.get("topic-pattern", "").strip()
    if bool(topics) == bool(pattern):
        raise InvalidTableOption('a Kafka table has either option "topic" or "topic-pattern"')
    if pattern:
        return {"subscribePattern": pattern}
    if not all(_TOPIC.fullmatch(each) for each in topics):
        raise InvalidTableOption(
            'option "topic" holds a name that no topic can have',
            hint="names parted by semicolons",
        )
    return {"subscribe": ",".join(topics)}


def _start(options: Mapping[str, str]) -> dict[str, str]:
    """Where a new pipeline begins to read; one that goes on does so from its checkpoint."""
    mode = options.get(_MODE, "group-offsets")
    for name, owner in ((_TIMESTAMP, "timestamp"), (_OFFSETS, "specific-offsets")):
        if name in options and mode != owner:
            raise InvalidTableOption(f'option "{name}" goes with {_MODE} = {owner} only')
    match mode:
        case "earliest-offset":
            return {"startingOffsets": "earliest"}
        case "latest-offset":
            return {"startingOffsets": "latest"}
        case "timestamp":
            # As in Flink: a partition with no record since then starts behind its last one.
            return {
                "startingTimestamp": _timestamp(options),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case "specific-offsets":
            return {"startingOffsets": _specific_offsets(options)}
        case "group-offsets":
            stated = "is" if _MODE in options else "is not given, which means"
            raise UnsupportedConnector(
                f'option "{_MODE}" {stated} group-offsets: Spark keeps offsets in the '
                "pipeline's checkpoint and reads none of a consumer group",
                hint=f"one of {', '.join(_MODES)}",
            )
        case _:
            raise InvalidTableOption(
                f'option "{_MODE}" names no way to start', hint=f"one of {', '.join(_MODES)}"
            )


def _timestamp(options: Mapping[str, str]) -> str:
    text = options.get(_TIMESTAMP, "")
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > _LONG_MAX:
        raise InvalidTableOption(f'option "{_TIMESTAMP}" must be a number of ms since 1970')
    return text


def _specific_offsets(options: Mapping[str, str]) -> str:
    """`partition:0,offset:42;partition:1,offset:300` as Spark's JSON."""
    topics = topics_of(options)
    if len(topics) != 1:
        raise InvalidTableOption(f'option "{_OFFSETS}" needs option "topic" with one topic')
    found: dict[str, int] = {}
    for each in options.get(_OFFSETS, "").removesuffix(";").split(";"):
        pair = _OFFSET.fullmatch(each.strip())
        if pair is None or str(int(pair[1])) in found:
            raise InvalidTableOption(
                f'option "{_OFFSETS}" is not a list with an offset for each partition',
                hint="for example partition:0,offset:42;partition:1,offset:300",
            )
        found[str(int(pair[1]))] = int(pair[2])
    return orjson.dumps({topics[0]: found}).decode()
