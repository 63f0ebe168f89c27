"""Secrets in options of tables: found by the names of their options, as in Flink, and masked.

Source: Flink `GlobalConfiguration.isSensitive` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "******"
_SENSITIVE = (
    "password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params",
    "service-key", "token", "basic-auth", "jaas.config", "http-headers", "credential",
)  # fmt: skip  # a list of names, several a line
_KEYS = ("keystore.key",)
"""Beyond Flink's: a private key as PEM text, in the clear if it has no password."""


def is_secret(key: str) -> bool:
    """Whether an option of this name holds a secret."""
    return any(each in key.lower() for each in (*_SENSITIVE, *_KEYS))


def masked(key: str, value: str) -> str:
    """The value of an option, or a mask if its key is one of those that hold secrets.

    >>> masked("connector", "kafka"), masked("properties.ssl.key.password", "x")
    ('kafka', '******')
    """
    return MASK if is_secret(key) else value


def without_secrets(document: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's document with masks in the place of secrets in tables' options.

    >>> without_secrets({"table": {"options": {"password": "x"}}})
    {'table': {'options': {'password': '******'}}}
    """
    return {name: _shown(name, value) for name, value in document.items()}


def _shown(name: str, value: object) -> Any:
    if isinstance(value, list):
        return [_shown("", each) for each in value]
    if not isinstance(value, dict):
        return value
    if name == "options":
        return {
            key: masked(key, each) if isinstance(each, str) else _shown(key, each)
            for key, each in value.items()
        }
    return without_secrets(value)
