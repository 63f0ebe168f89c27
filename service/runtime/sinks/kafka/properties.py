"""`properties.*` of a Kafka table, from names of Kafka's Java client to those of librdkafka.

Only what is listed is taken: librdkafka has properties that load a library, run a command or read a
file, and whoever posts a plan must be able to do none of these. Certificates and keys are
therefore given as PEM text, as Java takes them with the store type PEM.

Errors name properties and never show what is in them: they hold passwords.

Source: Kafka `ProducerConfig`, `SslConfigs`, `SaslConfigs`; librdkafka `CONFIGURATION.md`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from service.runtime.dataflow_errors import InvalidTableOption

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "properties."
SERVERS = "bootstrap.servers"
BLOCK = "max.block.ms"
"""Longest wait for a broker's answer; the producer's own name for it."""
BLOCK_DEFAULT_MS = 60_000
RECORD_MAX = "message.max.bytes"
"""The largest record, by librdkafka's name."""
_RECORD_MAX_DEFAULT = 1_048_576
"""Of Kafka's own producers; librdkafka takes less."""
_TRANSACTION = "transaction.timeout.ms"
_TRANSACTION_DEFAULT_MS = 300_000
_ANY = re.compile(r".+", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}")
_PEM = re.compile(r"\s*-----BEGIN .+", re.DOTALL)
_TAKEN: Mapping[str, tuple[str, re.Pattern[str]]] = {
    SERVERS: (SERVERS, re.compile(r"[A-Za-z0-9._:,\[\] -]+")),
    "client.id": ("client.id", _ANY),
    "client.dns.lookup": (
        "client.dns.lookup",
        re.compile("use_all_dns_ips|resolve_canonical_bootstrap_servers_only"),
    ),
    "security.protocol": (
        "security.protocol",
        re.compile("PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL", re.IGNORECASE),
    ),
    "sasl.mechanism": ("sasl.mechanisms", re.compile("PLAIN|SCRAM-SHA-256|SCRAM-SHA-512")),
    "ssl.endpoint.identification.algorithm": (
        "ssl.endpoint.identification.algorithm",
        re.compile("https|none"),
    ),
    "ssl.truststore.certificates": ("ssl.ca.pem", _PEM),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem", _PEM),
    "ssl.keystore.key": ("ssl.key.pem", _PEM),
    "ssl.key.password": ("ssl.key.password", _ANY),
    "compression.type": ("compression.type", re.compile("none|gzip|snappy|lz4|zstd")),
    "max.request.size": (RECORD_MAX, _NUMBER),
    _TRANSACTION: (_TRANSACTION, _NUMBER),
    **{
        name: (name, _NUMBER)
        for name in (
            "batch.size",
            "connections.max.idle.ms",
            "linger.ms",
            "metadata.max.age.ms",
            "reconnect.backoff.max.ms",
            "reconnect.backoff.ms",
            "request.timeout.ms",
            "retry.backoff.ms",
            "socket.connection.setup.timeout.ms",
        )
    },
}
"""Java's name: librdkafka's, and the values."""
_SO_ANYWAY: Mapping[str, re.Pattern[str]] = {
    "acks": re.compile("all|-1"),
    "enable.idempotence": re.compile("true"),
    "ssl.truststore.type": re.compile("PEM"),
    "ssl.keystore.type": re.compile("PEM"),
    # Of readers, which the same table may serve.
    "group.id": _ANY,
    "isolation.level": _ANY,
}
"""What is done here without being told: values that ask for no more."""
_JAAS = "sasl.jaas.config"
_LOGIN = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:plain\.Plain|scram\.Scram)LoginModule\s+required"
    r"((?:\s+(?:username|password)=(?:\"(?:[^\"\\]|\\.)*\"|[^\s;\"]+)){2})\s*;\s*"
)
_PART = re.compile(r"(username|password)=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))")
_HINTS = {
    "sasl.kerberos.service.name": "logins here are PLAIN and SCRAM",
    "ssl.keystore.location": "give PEM text: ssl.keystore.certificate.chain and ssl.keystore.key",
    "ssl.truststore.location": "give PEM text: ssl.truststore.certificates",
    "transactional.id": "it is made of the pipeline and the topic, with option "
    '"sink.transactional-id-prefix" before them',
}


def client_properties(options: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka is told of the brokers, without what makes a producer or a consumer.

    Raises:
        InvalidTableOption: A property is missing, not taken, or has none of its values.
    """
    found = {
        _TRANSACTION: str(_TRANSACTION_DEFAULT_MS),
        RECORD_MAX: str(_RECORD_MAX_DEFAULT),
    }
    for option, value in sorted(options.items()):
        if option.startswith(PREFIX):
            found |= _translated(option.removeprefix(PREFIX), value)
    if SERVERS not in found:
        raise InvalidTableOption(f'option "{PREFIX}{SERVERS}" is missing')
    return found


def wait_ms(options: Mapping[str, str]) -> int:
    """Longest wait for a broker's answer."""
    return int(options.get(PREFIX + BLOCK, BLOCK_DEFAULT_MS))


def listed(values: re.Pattern[str]) -> str:
    """The values of an option in words, where they are a list.

    >>> listed(re.compile("all|-1")), listed(re.compile("[0-9]+"))
    ('one of all, -1', '')
    """
    is_list = re.fullmatch(r"[A-Za-z0-9_|-]+", values.pattern)
    return f"one of {values.pattern.replace('|', ', ')}" if is_list else ""


def _translated(name: str, value: str) -> dict[str, str]:
    if name == _JAAS:
        return _login(value)
    if name == BLOCK:
        _check(name, value, _NUMBER)
        return {}
    if name in _SO_ANYWAY:
        _check(name, value, _SO_ANYWAY[name])
        return {}
    if name not in _TAKEN:
        raise InvalidTableOption(
            f'option "{PREFIX}{name}" is not honoured by a Kafka sink', hint=_HINTS.get(name, "")
        )
    theirs, values = _TAKEN[name]
    _check(name, value, values)
    return {theirs: value}


def _check(name: str, value: str, values: re.Pattern[str]) -> None:
    if values.fullmatch(value) is None:
        raise InvalidTableOption(
            f'option "{PREFIX}{name}" has a value that is not honoured by a Kafka sink',
            hint=listed(values),
        )


def _login(text: str) -> dict[str, str]:
    """User and password of a line for Java's login modules."""
    line = _LOGIN.fullmatch(text)
    given = _PART.findall(line[1]) if line else []
    found = {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in given}
    if len(found) != len(("username", "password")):
        raise InvalidTableOption(
            f'option "{PREFIX}{_JAAS}" is not a login that a Kafka sink supports',
            hint="the PlainLoginModule or ScramLoginModule, with username and password",
        )
    return {f"sasl.{name}": value for name, value in found.items()}
