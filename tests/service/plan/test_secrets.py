"""What is secret in a value that is an address, and what is not."""

from __future__ import annotations

import pytest

from service.plan.secrets import masked, without_secrets


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("jdbc:mysql://db:3306/shop?sslMode=REQUIRED", None),
        ("jdbc:mysql://u:pw@db/shop", "jdbc:mysql://******@db/shop"),
        ("jdbc:mysql://u:p@w@db/shop", "jdbc:mysql://******@db/shop"),
        ("jdbc:mysql://a:pw@x,b:pw@y/shop", "jdbc:mysql://******@y/shop"),
        ("http://a:pw@x,http://b:pw@y/z", "http://******@x,http://******@y/z"),
        ("jdbc:postgresql://db/s?user=u&password=pw&a=b", "?user=u&password=******&a=b"),
        ("jdbc:postgresql://db/s?PassWord=p=w#pw", "?PassWord=******"),
        ("jdbc:postgresql://db/s?p%61ssword=pw", "?p%61ssword=******"),
        ("jdbc:postgresql://db/s?password=pw;pw?pw&a=b", "?password=******&a=b"),
        ("jdbc:sqlserver://db;user=u;password=pw", ";user=u;password=******"),
        ("https://host/?access_token=pw&x", "?access_token=******&x"),
        ("s3a://bucket/a@b?c", None),
        ("a?password=pw", None),
        ("", None),
    ],
)
def test_an_address_keeps_all_but_its_secrets(value: str, shown: str | None) -> None:
    found = masked("url", value)

    assert found.endswith(value if shown is None else shown)
    if shown is not None:
        assert "pw" not in found
    assert masked("url", found) == found


def test_a_plan_is_shown_without_the_secrets_of_its_addresses() -> None:
    plan = {"nodes": [{"table": {"options": {"url": "jdbc:mysql://u:pw@db/s", "a": "u:pw@b"}}}]}

    shown = without_secrets(plan)["nodes"][0]["table"]["options"]

    assert shown == {"url": "jdbc:mysql://******@db/s", "a": "u:pw@b"}
