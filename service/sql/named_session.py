"""A session that outlives its request: what was declared, as text, and the options that are set.

Declarations are kept as the statements that made them, not as what they were bound to: they are
read again in the order in which they were made. One that says LIKE or AS is kept as what came of
it. A view is not bound again until it is used, since what it is made of may have been dropped, as
in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from service.sql.catalogue import CatalogTable, View
from service.sql.physical.schema_json import table_to_json
from service.sql.script import parse_with_text
from service.sql.session import PlannedStatement, Session
from service.sql.show import create_table_text
from service.sql.statements import CreateTable, CreateView, Drop, Statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.sql.source_text import Fragment

Names = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SavedSession:
    """What is kept of a session."""

    declarations: tuple[tuple[Names, str], ...] = ()
    """Name and CREATE statement of each table and view, in the order of their making."""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The length of all text."""
        texts = [text for _, text in self.declarations]
        texts += [part for option in self.options.items() for part in option]
        return sum(map(text_size_bytes, texts))


def text_size_bytes(text: str) -> int:
    """The length of a text in UTF-8; at once for most."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class NamedSession:
    """A planning session, and the texts of what is declared in it.

    Args:
        saved: What is there already.
        zone: The time zone of plans where SET names none; it is not kept.
    """

    def __init__(self, saved: SavedSession | None = None, *, zone: str | None = None) -> None:
        self.session = Session(zone=zone)
        self._texts: dict[Names, str] = {}
        self._restore(saved or SavedSession())

    @property
    def options(self) -> dict[str, str]:
        """What SET changed."""
        return self.session.catalogue.options

    def run(self, statement: Statement, text: Fragment) -> PlannedStatement | None:
        """Run a statement, as `Session.run` does, and remember what it declares.

        Raises:
            SqlError: It is wrong.
        """
        objects = self.session.catalogue.objects
        before = dict(objects) if isinstance(statement, CreateTable | CreateView | Drop) else None
        planned = self.session.run(statement)
        if before is not None:
            for names in before.keys() - objects.keys():
                del self._texts[names]
            for names in objects.keys() - before.keys():
                made = objects[names]
                copies = isinstance(statement, CreateTable) and (
                    statement.may_copy or planned is not None
                )
                if copies and isinstance(made, CatalogTable):
                    # The table that it is like, or those of its query, may go, or change.
                    self._texts[names] = create_table_text(made, is_shown=False)
                else:
                    self._texts[names] = text.text
        return planned

    def forget(self, names: Iterable[Names]) -> None:
        """Take back that these were declared."""
        for each in [*names]:
            del self.session.catalogue.objects[each], self._texts[each]

    def saved(self) -> SavedSession:
        """What is to be kept."""
        return SavedSession(tuple(self._texts.items()), dict(self.options))

    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables by identifier, as a plan describes them."""
        return {
            entry.identifier: table_to_json(replace(entry, is_temporary=False), "ALL")[
                "resolvedTable"
            ]
            for entry in self.session.catalogue.objects.values()
            if isinstance(entry, CatalogTable)
        }

    def _restore(self, saved: SavedSession) -> None:
        self.options.update(saved.options)
        catalogue = self.session.catalogue
        for names, text in saved.declarations:
            for statement, _ in parse_with_text(text):
                if isinstance(statement, CreateView):
                    catalogue.objects[names] = View(
                        names, statement.query, statement.columns, statement.is_temporary
                    )
                else:
                    self.session.run(statement)
            self._texts[names] = text
