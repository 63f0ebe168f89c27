"""CREATE TABLE .. LIKE: what a table takes over from another one, and what it says itself.

    LIKE table [( {INCLUDING | EXCLUDING} {ALL | CONSTRAINTS | DISTRIBUTION | PARTITIONS}
                  {INCLUDING | EXCLUDING | OVERWRITING}
                  {GENERATED | METADATA | OPTIONS | WATERMARKS} .. )]

Physical columns are always taken over. Without brackets everything else is, too, and options are
overwritten.

Source: Flink `MergeTableLikeUtil` and `SqlTableLike` (2.3), messages included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.sql.catalogue import CatalogTable
from service.sql.errors import Position, ValidationError
from service.sql.source_text import Fragment
from service.sql.table_draft import TableDraft

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.sql.catalogue import Catalogue, Column
    from service.sql.cursor import Cursor

_STRATEGIES = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_OVERWRITABLE = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_FEATURES = (*_OVERWRITABLE, "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS")
_DEFAULT = {**dict.fromkeys(_FEATURES, "INCLUDING"), "OPTIONS": "OVERWRITING"}
_OUT = "EXCLUDING"
_FEATURE_OF = {"COMPUTED": "GENERATED", "METADATA": "METADATA"}
"""What decides on a column, by its kind."""


@dataclass(frozen=True, slots=True)
class Like:
    """A LIKE clause."""

    base: CatalogTable
    position: Position
    how: Mapping[str, str]
    """The strategy of each feature."""


@dataclass(frozen=True, slots=True)
class _CopiedFragment(Fragment):
    """A text of another statement: what is wrong with it here is said of the LIKE clause."""

    place: Position

    def part(self, start: int, end: int) -> Fragment:
        return replace(self, start=self.start + start, end=self.start + end)

    def position(self, offset: int = 0) -> Position:
        return self.place


def read_like(cursor: Cursor, catalogue: Catalogue) -> Like | None:
    """The clause that is next, if one is.

    Raises:
        SqlSyntaxError: It is malformed.
        ValidationError: There is no such table, or a feature has two strategies or none of its own.
    """
    if not cursor.take("LIKE"):
        return None
    position = cursor.position()
    base = catalogue.find(cursor.names(), position)
    if not isinstance(base, CatalogTable):
        name = ".".join(f"`{each}`" for each in base.names)
        raise ValidationError(
            f"Source table '{name}' of the LIKE clause can not be a VIEW", position
        )
    given: dict[str, str] = {}
    if cursor.take("("):
        while not (given and cursor.take(")")):
            _read_strategy(cursor, given)
    of_all = given.pop("ALL", None)
    default = dict.fromkeys(_FEATURES, of_all) if of_all else _DEFAULT
    return Like(base, position, {**default, **given})


def _read_strategy(cursor: Cursor, given: dict[str, str]) -> None:
    strategy, position = cursor.word, cursor.position()
    if strategy not in _STRATEGIES:
        raise cursor.fail(" or ".join(_STRATEGIES))
    cursor.expect(strategy)
    feature = cursor.word
    if feature not in ("ALL", *_FEATURES):
        raise cursor.fail("ALL, " + " or ".join((", ".join(_FEATURES[:-1]), _FEATURES[-1])))
    cursor.expect(feature)
    if feature in given:
        raise ValidationError("Each like option feature can be declared only once.", position)
    if strategy == "OVERWRITING" and feature not in _OVERWRITABLE:
        raise ValidationError(
            f"Illegal merging strategy 'OVERWRITING' for '{feature}' option.", position
        )
    given[feature] = strategy


def merged(own: TableDraft, like: Like) -> TableDraft:
    """What a table takes over, then what it says itself.

    Raises:
        ValidationError: Both say something that only one may say.
    """
    base = like.base
    kept = [each for each in base.columns if like.how.get(_FEATURE_OF.get(each.kind, "")) != _OUT]
    made = TableDraft(
        computed={
            each.name: _copy(each.expression_source, like)
            for each in kept
            if each.kind == "COMPUTED"
        },
        watermark=_watermark(own, like),
        partitions=_partitions(own, like),
        options=_options(own, like),
    )
    made.key, made.key_name = _key(own, like)
    columns = {each.name: each for each in kept}
    for column in own.columns:
        if column.name in columns:
            _require_overwriting(columns[column.name], column, like)
        columns[column.name] = column
    made.columns = [*columns.values()]
    made.names = {*columns}
    made.computed |= own.computed
    return made


def _copy(text: str, like: Like) -> Fragment:
    return _CopiedFragment(text, 0, len(text), like.position)


def _require_overwriting(found: Column, column: Column, like: Like) -> None:
    """See that a column may stand in the place of another one of its name."""
    feature = _FEATURE_OF.get(column.kind, "")
    in_base = f"A column named '{column.name}' already exists in the base table."
    if not feature:
        raise ValidationError(in_base, like.position)
    kind, column_kind = ("computed", "compute") if feature == "GENERATED" else ("metadata",) * 2
    if found.kind == "PHYSICAL":
        raise ValidationError(
            f"A column named '{column.name}' already exists in the table. Duplicate columns exist "
            f"in the {column_kind} column and regular column.",
            like.position,
        )
    if found.kind != column.kind:
        raise ValidationError(
            f"{in_base} {kind.capitalize()} columns can only overwrite other {kind} columns.",
            like.position,
        )
    if like.how[feature] != "OVERWRITING":
        raise ValidationError(
            f"A {feature.lower()} column named '{column.name}' already exists in the base table. "
            f"You might want to specify EXCLUDING {feature} or OVERWRITING {feature}.",
            like.position,
        )


def _key(own: TableDraft, like: Like) -> tuple[tuple[str, ...], str]:
    base = like.base
    if base.primary_key and like.how["CONSTRAINTS"] != _OUT:
        if own.key:
            raise ValidationError(
                "The base table already has a primary key. You might want to specify EXCLUDING "
                "CONSTRAINTS.",
                like.position,
            )
        return base.primary_key, base.primary_key_name
    for column in base.columns:
        if column.name in own.key and column.kind == "PHYSICAL" and column.type.nullable:
            name = own.key_name or "PK_" + "_".join(own.key)
            raise ValidationError(
                f"Invalid primary key '{name}'. Column '{column.name}' is nullable.", like.position
            )
    return own.key, own.key_name


def _watermark(own: TableDraft, like: Like) -> tuple[str, Fragment] | None:
    mark, strategy = like.base.watermark, like.how["WATERMARKS"]
    if mark is None or strategy == _OUT:
        return own.watermark
    if own.watermark is None:
        return mark.column, _copy(mark.expression_source, like)
    if own.watermark[0] != mark.column:
        raise ValidationError(
            "Multiple watermark definitions are not supported yet.",
            like.position,
        )
    if strategy != "OVERWRITING":
        raise ValidationError(
            f"There already exists a watermark spec for column '{mark.column}' in the base table. "
            "You might want to specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS.",
            like.position,
        )
    return own.watermark


def _partitions(own: TableDraft, like: Like) -> tuple[str, ...]:
    if like.how["PARTITIONS"] == _OUT or not like.base.partition_keys:
        return own.partitions
    if own.partitions:
        raise ValidationError(
            "The base table already has partitions defined. You might want to specify EXCLUDING "
            "PARTITIONS.",
            like.position,
        )
    return like.base.partition_keys


def _options(own: TableDraft, like: Like) -> dict[str, str]:
    strategy = like.how["OPTIONS"]
    if strategy == _OUT:
        return own.options
    twice = [each for each in own.options if each in like.base.options]
    if strategy == "INCLUDING" and twice:
        # What the options say may be secret, so only the name is told.
        raise ValidationError(
            f"There already exists an option '{twice[0]}' in the base table. You might want to "
            "specify EXCLUDING OPTIONS or OVERWRITING OPTIONS.",
            like.position,
        )
    return {**like.base.options, **own.options}
