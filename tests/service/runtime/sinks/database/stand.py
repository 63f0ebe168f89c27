"""A database with tables of a test, a pipeline that writes them, and the ways it may die.

Tests run on a SQLite file and on servers of their own (`servers`). Where `TEST_DATABASES` names
others (addresses as in option `url`, with `user:password@` before the host, parted by blanks), they
run on those as well.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import sqlalchemy as sa

from operators.changelog import RowKind
from operators.wire import TICK, SourceNote, to_note
from service.runtime.sinks.commit import close, sum_up
from service.runtime.sinks.database import fence
from service.runtime.sinks.database.commit import claim_tables
from service.runtime.sinks.database.options import address_of
from service.runtime.sinks.database.session import open_engine
from service.runtime.sinks.owner import Owner
from service.runtime.sinks.spec import SinkSpec, WriterSpec
from service.runtime.sinks.writer import write_part
from state.epochs import EpochLedger
from state.types import arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import redis

    from service.runtime.sinks.spec import Mode

FILE = "jdbc:sqlite:db.sqlite"
MORE = os.environ.get("TEST_DATABASES", "").split()
Change = tuple[Any, ...]
"""A kind, then the values of the columns."""


def dialect_of(place: str) -> str:
    """Of an address: sqlite, postgresql or mysql, which MariaDB's is, too."""
    scheme = place.split(":")[1]
    return "mysql" if scheme == "mariadb" else scheme


class Database:
    """One database; tables that a test makes are gone with it."""

    def __init__(self, place: str, root: Path) -> None:
        prefix, _, rest = place.partition("//")
        user = urlsplit(f"//{rest}")
        self.options = {"connector": "jdbc", "url": place}
        if "@" in rest:
            self.options["url"] = f"{prefix}//{rest.partition('@')[2]}"
            self.options |= {"username": user.username or "", "password": user.password or ""}
        else:
            (root / "db.sqlite").touch()
        self.files_root = str(root)
        self.address = address_of(self.options, self.files_root)
        self.engine = open_engine(self.address)
        self.metadata = sa.MetaData()
        self._prefix = f"t{uuid.uuid4().hex[:8]}"

    @property
    def dialect(self) -> str:
        return self.address.dialect

    def table(self, name: str, columns: str) -> str:
        """Make a table with these columns; its name in the database."""
        full = f"{self._prefix}_{name}"
        self.execute(f"CREATE TABLE {full} ({columns})")
        return full

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            # A colon would begin a parameter.
            connection.execute(sa.text(statement.replace(":", r"\:")))

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        with self.engine.begin() as connection:
            found = connection.exec_driver_sql(f"SELECT {columns} FROM {table}")
            return sorted(tuple(each) for each in found)

    def full_name(self, table: str) -> str:
        schema = sa.inspect(self.engine).default_schema_name
        return f"{schema}.{table}" if schema else table

    def fence(self, pipeline_id: str) -> dict[str, tuple[int, int]]:
        """Run and epoch of each table of a pipeline."""
        with self.engine.begin() as connection:
            if not sa.inspect(connection).has_table(fence.NAME):
                return {}
            held = connection.execute(
                sa.text(f"SELECT table_name, run, epoch FROM {fence.NAME} WHERE pipeline_id = :id"),
                {"id": pipeline_id},
            )
            return {each.table_name: (each.run, each.epoch) for each in held}

    def close(self) -> None:
        with self.engine.connect() as connection:
            names = [
                n for n in sa.inspect(connection).get_table_names() if n.startswith(self._prefix)
            ]
        for name in names:
            self.execute(f"DROP TABLE {name}")
        self.engine.dispose()


@dataclass
class Pipeline:
    """A pipeline on a real Redis whose epochs a test writes, with Spark's part left out."""

    database: Database
    client: redis.Redis
    name: str = "p"
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    sinks: tuple[SinkSpec, ...] = ()
    run: int = 0
    at: int = 0
    """How much further than their number epochs read the source."""

    def sink(
        self,
        table: str,
        columns: dict[str, str],
        *,
        key: Sequence[str] = (),
        mode: Mode | None = None,
        **options: str,
    ) -> None:
        """Add a sink with these columns."""
        names = tuple(columns)
        spec = SinkSpec(
            node=len(self.sinks) + 1,
            table=f"sink{len(self.sinks)}",
            connector="jdbc",
            names=names,
            types=tuple(columns.values()),
            primary_key=tuple(names.index(each) for each in key),
            mode=mode or ("upsert" if key else "append"),
            options=self.database.options | {"table-name": table} | options,
        )
        self.sinks += (spec,)

    @property
    def ledger(self) -> EpochLedger:
        return EpochLedger(self.client, self.name)

    def start(self, *, drops: bool = False) -> int:
        """Begin a run: earlier ones are fenced."""
        if drops:
            self.ledger.drop()
        self.run = self.ledger.open_run([], 8)
        claim_tables(
            Owner(self.id, self.name, self.run),
            self.sinks,
            self.database.files_root,
            marker=self.ledger.marker().epoch,
        )
        return self.run

    def writer(self) -> WriterSpec:
        port = self.client.connection_pool.connection_kwargs["port"]
        spec = WriterSpec(
            pipeline=self.name,
            pipeline_id=self.id,
            run=self.run,
            redis_url=f"redis://127.0.0.1:{port}/0",
            incarnation=None,
            files_root=self.database.files_root,
            sinks=self.sinks,
            max_parallelism=8,
        )
        return WriterSpec.from_json(spec.to_json())

    def write(self, epoch: int, *parts: Sequence[Change], sink: int = 0) -> None:
        """Write the parts of a sink's changes, each by a task of its own, and close the epoch."""
        self.write_all(epoch, *({sink: each} for each in parts))

    def write_all(self, epoch: int, *parts: dict[int, Sequence[Change]]) -> None:
        """The same for several sinks."""
        spec = self.writer()
        messages = []
        for partition, changes in enumerate(parts or ({},)):
            batches = [self._batch(number, rows) for number, rows in changes.items() if rows]
            batches.append(self._tick(epoch))
            messages.append(write_part(spec, epoch, partition, iter(batches)))
        close(spec, epoch, sum_up(messages))

    def _batch(self, number: int, changes: Sequence[Change]) -> pa.RecordBatch:
        types = [arrow_type(parse_type(each)) for each in self.sinks[number].types]
        values = list(zip(*(each[1:] for each in changes), strict=True))
        columns = [pa.array(v, t) for v, t in zip(values, types, strict=True)]
        struct = pa.StructArray.from_arrays(columns, [f"f{at}" for at in range(len(columns))])
        kinds = [int(RowKind.from_short(each[0])) for each in changes]
        return self._wire(len(changes), number, kinds, struct, None)

    def _tick(self, epoch: int) -> pa.RecordBatch:
        return self._wire(
            1, 0, [TICK], None, to_note(SourceNote("s", 0, 0, {"at": epoch + self.at}))
        )

    def _wire(
        self, count: int, number: int, kinds: list[int], rows: Any, note: str | None
    ) -> pa.RecordBatch:
        columns: dict[str, Any] = {
            "_sink": pa.array([number] * count, pa.int32()),
            "_kind": pa.array(kinds, pa.int8()),
            "_order": pa.array(range(count), pa.int64()),
            "_note": pa.array([note] * count, pa.string()),
            "_time": pa.array([7] * count, pa.int64()),
            "_seq": pa.array([0] * count, pa.int64()),
        }
        for at, spec in enumerate(self.sinks):
            if at == number and rows is not None:
                columns[f"s{at}"] = rows
            else:
                types = [arrow_type(parse_type(each)) for each in spec.types]
                fields = [(f"f{place}", each) for place, each in enumerate(types)]
                columns[f"s{at}"] = pa.nulls(count, pa.struct(fields))
        return pa.RecordBatch.from_pydict(columns)

    def anew(self, *, same_id: bool = False) -> Pipeline:
        """Another pipeline of this name and these tables."""
        new_id = self.id if same_id else uuid.uuid4().hex
        return dataclasses.replace(self, id=new_id, run=0)
