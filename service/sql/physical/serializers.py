"""How Flink's own classes serialize values: plans with ARRAY_AGG in two phases show it.

The type of what the first phase sends is RAW, of which a plan has the class and, in base64, the
snapshot of its serializer: names of classes and versions, each length and number big-endian.

Source: Flink `LinkedListSerializer`, `CompositeTypeSerializerSnapshot` (2.3), and plans it wrote.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING

from state.types import TIMESTAMP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from state.types import LogicalType

_BASE = "org.apache.flink.api.common.typeutils.base."
_TABLE = "org.apache.flink.table.runtime.typeutils."
_SNAPSHOTS = {
    TypeRoot.BOOLEAN: f"{_BASE}BooleanSerializer$Boolean",
    TypeRoot.TINYINT: f"{_BASE}ByteSerializer$Byte",
    TypeRoot.SMALLINT: f"{_BASE}ShortSerializer$Short",
    TypeRoot.INTEGER: f"{_BASE}IntSerializer$Int",
    TypeRoot.BIGINT: f"{_BASE}LongSerializer$Long",
    TypeRoot.FLOAT: f"{_BASE}FloatSerializer$Float",
    TypeRoot.DOUBLE: f"{_BASE}DoubleSerializer$Double",
    TypeRoot.DATE: f"{_BASE}IntSerializer$Int",
    TypeRoot.TIME: f"{_BASE}IntSerializer$Int",
    TypeRoot.DECIMAL: f"{_TABLE}DecimalDataSerializer$Decimal",
    TypeRoot.TIMESTAMP: f"{_TABLE}TimestampDataSerializer$TimestampData",
    TypeRoot.TIMESTAMP_LTZ: f"{_TABLE}TimestampDataSerializer$TimestampData",
    TypeRoot.BINARY: f"{_BASE}array.BytePrimitiveArraySerializer$BytePrimitiveArray",
    TypeRoot.VARBINARY: f"{_BASE}array.BytePrimitiveArraySerializer$BytePrimitiveArray",
    TypeRoot.CHAR: f"{_TABLE}StringDataSerializer$StringData",
    TypeRoot.VARCHAR: f"{_TABLE}StringDataSerializer$StringData",
}
_COMPOSITE, _NESTED = 911_108, 1_333_245
"""Numbers by which Flink knows what follows."""
_VERSION = 3


def knows_serializer(logical: LogicalType) -> bool:
    """Whether it is known here how values of a type are serialized: not rows and collections."""
    return logical.root in _SNAPSHOTS


def list_snapshot(element: LogicalType) -> str:
    """The snapshot of a linked list of elements, in base64."""
    name = _text(f"{_TABLE}LinkedListSerializer$LinkedListSerializerSnapshot")
    # Version of the list, of what is written of it, that it has a mask of nulls; then its elements.
    head = struct.pack(">iii?", _VERSION, _COMPOSITE, _VERSION, True)
    nested = struct.pack(">iii", _NESTED, 1, 1)
    return base64.b64encode(name + head + nested + _element(element)).decode()


def _element(logical: LogicalType) -> bytes:
    numbers = [_VERSION]
    if logical.root is TypeRoot.DECIMAL:
        numbers += [logical.precision or 0, logical.scale or 0]
    elif logical.root in TIMESTAMP_ROOTS:
        numbers = [1, logical.precision or 0]
    name = _text(f"{_SNAPSHOTS[logical.root]}SerializerSnapshot")
    return name + struct.pack(f">{len(numbers)}i", *numbers)


def _text(value: str) -> bytes:
    """A text as Java's `writeUTF` has it."""
    return struct.pack(">H", len(value)) + value.encode("ascii")
