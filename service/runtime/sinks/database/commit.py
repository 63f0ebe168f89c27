"""Tables of databases from a run's start to its epochs' closes.

All tables of one database and user change in one transaction an epoch, together with their rows in
the fence; a table of another database has its own. Such a transaction comes before the epoch's
close, as files' renames do: a process that dies in between leaves an epoch that runs again, and
finds in each fence whether its table has it.

    claim_tables    a run starts: tables are found and checked, earlier runs fenced
    write_epoch     an epoch is about to be closed
    adopt_tables    a savepoint is restored
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from service.runtime.dataflow_errors import SinkRefused
from service.runtime.sinks.database.columns import bound_values
from service.runtime.sinks.database.fence import adopt, advance, claim, create_fence
from service.runtime.sinks.database.options import address_of
from service.runtime.sinks.database.session import open_engine, translated
from service.runtime.sinks.database.target import Target
from service.runtime.sinks.items import removals_of, rows_of
from service.runtime.sinks.owner import Owner
from state.values import CodecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    import pyarrow as pa

    from service.runtime.sinks.database.options import Address
    from service.runtime.sinks.spec import SinkSpec, WriterSpec
    from service.runtime.sinks.written import EpochInput

_ENGINES_MAX = 64


def claim_tables(
    owner: Owner, sinks: Sequence[SinkSpec], files_root: str, *, marker: int
) -> list[str]:
    """Let a run write its tables, once they are known to take what it will write.

    Args:
        owner: The run that begins.
        sinks: Of all connectors; those of databases are taken.
        files_root: Folder that files must lie in.
        marker: The pipeline's last closed epoch.

    Returns:
        The tables that have the epoch behind the marker.

    Raises:
        InvalidTableOption: A table is not there, or does not take it.
        Fenced: A later run, or another pipeline, has a table.
        StateLost: A table is of another epoch than the pipeline's state.
        SinkRefused, SinkUnavailable: As the database says.
    """
    ahead: list[str] = []
    for address, numbered in _databases(sinks, files_root).items():
        engine = _connected(address)
        with translated("show its tables"):
            inspector = sa.inspect(engine)
            targets = _targets(inspector.dialect, address, numbered)
            for target in targets.values():
                target.check(inspector)
        with translated("make table tailrace_epochs"):
            create_fence(engine)
        with translated("note a run in table tailrace_epochs"), engine.begin() as connection:
            epochs = {n: claim(connection, owner, n, marker) for n in _names(targets)}
        ahead += [name for name, epoch in epochs.items() if epoch > marker]
    return ahead


def write_epoch(source: EpochInput, staged: Mapping[int, list[dict[str, Any]]]) -> None:
    """Bring the rows of an epoch into the tables, unless they are there.

    Args:
        source: The epoch that is about to be closed, in a run that has claimed its tables.
        staged: By sink: what each task's `stage` returned.

    Raises:
        Fenced, StateLost: As `fence.advance`.
        StateLost: A table has the epoch with other rows.
        StagedWritesGone: Rows that were staged are no longer there.
        SinkRefused, SinkUnavailable: As the database says.
    """
    spec, epoch = source.spec, source.epoch
    owner = Owner(spec.pipeline_id, spec.pipeline, spec.run)
    for address, numbered in _databases(spec.sinks, spec.files_root).items():
        engine = _connected(address)
        with translated("note an epoch in table tailrace_epochs"), engine.begin() as connection:
            targets = _targets(connection.dialect, address, numbered)
            # Always in one order, so that two runs do not wait for each other.
            names = _names(targets)
            due = {n for n in names if advance(connection, owner, n, epoch)}
            for number, target in targets.items():
                if target.full_name not in due:
                    source.require_same(spec.sinks[number].table, f"table {target.full_name}")
            if due:
                source.note(spec.sinks[n].table for n, t in targets.items() if t.full_name in due)
            for number, target in targets.items():
                if target.full_name in due:
                    with translated(f"write table {target.full_name}"):
                        _write(connection, spec, target, staged.get(number, []))


def adopt_tables(
    owner: Owner,
    sinks: Sequence[SinkSpec],
    files_root: str,
    *,
    epoch: int,
    origin: str,
    begun: Set[str] = frozenset(),
) -> None:
    """Let a restored pipeline go on with its tables; see `fence.adopt`.

    Args:
        owner: The restored pipeline.
        sinks: Of all connectors; those of databases are taken.
        files_root: Folder that files must lie in.
        epoch: The savepoint's.
        origin: The id of the pipeline whose savepoint it is.
        begun: Names of sinks that the other pipeline did not have.

    Raises:
        SavepointMismatch: A table is of another epoch than the savepoint.
        SinkRefused, SinkUnavailable: As the database says.
    """
    for address, numbered in _databases(sinks, files_root).items():
        engine = _connected(address)
        with translated("make table tailrace_epochs"):
            create_fence(engine)
        with (
            translated("note a restore in table tailrace_epochs"),
            engine.begin() as connection,
        ):
            targets = _targets(connection.dialect, address, numbered)
            new = {t.full_name for t in targets.values() if t.spec.table in begun}
            for name in _names(targets):
                is_new = name in new
                adopt(connection, owner, name, epoch=epoch, origin=origin, is_new=is_new)


def _databases(
    sinks: Sequence[SinkSpec], files_root: str
) -> dict[Address, list[tuple[int, SinkSpec]]]:
    """The sinks of each database, with their numbers."""
    found: dict[Address, list[tuple[int, SinkSpec]]] = {}
    for number, spec in enumerate(sinks):
        if spec.connector == "jdbc":
            address = address_of(spec.options, files_root)
            found.setdefault(address, []).append((number, spec))
    return found


@lru_cache(_ENGINES_MAX)
def _engine(address: Address) -> sa.Engine:
    """The process's engine: at its first connection it asks what the server is."""
    return open_engine(address)


def _connected(address: Address) -> sa.Engine:
    """The process's engine for a database.

    Raises:
        SinkRefused: The driver is missing.
    """
    try:
        return _engine(address)
    except ModuleNotFoundError as error:
        # The service has it, else the plan would not have been taken; Spark's side may lack it.
        raise SinkRefused(
            f"a {address.dialect} database needs the Python module {error.name}, also beside Spark"
        ) from None


def _targets(
    dialect: sa.Dialect, address: Address, numbered: Sequence[tuple[int, SinkSpec]]
) -> dict[int, Target]:
    """By sink: its table. The dialect is of a connection, so it knows the default schema."""
    schema = dialect.default_schema_name or ""
    return {number: Target.of(spec, address.dialect, schema) for number, spec in numbered}


def _names(targets: Mapping[int, Target]) -> list[str]:
    """The tables, in an order that is the same for all."""
    return sorted({each.full_name for each in targets.values()})


def _write(
    connection: sa.Connection, spec: WriterSpec, target: Target, parts: Sequence[dict[str, Any]]
) -> None:
    """Take away what is gone, then bring what is: no unique key is ever held twice for long."""
    remove, put = target.remove(), target.put()
    key = target.spec.primary_key
    for part in parts:
        for item in removals_of(spec, part):
            rows = _rows(target, item, {at: f"key_{at}" for at in key})
            connection.execute(remove, rows)
    every = {at: f"column_{at}" for at in range(len(target.types))}
    for part in parts:
        for item in rows_of(spec, part):
            connection.execute(put, _rows(target, item, every))


def _rows(target: Target, item: pa.Table, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """An item's rows as parameters of a statement.

    Args:
        target: The table.
        item: Has one column for each of `names`.
        names: The parameters, by position of their columns in the table.

    Raises:
        SinkRefused: A time lies outside of the years that drivers know.
    """
    try:
        values = [
            bound_values(target.types[at], column.combine_chunks(), target.dialect)
            for at, column in zip(names, item.columns, strict=True)
        ]
    except CodecError as error:
        raise SinkRefused(f"a row of table {target.full_name} has {error}") from None
    return [dict(zip(names.values(), row, strict=True)) for row in zip(*values, strict=True)]
