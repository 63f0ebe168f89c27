"""What becomes of a plan's state and tables where another plan goes on with them: one judgement.

`plans/diff` and `validate` tell it, a restore and a replacement act by it, and nothing else decides
which state a plan may read. Whatever it calls kept is right: after the change the state, or the
table, is what the new plan would have made of all that was ever read.

    state       kept      the new plan has a node whose state means the same, whatever its number
                dropped   no node of the new plan would read it as what it is
                new       begins empty

    table       kept      it is what the new plan would have written, maybe under another name
                outdated  it has rows that the new plan would write otherwise, or not at all, or
                          lacks some; they stay until a change comes for them
                new       begins empty: of what was read before it has nothing
                gone      the new plan does not write it

    source      kept      is read on from where it was
                new       is read from its beginning
                gone      is not read any more
                other     is another one of the same name: a place in one is none in the other

A table is kept if the same rows come to it and all state that they follow from is kept. Another
condition, projection or grouping below a state makes other rows of it, so that state is not kept;
above all states it only outdates tables. What another output reads or keeps makes no difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from service.plan.state_meaning import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.plan.state_meaning import PlanMeaning, SourceMeaning, StateMeaning, TableMeaning

StateOutcome = Literal["kept", "dropped", "new"]
TableOutcome = Literal["kept", "outdated", "new", "gone"]
SourceOutcome = Literal["kept", "new", "gone", "other"]

_WORDS = {
    "input rows": "the rows that come to it",
    "input columns": "the columns that come to it",
    "input types": "the types of what comes to it",
    "rows": "the rows that come to it",
    "columns": "what its columns are",
    "key": "its primary key",
    "names and types": "names or types of its columns",
    "time": "its watermarks",
}


@dataclass(frozen=True, slots=True)
class StateChange:
    """What becomes of one node's state."""

    outcome: StateOutcome
    before: int | None
    """The node that kept it; None: it is new."""
    after: int | None
    """The node that keeps it; None: it is dropped."""
    type: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableChange:
    """What becomes of one table."""

    outcome: TableOutcome
    before: str | None
    """Its identifier in the plan before; None: it is new."""
    after: str | None
    """Its identifier in the plan after; None: it is gone."""
    reason: str
    is_whole: bool = True
    """Whether it is what the plan after would have written, as far as that writes it."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What becomes of one source."""

    outcome: SourceOutcome
    key: str
    connector: str


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a plan that takes another's place finds."""

    states: tuple[StateChange, ...]
    tables: tuple[TableChange, ...]
    sources: tuple[SourceChange, ...]
    clocks: Mapping[int, int]
    """By node of the plan before that assigned watermarks: the node that goes on with them."""

    def before_of(self, after: int) -> int | None:
        """The node of the plan before whose state a node of the plan after takes, if there is."""
        return next((each.before for each in self.states if each.after == after), None)


def continuation(before: PlanMeaning, after: PlanMeaning) -> Continuation:
    """Judge what `after` finds of what `before` has left."""
    states = tuple(_states(before.states, after.states))
    taken = {each.after for each in states if each.outcome == "kept"}
    return Continuation(
        states,
        tuple(_tables(before, after, taken)),
        tuple(_sources(before.sources, after.sources)),
        _paired(before.clocks, after.clocks),
    )


def _states(before: Sequence[StateMeaning], after: Sequence[StateMeaning]) -> Iterable[StateChange]:
    """Each state goes to one node that means the same: to the one of its number, if there are."""
    pairs = _paired(
        [(each.node, (each.type, sorted(each.parts.items()))) for each in before],
        [(each.node, (each.type, sorted(each.parts.items()))) for each in after],
    )
    taken = set(pairs.values())
    free = [each for each in after if each.node not in taken]
    for each in before:
        if each.node in pairs:
            number = pairs[each.node]
            told = "the same node reads it" if number == each.node else f"node {number} means it"
            yield StateChange("kept", each.node, number, each.type, told)
        else:
            yield StateChange("dropped", each.node, None, each.type, _why_dropped(each, free))
    for each in free:
        yield StateChange("new", None, each.node, each.type, "it begins empty")


def _paired(
    before: Iterable[tuple[int, object]], after: Iterable[tuple[int, object]]
) -> dict[int, int]:
    """By number: that of an equal one, of several that of the same number, and each once."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for number, meaning in after:
        waiting[repr(meaning)].append(number)
    found: dict[int, int] = {}
    rest: list[tuple[int, str]] = []
    for number, meaning in before:
        equal = waiting[repr(meaning)]
        if number in equal:
            equal.remove(number)
            found[number] = number
        else:
            rest.append((number, repr(meaning)))
    for number, text in rest:
        if waiting[text]:
            found[number] = waiting[text].pop(0)
    return found


def _why_dropped(lost: StateMeaning, free: Sequence[StateMeaning]) -> str:
    """What keeps the nearest node from reading a state."""
    near = [each for each in free if each.type == lost.type]
    if not near:
        return "no node of the plan keeps such state"
    least = min(near, key=lambda each: len(differences(lost.parts, each.parts)))
    told = [_WORDS.get(each, each) for each in differences(lost.parts, least.parts)]
    verb = "differs" if len(told) == 1 and told[0] not in _WORDS.values() else "differ"
    return f"node {least.node} would read it as something else: {', '.join(told)} {verb}"


def _tables(
    before: PlanMeaning, after: PlanMeaning, taken: set[int | None]
) -> Iterable[TableChange]:
    old, new = _by_place(before.tables), _by_place(after.tables)
    renamed = _renamed(old, new, taken)
    for place, sinks in new.items():
        name = sinks[0].table
        if place in renamed:
            yield TableChange("kept", old[renamed[place]][0].table, name, "it has another name")
        elif place in old:
            reason = _why_outdated(old[place], sinks, taken)
            earlier = old[place][0].table
            if reason:
                yield TableChange("outdated", earlier, name, reason, is_whole=False)
            else:
                yield TableChange("kept", earlier, name, "the same rows come to it")
        else:
            known = {each.key for each in before.sources}
            lacks = any(source in known for each in sinks for source in each.sources)
            told = "it begins empty, as all that it comes from begins"
            if lacks:
                told = "it begins empty: of what was read before it gets nothing"
            yield TableChange("new", None, name, told, is_whole=not lacks)
    for place, sinks in old.items():
        if place not in new and place not in renamed.values():
            yield TableChange("gone", sinks[0].table, None, "no statement writes it any more")


_Place = tuple[str, str, str]


def _by_place(tables: Sequence[TableMeaning]) -> dict[_Place, list[TableMeaning]]:
    """The sinks of each table; one that is kept here is another one with another primary key."""
    found: dict[_Place, list[TableMeaning]] = defaultdict(list)
    for each in tables:
        name = each.table if each.is_kept_here else ""
        key = each.parts["key"] if each.is_kept_here else ""
        found[each.connector, each.place or name, key].append(each)
    return dict(found)


def _renamed(
    old: Mapping[_Place, list[TableMeaning]],
    new: Mapping[_Place, list[TableMeaning]],
    taken: set[int | None],
) -> dict[_Place, _Place]:
    """By place of the plan after: the one before whose table goes on there."""
    waiting = {place: sinks for place, sinks in old.items() if place not in new}
    found: dict[_Place, _Place] = {}
    for place, sinks in new.items():
        if place in old or not sinks[0].is_kept_here:
            continue
        for other, theirs in waiting.items():
            is_same = other[0] == place[0] and other[2] == place[2]
            if is_same and not _why_outdated(theirs, sinks, taken):
                found[place] = other
                del waiting[other]
                break
    return found


def _why_outdated(
    old: Sequence[TableMeaning], new: Sequence[TableMeaning], taken: set[int | None]
) -> str:
    """Why a table is not what the new plan would have written; empty: it is."""
    begun = sorted({state for each in new for state in each.states if state not in taken})
    if len(old) == len(new) == 1:
        told = [_WORDS.get(each, each) for each in differences(old[0].parts, new[0].parts)]
        if told:
            return f"it has rows that the plan would write otherwise: {', '.join(told)} differ"
    elif Counter(map(_written, old)) != Counter(map(_written, new)):
        return "it has rows of other statements than those that write it now"
    if begun:
        numbers = ", ".join(map(str, begun))
        return f"its rows are of state that is not kept: that of node {numbers} begins empty"
    return ""


def _written(table: TableMeaning) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(table.parts.items()))


def _sources(
    before: Sequence[SourceMeaning], after: Sequence[SourceMeaning]
) -> Iterable[SourceChange]:
    old = {each.key: each for each in before}
    new = {each.key: each for each in after}
    for key, each in new.items():
        if key not in old:
            yield SourceChange("new", key, each.connector)
        elif (old[key].connector, old[key].place) != (each.connector, each.place):
            yield SourceChange("other", key, each.connector)
        else:
            yield SourceChange("kept", key, each.connector)
    for key, each in old.items():
        if key not in new:
            yield SourceChange("gone", key, each.connector)
