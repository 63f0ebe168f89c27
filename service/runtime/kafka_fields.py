"""Which columns of a Kafka table are in a record's key, and which in its value.

    key.format              json; records have a key that is looked at
    key.fields              columns of the key, parted by `;`; of `upsert-kafka` the primary key
    key.fields-prefix       what the names of these columns begin with, and lose in the key
    value.fields-include    ALL, or EXCEPT_KEY: then the value has no column of the key

Source: Flink `KafkaConnectorOptionsUtil`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.runtime.dataflow_errors import InvalidTableOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UPSERT: Final = "upsert-kafka"
CONNECTORS = frozenset({"kafka", UPSERT})
KEY_FORMAT: Final = "key.format"
KEY_OPTIONS = (KEY_FORMAT, "key.fields", "key.fields-prefix", "value.fields-include")
_PREFIX = "key.fields-prefix"


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Positions of a table's columns in its records."""

    key: tuple[int, ...]
    """Columns of the key; none: keys are not looked at."""
    prefix: str
    """What names of the key's columns lose in the key."""
    value: tuple[int, ...]

    @classmethod
    def of(
        cls,
        options: Mapping[str, str],
        names: Sequence[str],
        primary_key: Sequence[str] | None,
        *,
        table: str,
    ) -> RecordFields:
        """What a table's options say.

        Args:
            options: The table's.
            names: Its columns.
            primary_key: Those of its primary key, if that is what records have as their key.
            table: What errors call it.

        Raises:
            InvalidTableOption: Options contradict each other, or the table.
        """
        listed = _listed(options, primary_key, table)
        strange = [each for each in listed if each not in names]
        if strange or len(set(listed)) != len(listed):
            raise InvalidTableOption(
                f'option "key.fields" names "{strange[0]}", which is not a column of {table}'
                if strange
                else 'option "key.fields" names a column twice'
            )
        key = tuple(names.index(each) for each in listed)
        prefix = options.get(_PREFIX, "")
        without_key = options.get("value.fields-include", "ALL") == "EXCEPT_KEY"
        if prefix and not without_key:
            raise InvalidTableOption(
                f'option "{_PREFIX}" needs option "value.fields-include" = EXCEPT_KEY'
            )
        for at in key:
            if not names[at].startswith(prefix) or names[at] == prefix:
                raise InvalidTableOption(
                    f'column "{names[at]}" of the key does not begin with what option '
                    f'"{_PREFIX}" says'
                )
        value = tuple(at for at in range(len(names)) if not without_key or at not in key)
        if key and not value:
            raise InvalidTableOption(
                f"table {table} has no column that is not of the key",
                hint='leave out option "value.fields-include"',
            )
        return cls(key, prefix, value)


def _listed(
    options: Mapping[str, str], primary_key: Sequence[str] | None, table: str
) -> Sequence[str]:
    if primary_key is not None:
        if not primary_key:
            raise InvalidTableOption(
                f"upsert-kafka table {table} has no primary key",
                hint="declare PRIMARY KEY .. NOT ENFORCED",
            )
        return primary_key
    text = options.get("key.fields", "")
    listed = [each.strip() for each in text.split(";") if each.strip()]
    if bool(listed) != (KEY_FORMAT in options):
        given, missing = ("fields", "format") if listed else ("format", "fields")
        raise InvalidTableOption(f'option "key.{given}" needs option "key.{missing}"')
    return listed
