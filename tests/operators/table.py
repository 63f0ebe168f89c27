"""One table of all operators: what each gets in tests, and what it promises.

`test_every_operator` holds every entry to the laws of operators; an operator whose kind has no
entry fails there. An entry is a setting of an operator that has a path of its own through the code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from operators.ordering import SortColumn
from operators.testing.operator_harness import Of, OperatorHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_rank import OrderColumn
from state.multiset.strategy import Strategy
from tests.operators import functions
from tests.operators import inputs as given
from tests.operators import test_changelog_normalize as normalize
from tests.operators import test_compacting_materializer as compacting
from tests.operators import test_lag_lead as lag_lead
from tests.operators import test_temporal_sort as temporal_sort
from tests.operators.aggregate import calls as aggregates
from tests.operators.deduplicate import test_deduplicate as deduplicate
from tests.operators.entries import Entry, copied, entry_of
from tests.operators.inputs import KEYS, POINT, anything, growing, orderly, rows
from tests.operators.join import test_interval as interval
from tests.operators.join import test_lookup as lookup
from tests.operators.join import test_multi as multi
from tests.operators.join import test_streaming as streaming
from tests.operators.join import test_temporal as temporal
from tests.operators.over import test_ordered_over as ordered_over
from tests.operators.over import test_over_aggregate as over
from tests.operators.rank import test_laws as ranks
from tests.operators.rank.ranks import rank_spec
from tests.operators.windows import test_window_aggregate as windows
from tests.operators.windows import test_window_join as window_join
from tests.operators.windows import test_window_rank as window_rank
from tests.operators.windows import test_window_table_function as window_table
from tests.service.runtime.specs.test_aggregates import split

if TYPE_CHECKING:
    from collections.abc import Callable

BEGUN = frozenset({b"groupAggregateState_begun"})
"""That a total has been shown: one that has expired stays as it was, and does not begin anew."""


def _materializer(**fields: Any) -> Callable[..., MaterializerSpec]:
    def make(ttl_ms: tuple[int, ...] = (0,), **more: Any) -> MaterializerSpec:
        return MaterializerSpec(
            types=INTEGERS.types,
            names=INTEGERS.names,
            key=(1,),
            ttl_ms=ttl_ms[0],
            **{"upsert_key": None, "high": 3, "low": 1, **fields, **more},
        )

    return make


def _materializers() -> list[Entry]:
    entry = entry_of(MaterializerSpec.KIND, anything(INTEGERS.rows()), (1,), "rows")
    return [
        *(
            entry(each.value.lower(), _materializer(strategy=each))
            for each in (Strategy.ADAPTIVE, Strategy.VALUE, Strategy.MAP)
        ),
        entry("by upsert key", _materializer(upsert_key=(0,))),
        entry("net changes", _materializer(net_changes=True), bundles=True),
    ]


def _compacting() -> list[Entry]:
    entry = entry_of(
        "compacting-materializer",
        anything(INTEGERS.rows()),
        (1,),
        None,
        watermarks=True,
        bundles=True,
    )
    return [
        entry("by upsert key", compacting.spec),
        entry("by row", partial(compacting.spec, upsert_key=())),
        entry("net changes", partial(compacting.spec, net_changes=True)),
        entry(
            "do error",
            partial(compacting.spec, behavior="ERROR"),
            changes=orderly(INTEGERS.rows(), unique=[(1,)]),
            gone="rows",
            # Changes of two phases need not fit each other, and a conflict ends the query.
            has_ttl=False,
        ),
    ]


def _normalize() -> list[Entry]:
    entry = entry_of(
        "changelog-normalize", anything(rows(KEYS, (None, 1.0, -0.0))), "changelog", "keys"
    )
    return [
        entry("", normalize.spec),
        entry("upserts", partial(normalize.spec, update_before=False), output=(0,)),
        entry("bundles", partial(normalize.spec, bundles=True), bundles=True),
    ]


def _deduplicate() -> list[Entry]:
    row = rows(KEYS, (1, 2), given.times(8, POINT))
    entry = entry_of("deduplicate", growing(row), "changelog", None)
    first, last = deduplicate.FIRST, deduplicate.LAST
    taken = {"changes": anything(row), "gone": "rows"}
    spec = deduplicate.spec
    return [
        entry("first", partial(spec, keeps_last=False), output="insertions"),
        entry("last", partial(spec, keeps_last=True)),
        entry("last, upserts", partial(spec, keeps_last=True, update_before=False), output=(0,)),
        entry("last, bundles", partial(spec, keeps_last=True, bundles=True), bundles=True),
        entry("first by time", partial(spec, **first)),
        entry("last by time", partial(spec, **last)),
        entry(
            "last by time, compact",
            partial(spec, **last, bundles=True, compacts=True),
            bundles=True,
        ),
        entry(
            "first by time, once",
            partial(spec, **first, once=True),
            output="insertions",
            has_ttl=False,
            watermarks=True,
        ),
        entry("first, retracting", partial(spec, keeps_last=False, retracts=True), **taken),
        entry("last, retracting", partial(spec, keeps_last=True, retracts=True), **taken),
        entry("first by time, retracting", partial(spec, **first, retracts=True), **taken),
        entry("last by time, retracting", partial(spec, **last, retracts=True), **taken),
    ]


def _ranks() -> list[Entry]:
    row = rows((1, 2, 3), ("a", "b"), (None, 1, 2, 3))
    entry = entry_of("rank", anything(row), "changelog", "rows")
    grows: dict[str, Any] = {"changes": growing(row), "gone": None}
    rises: dict[str, Any] = {"changes": given.rising(), "gone": None}
    any_order: dict[str, Any] = {"order": ()}
    return [
        entry("retract", rank_spec),
        entry("retract, numbers", partial(rank_spec, with_number=True)),
        entry("retract, second and third", partial(rank_spec, start=2, end=3)),
        entry("retract, end in a column", partial(rank_spec, end=None, end_column=0)),
        entry("retract, no end", partial(rank_spec, end=None)),
        entry("newest first", partial(rank_spec, newest_first=True, end=1, **any_order)),
        entry("oldest first", partial(rank_spec, **any_order)),
        entry("oldest first, numbers", partial(rank_spec, with_number=True, **any_order)),
        entry("append", partial(rank_spec, "append"), **grows),
        entry("append, numbers", partial(rank_spec, "append", with_number=True), **grows),
        entry("append, first", partial(rank_spec, "append", end=1), **grows),
        entry("append, no order", partial(rank_spec, "append", **any_order), **grows),
        entry("append, all keys", partial(rank_spec, "append", key=()), **grows),
        entry("update", ranks.update_spec, **rises),
        entry(
            "update, numbers",
            partial(ranks.update_spec, with_number=True),
            **rises | {"output": "bag"},
        ),
        entry("update, first", partial(ranks.update_spec, end=1), **rises),
    ]


def _group_aggregates() -> list[Entry]:
    entry = entry_of("group-aggregate", orderly(aggregates.rows), "changelog", "rows")
    few, adding = (
        [
            *(
                aggregates.call(each, needs_retraction=retracts)
                for each in ("SUM", "MIN", "FIRST_VALUE", "LAST_VALUE", "LISTAGG", "COLLECT")
            ),
            aggregates.call("COUNT", is_distinct=True, filter=3, needs_retraction=retracts),
            aggregates.call("MAX", is_distinct=True, needs_retraction=retracts),
        ]
        for retracts in (True, False)
    )
    whole = [
        aggregates.call("COUNT", []),
        *(aggregates.call(each, needs_retraction=True) for each in ("SUM", "AVG", "COUNT")),
    ]
    spec = aggregates.spec
    return [
        entry("", partial(spec, few)),
        entry("on columns", partial(spec, whole)),
        entry("what is not there", partial(spec, whole), changes=anything(aggregates.rows)),
        entry("upserts", partial(spec, few, generate_update_before=False), output=(0,)),
        entry(
            "only adds",
            partial(spec, adding, needs_retraction=False),
            changes=growing(aggregates.rows),
            gone=None,
        ),
        entry("of all rows", partial(spec, few, key=()), gone=None, left=BEGUN),
        entry("of all rows, on columns", partial(spec, whole, key=()), gone=None, left=BEGUN),
        entry(
            "of all rows, two phases",
            partial(spec, few, key=(), bundles=True, is_two_phase=True),
            bundles=True,
            gone=None,
            left=BEGUN,
        ),
        entry("bundles", partial(spec, few, bundles=True), bundles=True),
        entry("two phases", partial(spec, few, bundles=True, is_two_phase=True), bundles=True),
    ]


def _split_aggregates() -> list[Entry]:
    middle, final = split(retracts=True)
    row = rows(
        ("a", "b"),
        (None, "x", "y"),
        (None, 1, 2),
        (None, 0),
        (None, 1),
        (True, False),
        (True, False),
        (True, False),
    )
    came = orderly(row)

    def merged(changes: list[Of]) -> list[Of]:
        sent = OperatorHarness.on_heap(middle).run(changes, epoch_changes=3)
        return [Of(0, each) for each in sent]

    return [
        Entry(
            middle.kind, "", copied(lambda: middle), came, "insertions", "rows",
            bundles=True, sums_up=False,
        ),
        Entry(
            "group-aggregate", "of partial aggregates", copied(lambda: final), came.map(merged),
            "changelog", None, bundles=True,
        ),
    ]  # fmt: skip  # a table: a case a line


def _lag_lead() -> list[Entry]:
    entry = entry_of("lag-lead", anything(rows(KEYS, (1, 2, 3))), "changelog", "rows")
    return [
        entry("", lag_lead.spec),
        entry("by value", partial(lag_lead.spec, order=(SortColumn(column=1),))),
    ]


def _ordered_over() -> list[Entry]:
    changes = anything(rows(KEYS, (None, 1, 2), (1, 2, 3)))
    entry = entry_of("ordered-over", changes, "bag", "rows", has_ttl=False)
    return [
        entry("range", partial(ordered_over.spec, ordered_over.CALLS)),
        entry("rows", partial(ordered_over.spec, ordered_over.CALLS, is_rows=True)),
    ]


def _joins() -> list[Entry]:
    side = rows((1, 2, 3), (*KEYS,), ("x", "y"))
    made: list[Entry] = []
    for join_type, known, bundles in (
        ("INNER", "contained", False), ("INNER", "none", False), ("INNER", "unique", True),
        ("LEFT", "unique", False), ("RIGHT", "none", False), ("FULL", "contained", False),
        ("FULL", "none", False), ("FULL", "unique", True), ("SEMI", "unique", False),
        ("SEMI", "none", True), ("ANTI", "none", False), ("ANTI", "contained", False),
    ):  # fmt: skip  # a table: a case a line
        unique = streaming.UNIQUE_KEYS[known]
        made.append(
            Entry(
                "semi-anti-join" if join_type in ("SEMI", "ANTI") else "join",
                f"{join_type.lower()}, {known}{', bundles' if bundles else ''}",
                partial(streaming.spec, join_type, (known, known), bundles=bundles),
                orderly(side, side, unique=[unique, unique]),
                "bag",
                "rows",
                bundles=bundles,
                inputs=2,
            )
        )
    return made


def _multi_joins() -> list[Entry]:
    side = rows((1, 2, None), ("a", "b"))
    return [
        Entry(
            "multi-join", f"{second} {third}".lower(),
            partial(multi.spec, (second, third), (known,) * 3),
            orderly(side, side, side, unique=[multi.UNIQUE_KEYS[known]] * 3), "bag", "rows",
            inputs=3,
        )
        for second, third, known in (
            ("INNER", "INNER", "unique"), ("INNER", "LEFT", "none"), ("LEFT", "LEFT", "contained"),
            ("LEFT", "INNER", "unique"),
        )
    ]  # fmt: skip  # a table: a case a line


def _timed_joins() -> list[Entry]:
    left = rows((1, 2, 3), KEYS, given.times())
    joins = [
        Entry(
            "temporal-join", join_type.lower(), partial(temporal.spec, join_type),
            anything(left, left), "kinds pass", "time", watermarks=True, inputs=2, has_ttl=False,
            left=frozenset({b"versions", b"next_steps"}),
        )
        for join_type in ("INNER", "LEFT")
    ]  # fmt: skip  # a table: a case a line
    joins += [
        Entry(
            "interval-join", setting, partial(interval.spec, join_type, **fields),
            growing(left, left), "insertions", "time", watermarks=fields.get("times", 1) == 1,
            inputs=2, has_ttl=False, sums_up=True,
        )
        for setting, join_type, fields in (
            ("inner", "INNER", {}), ("full", "FULL", {}),
            ("left, processing time", "LEFT", {"times": None}),
        )
    ]  # fmt: skip  # a table: a case a line
    ordered = rows((10, 11, 12), (None, 1, 2, 9))
    joins += [
        Entry(
            "lookup-join", f"{join_type.lower()}{', kept' if kept else ''}",
            partial(lookup.spec, join_type, materializes=kept),
            orderly(ordered, unique=[(0,)]), "bag", "rows",
        )
        for join_type in ("INNER", "LEFT") for kept in (False, True)
    ]  # fmt: skip  # a table: a case a line
    return joins


def _by_time() -> list[Entry]:
    by_value = (SortColumn(column=0),)
    sorted_rows = rows((None, 1, 2, 3), given.times())
    entry = entry_of(
        "temporal-sort", growing(sorted_rows), "insertions", "time", watermarks=True, has_ttl=False
    )
    made = [
        entry("", temporal_sort.spec, left=frozenset({b"last_emitted"})),
        entry("and value", partial(temporal_sort.spec, order=temporal_sort.V_DESC),
              left=frozenset({b"last_emitted"})),
        entry("processing time", partial(temporal_sort.spec, rowtime=None, order=by_value),
              watermarks=False),
    ]  # fmt: skip  # a table: a case a line
    row = rows(("a", "b", None), (None, 1, 2, 3), given.times())
    entry = entry_of(
        "over-aggregate",
        growing(row),
        "insertions",
        "time",
        watermarks=True,
        sums_up=True,
        has_ttl=False,
    )
    for setting, fields in (
        ("rows", {"is_rows": True, "preceding": 1}), ("all rows", {"is_rows": True}),
        ("range", {"preceding": 3}), ("whole range", {}),
    ):  # fmt: skip  # a table: a case a line
        retracts = fields.get("preceding") is not None
        calls = [over.aggregate(each, retracts=retracts) for each in ("SUM", "MIN", "LAST_VALUE")]
        calls.append(over.aggregate("COUNT", retracts=retracts, is_distinct=True))
        made.append(entry(setting, partial(over.spec, calls, **fields), gone=None))
        by_processing = partial(over.spec, calls, time_column=None, **fields)
        made.append(
            entry(f"{setting}, processing time", by_processing, gone=None, watermarks=False)
        )
    return made


def _windows() -> list[Entry]:
    row = rows(("a", "b", None), (None, 1, 2, 3), given.times(14))
    shapes = {
        "tumbling": Tumbling(size_ms=5),
        "hopping": Hopping(size_ms=6, slide_ms=3),
        "cumulating": Cumulating(size_ms=6, step_ms=2),
        "sessions": Session(gap_ms=3),
    }
    made = []
    timed: dict[str, Any] = {"watermarks": True, "has_ttl": False}
    for name, shape in shapes.items():
        kind = "session-aggregate" if name == "sessions" else "window-aggregate"
        entry = entry_of(kind, orderly(row), "insertions", "time", **timed)
        made.append(entry(name, partial(windows.spec, shape)))
        made.append(
            entry(f"{name}, processing time", partial(windows.spec, shape, time_column=None),
                  watermarks=False)
        )  # fmt: skip  # a table: a case a line
        table = entry_of("window-table-function", growing(row), "insertions", "time", **timed)
        made.append(table(name, partial(window_table.spec, shape)))
    ends = [each for each in given.times(15) if each in (given.times(15)[4], given.times(15)[9])]
    side = rows(("a", "b", None), (1, 2), ends)
    join = entry_of("window-join", growing(side, side), "insertions", "time", **timed, inputs=2)
    made += [
        join(each.lower(), partial(window_join.spec, each))
        for each in ("INNER", "LEFT", "FULL", "SEMI", "ANTI")
    ]
    ranked = entry_of(
        "window-rank", growing(rows((None, 1, 2), (1, 2, 3), ends)), "insertions", "time", **timed
    )
    made += [
        ranked("", window_rank.spec),
        ranked("numbers", partial(window_rank.spec, with_rank=True)),
        ranked("one, the last of equals", partial(
            window_rank.spec, last=1, ties_last=True, order=(OrderColumn(column=0),))),
    ]  # fmt: skip  # a table: a case a line
    return made


def _functions() -> list[Entry]:
    row = rows(("a", "b"), (0, 1, 2))
    return [
        Entry(
            "process-function", "all kinds of state", functions.everything, anything(row, row),
            "kinds pass", None, inputs=1, sums_up=False, has_ttl=False,
        ),
        Entry(
            "process-function", "event time", copied(functions.stamped),
            growing(rows(("a", "b"), given.times())), "insertions", None, watermarks=True,
            has_ttl=False,
        ),
    ]  # fmt: skip  # a table: a case a line


TABLE: tuple[Entry, ...] = (
    *_materializers(), *_compacting(), *_normalize(), *_deduplicate(), *_ranks(),
    *_group_aggregates(), *_split_aggregates(), *_lag_lead(), *_ordered_over(), *_joins(),
    *_multi_joins(),
    *_timed_joins(), *_by_time(), *_windows(), *_functions(),
)  # fmt: skip  # a list of names, several a line
