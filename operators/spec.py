"""What a keyed operator is to do, as it is built from a plan's node and travels to workers.

A spec is a frozen pydantic model: it refuses to exist when it is wrong, and its JSON is what the
service hands to Spark's workers. Each operator has a spec class of its own with a `kind`; the list
of all kinds is in `operators.kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PlainSerializer,
    PositiveInt,
    ValidationError,
    model_validator,
)

from operators.errors import InvalidSpec
from state.codec import RowCodec
from state.ttl import DISABLED, TtlConfig
from state.types import LogicalType, format_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.keyed import KeyedOperator
    from state.descriptors import StateDescriptor


def _logical(given: object) -> Any:
    return parse_type(given, is_ours=True) if isinstance(given, str) else given


Logical = Annotated[LogicalType, BeforeValidator(_logical), PlainSerializer(format_type)]
"""A column's type; in JSON its text, as a plan writes it."""


class RowSpec(BaseModel):
    """The columns of a row, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    types: tuple[Logical, ...]
    names: tuple[str, ...]

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if len(self.types) != len(self.names):
            raise ValueError(f"{len(self.names)} names for {len(self.types)} columns")
        return self

    @classmethod
    def of(cls, row: LogicalType) -> Self:
        """The columns of a ROW type.

        A time attribute says how a column came about, not what its values are: it is left out.
        """
        children = tuple(replace(each, time_attribute=None) for each in row.children)
        return cls(types=children, names=tuple(row.field_names))

    def codec(self) -> RowCodec:
        """The codec of these rows; made anew at each call, which takes time."""
        return RowCodec(self.types, unique(self.names))

    def part(self, columns: tuple[int, ...]) -> RowSpec:
        """Some of the columns, in this order."""
        return RowSpec(
            types=tuple(self.types[at] for at in columns),
            names=tuple(self.names[at] for at in columns),
        )


class InputSpec(RowSpec):
    """The rows of one input, and the columns that state is kept by."""

    key: tuple[NonNegativeInt, ...]
    """Empty: all rows belong to one key. A column may stand twice, as where a join compares it with
    two columns of the other side."""

    @model_validator(mode="after")
    def _key_columns(self) -> Self:
        if any(at >= len(self.types) for at in self.key):
            raise ValueError(f"key {list(self.key)} does not name columns of the input")
        return self

    @property
    def key_row(self) -> RowSpec:
        """The key's columns."""
        return self.part(self.key)


class OperatorSpec(BaseModel, ABC):
    """What all keyed operators have.

    A subclass sets `kind: Literal["..."] = "..."`, adds its fields, and makes its operator.

    Raises:
        InvalidSpec: By `build` and `from_json`, where fields do not fit each other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    kind: str
    inputs: tuple[InputSpec, ...]
    output: RowSpec
    ttl_ms: tuple[NonNegativeInt, ...] = ()
    """Time to live of the state of each input, by the index of the plan's `state` entries; 0, or
    missing: for ever."""
    ttl_extension_ms: NonNegativeInt = 0
    """By how much all lives were extended: `TtlClock.extension_ms`."""
    ttl_enabled_ms: Mapping[str, int | None] = {}
    """By state name: when TTL was switched on for state that was there already."""
    is_stamped: tuple[str, ...] = ()
    """Names of states in which some run had a TTL."""
    orphans_max: NonNegativeInt = 1000
    """Retractions without a match that are listed for each key group; the count goes on."""
    limits: Mapping[str, PositiveInt] = {}
    """Of the controller: `in_flight_max`, `batch_max`, `timeout_ms`, as `ControllerLimits` has
    them; what is missing is its default."""
    sets_aside_missing_times: bool = False
    """Rows without an event time where one decides are set aside; else they end the epoch."""
    sets_aside_late: bool = False
    """Rows that are dropped as the watermark has passed them are listed, too."""
    bundles: bool = False
    """Mini-batch: all changes of a key in an epoch are handed over at once."""

    @abstractmethod
    def operator(self) -> KeyedOperator:
        """The operator; made once a process, it serves many epochs and partitions."""

    @property
    def needed_times(self) -> tuple[tuple[int, int], ...]:
        """Columns of event time that must have a value: the number of the input, and the column."""
        return ()

    @classmethod
    def build(cls, **fields: Any) -> Self:  # Pydantic checks them
        """A spec of these fields.

        Raises:
            InvalidSpec: They do not fit each other.
        """
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InvalidSpec(first_problem(error)) from error

    def to_json(self) -> str:
        """As it travels to workers."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The spec that `to_json` wrote.

        Raises:
            InvalidSpec: It wrote no such text.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InvalidSpec(first_problem(error)) from error

    def ttl_of(self, index: int) -> TtlConfig:
        """The TTL of the state of an input, as SQL has it: written stamps, never shown expired."""
        ttl_ms = self.ttl_ms[index] if index < len(self.ttl_ms) else 0
        return TtlConfig(ttl_ms) if ttl_ms else DISABLED

    def with_past(self, states: Sequence[StateDescriptor]) -> Self:
        """This spec, told what is known of its states' past.

        Args:
            states: Its operator's descriptors as `state.registry.register_states` gave them back.
        """
        past = {
            "ttl_enabled_ms": {each.name: each.enabled_ms for each in states},
            "is_stamped": tuple(each.name for each in states if each.is_stamped),
        }
        return self.model_copy(update=past)

    def past_of(self, name: str) -> dict[str, Any]:
        """What a descriptor of this name must know of earlier runs: arguments for it.

        `ValueDescriptor(name="rows", codec=codec, ttl=spec.ttl_of(0), **spec.past_of("rows"))`
        """
        return {
            "enabled_ms": self.ttl_enabled_ms.get(name),
            "is_stamped": name in self.is_stamped,
        }


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """These names, made different by a number where they repeat: codecs need them so."""
    seen: set[str] = set()
    out: list[str] = []
    for name in names:
        chosen, number = name, 0
        while chosen in seen:
            chosen, number = f"{name}{number}", number + 1
        seen.add(chosen)
        out.append(chosen)
    return tuple(out)


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a model, without the value that was found."""
    found = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, found["loc"]))
    # What pydantic puts before the text of a check of ours.
    message = str(found["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
