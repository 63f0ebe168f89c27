"""Calls over rows of k STRING, v INT, s STRING, b BOOLEAN, and changes of such rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.aggregate.group_aggregate import GroupAggregateSpec
from operators.changelog import Change, RowKind
from operators.spec import InputSpec, RowSpec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("k", "v", "s", "b")
TYPES = tuple(map(parse_type, ("STRING", "INT", "STRING", "BOOLEAN")))
_OF_TEXT = ("LISTAGG", "COLLECT", "ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE")
_RESULTS = {
    "COUNT": "BIGINT NOT NULL",
    "LISTAGG": "STRING",
    "COLLECT": "MULTISET<STRING>",
    "ARRAY_AGG": "ARRAY<STRING>",
    "FIRST_VALUE": "STRING",
    "LAST_VALUE": "STRING",
    "BOOL_AND": "BOOLEAN",
    "BOOL_OR": "BOOLEAN",
}


def call(function: str, arguments: Sequence[int] | None = None, **fields: Any) -> AggregateCall:
    """A call over the columns that suit its function."""
    if arguments is None:
        column = 2 if function in _OF_TEXT else 3 if function.startswith("BOOL") else 1
        arguments = [column]
    given = {
        "result_type": _RESULTS.get(function, "INT"),
        "name": function.strip("$").lower(),
        **fields,
    }
    return AggregateCall(
        function=function,
        arguments=tuple(arguments),
        argument_types=tuple(TYPES[at] for at in arguments),
        **given,
    )


FUNCTIONS = (
    "COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LISTAGG", "COLLECT",
    "ARRAY_AGG", "VAR_POP", "VAR_SAMP", "BIT_AND", "BIT_OR", "BIT_XOR", "BOOL_AND", "BOOL_OR",
)  # fmt: skip  # a list of names, several a line


def every_call(*, needs_retraction: bool) -> list[AggregateCall]:
    """COUNT(*), then each function plainly, with DISTINCT, with FILTER, and with both."""
    found = [call("COUNT", [], needs_retraction=needs_retraction)]
    for function in FUNCTIONS:
        for is_distinct in (False, True):
            found += [
                call(
                    function,
                    is_distinct=is_distinct,
                    filter=chosen,
                    needs_retraction=needs_retraction,
                )
                for chosen in (None, 3)
            ]
    return found


def few_calls(*, needs_retraction: bool) -> list[AggregateCall]:
    """COUNT(*), each function plainly, and those of each kind of state with DISTINCT and FILTER."""
    plain = [call(each, needs_retraction=needs_retraction) for each in FUNCTIONS]
    chosen = ("COUNT", "SUM", "MIN", "FIRST_VALUE", "LISTAGG", "COLLECT")
    filters = (3, None, 3, None, 3, None)
    distinct = [
        call(each, is_distinct=True, filter=column, needs_retraction=needs_retraction)
        for each, column in zip(chosen, filters, strict=True)
    ]
    return [call("COUNT", []), *plain, *distinct]


def spec(
    calls: Sequence[AggregateCall],
    *,
    key: tuple[int, ...] = (0,),
    needs_retraction: bool = True,
    generate_update_before: bool = True,
    **fields: Any,
) -> GroupAggregateSpec:
    """A group aggregation of such rows."""
    names = tuple(f"c{at}" for at in range(len(key) + len(calls)))
    types = (*(TYPES[at] for at in key), *(each.result_type for each in calls))
    return GroupAggregateSpec.build(
        inputs=(InputSpec(types=TYPES, names=NAMES, key=key),),
        output=RowSpec(types=types, names=names),
        calls=tuple(calls),
        needs_retraction=needs_retraction,
        generate_update_before=generate_update_before,
        **fields,
    )


rows = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from([None, -3, 0, 2, 7]),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from([None, True, False]),
)


@st.composite
def changelogs(draw: st.DrawFn, *, retracts: bool = True, most: int = 14) -> list[Change]:
    """Changes where what is taken back is there."""
    live: list[tuple[object, ...]] = []
    found: list[Change] = []
    for _ in range(draw(st.integers(0, most))):
        if retracts and live and draw(st.booleans()):
            row = live.pop(draw(st.integers(0, len(live) - 1)))
            found.append(
                Change(draw(st.sampled_from([RowKind.DELETE, RowKind.UPDATE_BEFORE])), row)
            )
        else:
            row = draw(rows)
            live.append(row)
            found.append(Change(draw(st.sampled_from([RowKind.INSERT, RowKind.UPDATE_AFTER])), row))
    return found


def taken_back(changes: Sequence[Change]) -> list[Change]:
    """What takes back all that the changes leave."""
    live: list[tuple[object, ...]] = []
    for change in changes:
        if change.kind.is_retraction:
            live.remove(change.row)
        else:
            live.append(change.row)
    return [Change(RowKind.DELETE, row) for row in live]
