"""Answers about what operators keep: states, keys, rows and histories."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.models import EpochPage, Page


class OperatorInput(BaseModel):
    """What comes to an operator by one input."""

    columns: list[dict[str, str]]
    key_columns: list[dict[str, str]] = Field(description="State is kept by these.")
    ttl_ms: int | None
    watermark: str | None = Field(
        description="How far event time has come on this input, where the operator waits for it; "
        "null before the first one."
    )


class Operator(BaseModel):
    """A stateful operator; columns, key and TTL are of its first input where it has several."""

    id: str
    node_id: int
    kind: str
    epoch: int
    key_columns: list[dict[str, str]]
    upsert_key_columns: list[dict[str, str]]
    columns: list[dict[str, str]]
    inputs: list[OperatorInput]
    strategy: str | None
    ttl_ms: int | None = Field(description="The longest of its inputs.")
    watermark: str | None = Field(
        description="What the operator has come to: the least of its inputs. What it holds back "
        "comes out once this has passed it."
    )
    keys: int = Field(
        description="Of the state that has most of them; one with several namespaces counts for "
        "each."
    )
    orphans: int = Field(description="Retractions that matched nothing.")
    late: int = Field(description="Rows that the watermark had passed, and that were dropped.")
    last_epoch: dict[str, float] = Field(
        description="What it did in the last closed epoch, added up over its tasks: changes, state "
        "reads and writes, round trips, and peaks and counts of its controller."
    )


class OperatorList(Page):
    """The pipeline's stateful operators."""

    items: list[Operator]


class State(BaseModel):
    """A state that an operator has registered."""

    name: str
    kind: str
    codecs: list[str]
    ttl_ms: int | None
    ttl_update: str
    ttl_visibility: str
    ttl_time: str
    ttl_enabled_at: str | None = Field(
        description="When TTL was switched on for entries that existed already."
    )
    keys: int = Field(
        description="Keys that have something in it, with their namespaces; how many timers."
    )


class StateList(Page):
    """The states of an operator, by name."""

    items: list[State]


class StateElement(BaseModel):
    """A live element of a state; rows are shown by column names."""

    rank: int | None = Field(
        description="In a sorted map: its place in the order, from 1; null elsewhere."
    )
    key: object = Field(
        description="Of a map; the number in a list; the namespace of a timer; null in a value."
    )
    value: object = Field(description="Of a timer: its time in ms since 1970.")
    touched_at: str | None = Field(
        description="Its last access that the TTL counts from; null without TTL."
    )
    expires_at: str | None


class StateKey(EpochPage):
    """What a key has in a state."""

    key: list[Any]
    state: str
    kind: str
    layout: Literal["packed", "spread"]
    items: list[StateElement]


class OneOfKeyStates(BaseModel):
    """What a key has in one of the states of its operator."""

    state: str
    kind: str
    layout: Literal["packed", "spread"]
    href: str
    items: list[StateElement]
    next: str | None = Field(description="The rest of it; null if this is all.")


class KeyStates(BaseModel):
    """What a key has in each state that has something for it."""

    key: list[Any]
    epoch: int
    states: list[OneOfKeyStates]


class Key(BaseModel):
    """A key that has something in state."""

    key: list[Any]
    namespace: str = Field(description='"" where the operator uses none.')
    href: str
    layout: Literal["packed", "spread"]
    entries: int = Field(
        description="In the first state that has the key; some may be past their time."
    )


class KeyList(EpochPage):
    """A page of keys, in the order of key groups."""

    items: list[Key]


class KeyRow(BaseModel):
    """A key's current row."""

    key: list[Any]
    epoch: int
    sequence_number: int
    row: dict[str, Any]
    inserted_at: str
    expires_at: str | None
    entries: int


class Entry(BaseModel):
    """A live row of a history."""

    sequence_number: int
    row: dict[str, Any]
    inserted_at: str
    expires_at: str | None
    current: bool = Field(description="The newest live entry.")
    shown: bool = Field(description="The one that the operator emitted last.")


class History(EpochPage):
    """A page of a key's live rows, oldest first."""

    key: list[Any]
    entries: int = Field(description="Live rows, on this page or not.")
    layout: Literal["packed", "spread"]
    items: list[Entry]


class KeyExplanation(BaseModel):
    """Why a key's row is what it is."""

    key: list[Any]
    epoch: int
    text: str
    current: Entry
    fallback: Entry | None
    shown_sequence_number: int | None = Field(
        description="The entry that the sink shows; null: a row that is gone."
    )
    entries: int
    entries_behind: int
    on_retraction: Literal["update", "delete"]


class ElementWhatIf(BaseModel):
    """An element that is live with at least one of the two TTLs."""

    key: object = Field(description="As in the state's own list; the sequence number in a history.")
    value: object
    touched_at: str | None = Field(
        description="Its last access that the TTL counts from; null without TTL."
    )
    live: bool
    expires_at: str | None
    live_then: bool = Field(description="Whether it would be live now with the other TTL.")
    expires_at_then: str | None


class StateWhatIf(BaseModel):
    """What a key has in one state, with the TTL in force and with the other one."""

    state: str
    kind: str
    ttl_ms: int | None = Field(description="In force; null: for ever.")
    ttl_ms_then: int | None
    live: int = Field(
        description="Of a history: all live rows; of other states: the elements listed."
    )
    live_then: int
    is_whole: bool = Field(description="Whether `items` are complete; `limit` bounds them.")
    items: list[ElementWhatIf]


class KeyTtlWhatIf(BaseModel):
    """What another TTL would do to a key."""

    key: list[Any]
    epoch: int
    text: str
    states: list[StateWhatIf]
    current_sequence_number: int | None = Field(
        default=None, description="Of an upsert materializer: the newest live entry."
    )
    current_sequence_number_then: int | None = None


class Orphans(EpochPage):
    """A page of retractions that matched nothing."""

    count: int = Field(description="All of them, listed or not.")
    items: list[dict[str, Any]]
