"""The table `tailrace_epochs`: which run may write a table, and which epoch it holds.

    pipeline_id  table_name | pipeline  run  epoch  origin
    ------------------------+-----------------------------
    9f3c..       public.out | orders     12   4711

One row for a pipeline and a table that it writes, in the table's database, so that rows and epoch
change in one transaction, and a backup has both. `epoch` is the last one whose changes the table
has: the pipeline's marker, or one more where a process died between this transaction and the
epoch's close. Then the epoch runs again, finds that the table has it, and applies nothing.

    claim     a run begins: no earlier one writes any more; epochs of table and marker agree
    advance   an epoch is applied, in the same transaction as its rows
    adopt     a restored pipeline takes the place of the one whose savepoint it has, its `origin`

A pipeline that was restored and has written nothing, as its epoch tells, can be taken back: another
one takes up the same savepoint, and it is retired as its origin was.

A pipeline is known by its id, which is never used again. One that was made anew under its name
retires the rows of the earlier ones, so that nothing of theirs which lives on can write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy import exc

from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sinks.database.options import FENCE_TABLE
from service.runtime.sinks.owner import TAKE_BACK
from state.errors import Fenced, SavepointMismatch, SinkTakenOver, StateLost

if TYPE_CHECKING:
    from service.runtime.sinks.owner import Owner

NAME: Final = FENCE_TABLE
RETIRED: Final = 2**63 - 1
"""In the place of a run: another pipeline has the table."""

_ROWS = sa.Table(
    NAME,
    sa.MetaData(),
    sa.Column("pipeline_id", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("pipeline", sa.String(64), nullable=False),
    sa.Column("run", sa.BigInteger, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("origin", sa.String(64)),
    mysql_engine="InnoDB",
    mysql_charset="utf8mb4",
    mysql_collate="utf8mb4_bin",
)
_OF = (
    _ROWS.c.pipeline_id == sa.bindparam("of_pipeline"),
    _ROWS.c.table_name == sa.bindparam("of_table"),
)
_READ = sa.select(_ROWS.c.run, _ROWS.c.epoch).where(*_OF)
_LOCK = _READ.with_for_update()
_ADVANCE = (
    _ROWS.update()
    .where(*_OF, _ROWS.c.run == sa.bindparam("of_run"))
    .where(_ROWS.c.epoch == sa.bindparam("of_epoch"))
)
_RETIRE_UNWRITTEN = (
    _ROWS.update()
    .where(_ROWS.c.origin == sa.bindparam("of_pipeline"))
    .where(_ROWS.c.table_name == sa.bindparam("of_table"))
    .where(_ROWS.c.epoch == sa.bindparam("of_epoch"), _ROWS.c.run != RETIRED)
    .values(run=RETIRED)
)
_RETIRE_EARLIER = (
    _ROWS.update()
    .where(_ROWS.c.pipeline == sa.bindparam("of_name"))
    .where(_ROWS.c.table_name == sa.bindparam("of_table"))
    .where(_ROWS.c.pipeline_id != sa.bindparam("of_pipeline"))
    .values(run=RETIRED)
)


def create_fence(engine: sa.Engine) -> None:
    """See that the table is there.

    Raises:
        DBAPIError: It is not, and may not be made.
    """
    if sa.inspect(engine).has_table(NAME):
        return
    try:
        _ROWS.metadata.create_all(engine, checkfirst=False)
    except exc.DBAPIError:
        # Another pipeline may have made it since.
        if not sa.inspect(engine).has_table(NAME):
            raise


def claim(connection: sa.Connection, owner: Owner, table: str, marker: int) -> int:
    """Let a run write, and none before it.

    Args:
        connection: In a transaction.
        owner: The run that begins.
        table: What it will write, with its schema.
        marker: The pipeline's last closed epoch.

    Returns:
        The epoch of the table: the marker's, or the next one.

    Raises:
        Fenced: A later run, or another pipeline, has the table.
        InvalidTableOption: This run has it by another address.
        StateLost: The table is of another epoch than the pipeline's state.
    """
    place = _place_of(owner.pipeline_id, table)
    held = _held(connection, owner.pipeline_id, table)
    if held is None:
        if marker:
            raise StateLost(
                f"the state is at epoch {marker}, and {NAME} has no epoch of table {table}"
            )
        epoch = 0
        _add(connection, owner, table, epoch=epoch)
    else:
        run, epoch = held
        if run > owner.run:
            raise _fenced(run, owner, table)
        if run == owner.run:
            # The second transaction of an epoch would find that the table has it.
            raise InvalidTableOption(
                f"two sinks write table {table} with different addresses or users",
                hint="give both the same url, username and options",
            )
        if epoch not in (marker, marker + 1):
            raise StateLost(f"the state is at epoch {marker}, table {table} at epoch {epoch}")
        connection.execute(_ROWS.update().where(*_OF).values(run=owner.run), place)
    connection.execute(_RETIRE_EARLIER, {**place, "of_name": owner.pipeline})
    return epoch


def advance(connection: sa.Connection, owner: Owner, table: str, epoch: int) -> bool:
    """Say that a table has an epoch, unless it has it already.

    Returns:
        Whether its changes are to be applied, in the same transaction.

    Raises:
        Fenced: A later run, or another pipeline, has the table.
        StateLost: The table is of another epoch than the one before.
    """
    place = _place_of(owner.pipeline_id, table)
    before = {**place, "of_run": owner.run, "of_epoch": epoch - 1}
    if connection.execute(_ADVANCE.values(epoch=epoch), before).rowcount == 1:
        return True
    row = connection.execute(_READ, place).one_or_none()
    if row is None:
        raise StateLost(f"{NAME} has no epoch of table {table} any more")
    if row.run > owner.run:
        raise _fenced(row.run, owner, table)
    if row.run == owner.run and row.epoch == epoch:
        return False
    raise StateLost(
        f"epoch {epoch} of run {owner.run} is to be closed, table {table} is of epoch {row.epoch} "
        f"of run {row.run}"
    )


def adopt(
    connection: sa.Connection,
    owner: Owner,
    table: str,
    *,
    epoch: int,
    origin: str,
    is_new: bool = False,
) -> None:
    """Let a restored pipeline go on with a table that is of its savepoint's epoch.

    Args:
        connection: In a transaction.
        owner: The restored pipeline.
        table: What it will write.
        epoch: The savepoint's.
        origin: The id of the pipeline whose savepoint it is; it cannot write the table any more.
        is_new: Whether that one had no sink for the table, so that it need not be known.

    Raises:
        SavepointMismatch: The table is of another epoch, or not known to be of any.
    """
    if not epoch or _held(connection, owner.pipeline_id, table) is not None:
        return
    held = _held(connection, origin, table)
    if held is None and is_new:
        _add(connection, owner, table, epoch=epoch)
        return
    place = _place_of(origin, table)
    if held == (RETIRED, epoch):
        taken_back = connection.execute(_RETIRE_UNWRITTEN, {**place, "of_epoch": epoch}).rowcount
        held = (0, epoch) if taken_back else held
    if held is None or held[1] != epoch or held[0] == RETIRED:
        found = "not known to be of any" if held is None else f"of epoch {held[1]}"
        if held is not None and held[0] == RETIRED:
            found = "written by another pipeline since"
        raise SavepointMismatch(
            f"the savepoint is of epoch {epoch}, table {table} is {found}",
            hint=f"bring the table back to what it was, with its row in {NAME} "
            f"(pipeline_id {origin}, run 0, epoch {epoch}), as from a backup of the database",
        )
    _add(connection, owner, table, epoch=epoch, origin=origin)
    connection.execute(_ROWS.update().where(*_OF).values(run=RETIRED), place)


def _place_of(pipeline_id: str, table: str) -> dict[str, str]:
    """What finds the row of a table."""
    return {"of_pipeline": pipeline_id, "of_table": table}


def _held(connection: sa.Connection, pipeline_id: str, table: str) -> tuple[int, int] | None:
    """Run and epoch of a row, which stays locked."""
    row = connection.execute(_LOCK, _place_of(pipeline_id, table)).one_or_none()
    return None if row is None else (row.run, row.epoch)


def _add(
    connection: sa.Connection, owner: Owner, table: str, *, epoch: int, origin: str | None = None
) -> None:
    row = {"pipeline_id": owner.pipeline_id, "table_name": table, "pipeline": owner.pipeline}
    more = {"run": owner.run, "epoch": epoch, "origin": origin}
    connection.execute(_ROWS.insert(), {**row, **more})


def _fenced(run: int, owner: Owner, table: str) -> Fenced:
    if run == RETIRED:
        return SinkTakenOver(f"another pipeline has taken table {table} over", hint=TAKE_BACK)
    return Fenced(f"run {run} writes table {table}, this is run {owner.run}")
