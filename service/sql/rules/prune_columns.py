"""Carry only the columns that somebody above reads.

    before   Project[l.id](Join[l.k = r.k](l(id, k, v), r(id, k, w)))
    after    Project[id](Join[k = k0](Project[id, k](l), Project[k](r)))

Projections are put below joins, ranks, OVER and window functions, through unions, and into the
projections that are there. They are not put below an aggregate's own projection, nor below event
time where the table's source is right under it, nor below a limit: there Flink puts none.

Source: Calcite `ProjectJoinTransposeRule` and `PushProjector`, Flink `FlinkLogicalRankRule` and
others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import InputRef, Literal
from service.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    MultiJoin,
    Project,
    Relation,
    Sort,
    Union,
    VersionJoin,
    Watermark,
    inputs,
    with_inputs,
)
from service.sql.logical_keys import unique_keys
from service.sql.rex import column_of, inputs_of, inputs_of_all, ref, remap, type_of, walk
from service.sql.terms import RankRange
from service.sql.types import PROCTIME
from service.sql.window_relations import Over, Rank, WindowTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.plan.rex import Rex
    from service.sql.rex import Expression
    from service.sql.terms import Ordering

Columns = "frozenset[int]"


def prune_columns(relation: Relation) -> Relation:
    """The relation with the same columns, made of fewer."""
    made, _ = _prune(relation, frozenset(range(len(relation.row))))
    return made


def _prune(relation: Relation, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    """The relation with at least the needed columns, and where each of them is now."""
    match relation:
        case Project():
            return _prune_project(relation, needed)
        case Filter():
            wanted = needed | inputs_of(relation.condition)
            below, places = _prune(relation.input, wanted)
            condition = _moved(relation.condition, places)
            return Filter(below, condition), {each: places[each] for each in needed}
        case Join():
            return _prune_join(relation, needed)
        case MultiJoin():
            return _prune_multi_join(relation, needed)
        case VersionJoin():
            return _prune_version_join(relation, needed)
        case Rank():
            return _prune_rank(relation, needed)
        case Over():
            return _prune_over(relation, needed)
        case Union():
            sides = tuple(_narrow(side, needed)[0] for side in relation.inputs)
            return Union(sides), _places(needed)
        case Watermark() if _is_narrowed(relation, needed):
            return _prune_watermark(relation, sorted(needed))
        case WindowTable():
            return _prune_window(relation, needed)
        case Aggregate():
            return _prune_aggregate(relation, needed)
        case Sort():
            wanted = needed | {key.column for key in relation.order}
            if isinstance(relation.input, (Project, Filter, Aggregate)):
                below, places = _prune(relation.input, wanted)
                return _resorted(relation, below, places), {each: places[each] for each in needed}
            return _whole(relation)
        case _:
            return _whole(relation)


def _whole(relation: Relation) -> tuple[Relation, dict[int, int]]:
    """The relation as wide as it is, made of fewer columns below."""
    below = tuple(prune_columns(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    return made, {index: index for index in range(len(made.row))}


def _narrow(relation: Relation, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    """The relation with exactly the needed columns, in their order."""
    made, places = _prune(relation, needed)
    kept = sorted(needed)
    if [places[each] for each in kept] == list(range(len(made.row))):
        return made, _places(needed)
    row = made.row
    expressions = tuple(ref(places[each], row.types[places[each]]) for each in kept)
    names = tuple(relation.row.names[each] for each in kept)
    return Project(made, expressions, names), _places(needed)


def _narrow_below_over(
    relation: Relation, needed: frozenset[int], *, is_rank: bool
) -> tuple[Relation, dict[int, int]]:
    """As `_narrow`, but what is wide stays so, as event time does below a rank.

    Flink moves no projection with OVER below it.
    """
    if not _is_wide(relation) and not (is_rank and isinstance(relation, Watermark)):
        return _narrow(relation, needed)
    if isinstance(relation, Project):
        columns = [column_of(rex) for rex in relation.expressions]
        used = frozenset(columns[each] for each in needed)
        below, places = _narrow_below_over(relation.input, used, is_rank=is_rank)
        return below, {each: places[columns[each]] for each in needed}
    whole, _ = _whole(relation)
    if len(needed) == len(whole.row):
        return whole, _places(needed)
    kept = sorted(needed)
    row = whole.row
    expressions = tuple(ref(each, row.types[each]) for each in kept)
    return Project(whole, expressions, tuple(row.names[each] for each in kept)), _places(needed)


def _is_wide(relation: Relation) -> bool:
    """Whether this, or what it only takes columns of, is not made narrower for a rank."""
    if isinstance(relation, Project) and all(
        isinstance(rex, InputRef) for rex in relation.expressions
    ):
        relation = relation.input
    if isinstance(relation, Filter):
        return isinstance(relation.input, WindowTable)
    return isinstance(relation, (Aggregate, Join, WindowTable))


def _places(needed: Iterable[int]) -> dict[int, int]:
    return {each: place for place, each in enumerate(sorted(needed))}


def _moved(rex: Rex, places: Mapping[int, int]) -> Rex:
    return remap(rex, places)


def _prune_project(project: Project, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    kept = sorted(needed)
    wanted = [project.expressions[each] for each in kept]
    if (
        isinstance(project.input, Over)
        and all(isinstance(rex, InputRef) for rex in wanted)
        and not _has_constants(project.input)
    ):
        # Only where something is computed of OVER functions, or their windows have constants
        # beside their columns, does Flink look at what they read.
        below, places = _whole(project.input)
    elif isinstance(project.input, Watermark) and _is_narrowed(
        project.input, inputs_of_all(wanted)
    ):
        below, places = _prune_watermark(project.input, _as_read(wanted))
    else:
        below, places = _prune(project.input, inputs_of_all(wanted))
    expressions = tuple(remap(rex, places) for rex in wanted)
    names = tuple(project.names[each] for each in kept)
    return Project(below, expressions, names), _places(needed)


def _has_constants(over: Over) -> bool:
    bounds = (over.frame.lower.offset, over.frame.upper.offset)
    operands = [operand for call in over.calls for operand in call.operands]
    return any(each is not None for each in bounds) or any(
        isinstance(each, Literal) for each in operands
    )


def _prune_join(join: Join, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    width = len(join.left.row)
    used = needed | (frozenset() if join.condition is None else inputs_of(join.condition))
    left, left_places = _narrow(join.left, frozenset(each for each in used if each < width))
    right_used = frozenset(each - width for each in used if each >= width)
    right, right_places = _narrow(join.right, right_used)
    places = left_places | {
        each + width: place + len(left.row) for each, place in right_places.items()
    }
    condition = None if join.condition is None else _moved(join.condition, places)
    made = replace(join, left=left, right=right, condition=condition)
    return made, {each: places[each] for each in needed}


def _prune_multi_join(join: MultiJoin, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    used = needed | inputs_of_all(join.conditions)
    begin = 0
    sides: list[Relation] = []
    keys: list[tuple[int, ...]] = []
    places: dict[int, int] = {}
    made_width = 0
    for side, common in zip(join.inputs, join.common_keys, strict=True):
        own = frozenset(each - begin for each in used if begin <= each < begin + len(side.row))
        own |= set(common)
        narrow, inner = _narrow(side, own)
        places |= {begin + each: made_width + place for each, place in inner.items()}
        keys.append(tuple(inner[each] for each in common))
        sides.append(narrow)
        begin += len(side.row)
        made_width += len(narrow.row)
    conditions = tuple(_moved(each, places) for each in join.conditions)
    made = replace(join, inputs=tuple(sides), conditions=conditions, common_keys=tuple(keys))
    return made, {each: places[each] for each in needed}


def _prune_version_join(
    join: VersionJoin, needed: frozenset[int]
) -> tuple[Relation, dict[int, int]]:
    """A lookup keeps its table whole; a temporal join keeps both times and the version's key."""
    width = len(join.left.row)
    is_lookup = _is_proctime(join)
    used = needed | (frozenset() if join.condition is None else inputs_of(join.condition))
    left_used = {each for each in used if each < width}
    right_used = {each - width for each in used if each >= width}
    if not is_lookup:
        left_used |= inputs_of(join.time)
        right_used |= _versioned(join.right)
    left, left_places = _narrow(join.left, frozenset(left_used))
    if is_lookup:
        right, right_places = join.right, {each: each for each in range(len(join.right.row))}
    else:
        right, right_places = _narrow(join.right, frozenset(right_used))
    places = left_places | {
        each + width: place + len(left.row) for each, place in right_places.items()
    }
    condition = None if join.condition is None else _moved(join.condition, places)
    time = join.time if is_lookup else _moved(join.time, places)
    read = frozenset(each - width for each in needed if each >= width)
    made = replace(join, left=left, right=right, condition=condition, time=time, used_right=read)
    return made, {each: places[each] for each in needed}


def _is_proctime(join: VersionJoin) -> bool:
    return type_of(join.time).time_attribute == PROCTIME.time_attribute


def _versioned(relation: Relation) -> set[int]:
    """The event time of a versioned table."""
    return {
        index for index, kind in enumerate(relation.row.types) if kind.time_attribute == "ROWTIME"
    }


def _prune_rank(rank: Rank, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    width = len(rank.input.row)
    used = {each for each in needed if each < width} | set(rank.partition)
    used |= {key.column for key in rank.order}
    if rank.range.end_column is not None:
        used.add(rank.range.end_column)
    # A rank of updates finds the row that is updated by its key.
    used |= frozenset().union(*unique_keys(rank.input))
    below, places = _narrow_below_over(rank.input, frozenset(used), is_rank=True)
    end = rank.range.end_column
    bounds = rank.range if end is None else RankRange(end_column=places[end])
    made = replace(
        rank,
        input=below,
        partition=tuple(places[each] for each in rank.partition),
        order=_keys(rank.order, places),
        range=bounds,
        number_name=rank.number_name if width in needed else None,
    )
    return made, {each: len(below.row) if each == width else places[each] for each in needed}


def _prune_over(over: Over, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    width = len(over.input.row)
    used = {each for each in needed if each < width} | set(over.partition)
    used |= {key.column for key in over.order}
    used |= inputs_of_all(operand for call in over.calls for operand in call.operands)
    if isinstance(over.input, Watermark) and not _has_constants(over):
        # Flink puts no projection between event time and what is over it.
        used = set(range(width))
    below, places = _narrow_below_over(over.input, frozenset(used), is_rank=False)
    calls = tuple(
        replace(call, operands=tuple(_moved(operand, places) for operand in call.operands))
        for call in over.calls
    )
    made = replace(
        over,
        input=below,
        calls=calls,
        partition=tuple(places[each] for each in over.partition),
        order=_keys(over.order, places),
    )
    shifted = {each: len(below.row) + each - width for each in needed if each >= width}
    return made, {each: places[each] for each in needed if each < width} | shifted


def _is_narrowed(mark: Watermark, needed: frozenset[int]) -> bool:
    """Whether a projection below event time is made of fewer columns.

    Not if PROCTIME() is read, nor if the time itself is computed there and nobody reads it.
    """
    below = mark.input
    if not isinstance(below, Project):
        return False
    if mark.column not in needed and not isinstance(below.expressions[mark.column], InputRef):
        return False
    return not any(type_of(below.expressions[each]).time_attribute == "PROCTIME" for each in needed)


def _prune_watermark(mark: Watermark, needed: Sequence[int]) -> tuple[Relation, dict[int, int]]:
    """The needed columns as they are given, then what event time is made of.

    Source: Flink `ProjectWatermarkAssignerTransposeRule`.
    """
    rest = (frozenset({mark.column}) | inputs_of(mark.expression)).difference(needed)
    order = (*needed, *sorted(rest))
    if len(order) == len(mark.row):
        order = tuple(range(len(mark.row)))
    project = mark.input
    assert isinstance(project, Project), "there is something to narrow"
    arranged = Project(
        project.input,
        tuple(project.expressions[each] for each in order),
        tuple(project.names[each] for each in order),
    )
    below, _ = _prune_project(arranged, frozenset(range(len(order))))
    places = {each: place for place, each in enumerate(order)}
    made = Watermark(below, places[mark.column], _moved(mark.expression, places))
    return made, {each: places[each] for each in needed}


def _as_read(expressions: Sequence[Expression]) -> list[int]:
    """The columns that expressions read, in the order in which they do."""
    parts = (part for rex in expressions for part in walk(rex))
    return list(dict.fromkeys(part.index for part in parts if isinstance(part, InputRef)))


def _prune_window(window: WindowTable, needed: frozenset[int]) -> tuple[Relation, dict[int, int]]:
    width = len(window.input.row)
    spec = window.spec
    used = {each for each in needed if each < width} | {spec.time_column, *spec.partition}
    below, places = _narrow(window.input, frozenset(used))
    moved = replace(
        spec,
        time_column=places[spec.time_column],
        partition=tuple(places[each] for each in spec.partition),
    )
    made = WindowTable(below, moved)
    after = {each: len(below.row) + each - width for each in needed if each >= width}
    return made, {each: places[each] for each in needed if each < width} | after


def _prune_aggregate(
    aggregate: Aggregate, needed: frozenset[int]
) -> tuple[Relation, dict[int, int]]:
    """Calls that nobody reads are left out; what they read is not."""
    width = len(aggregate.grouping)
    kept = [position for position in range(len(aggregate.calls)) if width + position in needed]
    if not kept and not width:
        kept = list(range(len(aggregate.calls)))
    row = aggregate.row
    calls = tuple(
        replace(aggregate.calls[position], name=row.names[width + position])
        if len(kept) != len(aggregate.calls)
        else aggregate.calls[position]
        for position in kept
    )
    made = replace(aggregate, input=prune_columns(aggregate.input), calls=calls)
    made = _in_order(made)
    places = {each: each for each in range(width)}
    places |= {width + position: width + at for at, position in enumerate(kept)}
    return made, {each: places[each] for each in needed}


def _in_order(aggregate: Aggregate) -> Aggregate:
    """The columns of what is filtered, in their order, if the condition reads no others.

    Then a projection below the condition has done all that the one above it would, but for the
    order. Groups keep theirs.

    Source: Calcite `AggregateProjectMergeRule`.
    """
    project = aggregate.input
    if not (isinstance(project, Project) and isinstance(project.input, Filter)):
        return aggregate
    columns = [rex.index for rex in project.expressions if isinstance(rex, InputRef)]
    order = sorted(range(len(columns)), key=columns.__getitem__)
    places = {each: place for place, each in enumerate(order)}
    if len(columns) != len(project.expressions) or not (
        inputs_of(project.input.condition) <= set(columns)
    ):
        return aggregate
    grouping = tuple(places[each] for each in aggregate.grouping)
    if list(grouping) != sorted(grouping) or len(set(columns)) < len(columns):
        return aggregate
    expressions = tuple(project.expressions[each] for each in order)
    names = tuple(project.names[each] for each in order)
    calls = tuple(call.over(places.__getitem__) for call in aggregate.calls)
    below = Project(project.input, expressions, names)
    return replace(aggregate, input=below, grouping=grouping, calls=calls)


def _resorted(sort: Sort, below: Relation, places: Mapping[int, int]) -> Relation:
    return replace(sort, input=below, order=_keys(sort.order, places))


def _keys(order: tuple[Ordering, ...], places: Mapping[int, int]) -> tuple[Ordering, ...]:
    return tuple(replace(key, column=places[key.column]) for key in order)
