"""The one Python data source of all our sources; its spec says which one it is.

Spark loads this class in helper processes that never read a row, each started anew for the first
query of a server. So readers, and what they import, are loaded when one is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from service.runtime.helpers import settle
from service.runtime.spark_configuration import SPEC_OPTION

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from service.runtime.sources.base import ChangeReader

READERS = {
    "filesystem": ("service.runtime.sources.filesystem", "FileReader"),
    "ingress": ("service.runtime.sources.ingress", "IngressReader"),
    "datagen": ("service.runtime.sources.datagen", "DatagenReader"),
    "values": ("service.runtime.sources.values", "ValuesReader"),
    "ticks": ("service.runtime.sources.ticks", "TicksReader"),
}
"""Module and class of readers by connector; a table can name neither `values` nor `ticks`."""


def reader_class(connector: str) -> type[ChangeReader[Any]]:
    """The reader of a connector."""
    module, name = READERS[connector]
    found: type[ChangeReader[Any]] = getattr(import_module(module), name)
    return found


class TailraceSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Changes of one table, on the wire between nodes."""

    @classmethod
    def name(cls) -> str:
        """The format's name in Spark."""
        return "tailrace_source"

    def streamReader(self, schema: StructType) -> ChangeReader[Any]:
        """The reader that the spec names."""
        from service.runtime.sources.spec import SourceSpec

        spec = SourceSpec.from_json(self.options[SPEC_OPTION])
        reader = reader_class(spec.connector)(spec, schema)
        settle("make a reader")
        return reader
