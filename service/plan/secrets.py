"""Secrets in options of tables: found by the names of their options, as in Flink, and masked.

Beyond Flink, an address is shown without its user info and the secrets among its parameters.

Source: Flink `GlobalConfiguration.isSensitive` (2.3).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "******"
_SENSITIVE = (
    "password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params",
    "service-key", "token", "basic-auth", "jaas.config", "http-headers", "credential",
)  # fmt: skip  # a list of names, several a line
_KEYS = ("keystore.key",)
"""Beyond Flink's: a private key as PEM text, in the clear if it has no password."""
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_USER_INFO = re.compile(r"//[^/?#\s]*@")
_BEFORE_PARAMETER = re.compile(r"([?&;])")


def is_secret(key: str) -> bool:
    """Whether an option of this name holds a secret."""
    return any(each in key.lower() for each in (*_SENSITIVE, *_KEYS))


def masked(key: str, value: str) -> str:
    """The value of an option with a mask in the place of what is secret.

    That is all of it if the key is one of those that hold secrets; of an address the user info, and
    the values of parameters with such names.

    >>> masked("connector", "kafka"), masked("properties.ssl.key.password", "x")
    ('kafka', '******')
    >>> masked("url", "jdbc:mysql://u:x@host/db?user=u&password=x&sslMode=REQUIRED")
    'jdbc:mysql://******@host/db?user=u&password=******&sslMode=REQUIRED'
    """
    if is_secret(key):
        return MASK
    return _masked_address(value) if _ADDRESS.match(value) else value


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


def _masked_address(address: str) -> str:
    first, *rest = _BEFORE_PARAMETER.split(_USER_INFO.sub(f"//{MASK}@", address))
    shown, is_hidden = [first], False
    for sign, parameter in zip(rest[::2], rest[1::2], strict=True):
        # A semicolon begins a parameter with some drivers; with others it belongs to the value, as
        # a second question mark does.
        if is_hidden and sign != "&":
            continue
        name, equals, _ = parameter.partition("=")
        is_hidden = bool(equals) and is_secret(unquote(name))
        shown += [sign, f"{name}={MASK}" if is_hidden else parameter]
    return "".join(shown)
