"""The bank: money moves between accounts, and none is made or lost, at any moment.

*What all accounts paid less what all accounts got* is 0 whatever happened. Here it is asked in ways
that read the transfers twice and bring both readings together again: a system that shows the one
before the other says that money is missing. The question is Jamie Brandon's ("Internal consistency
in streaming systems", 2021).

Every account has paid and got something in the first transfers, which are one request (`ring`), so
that a join of both sides leaves no account out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

TRANSFERS = """
CREATE TABLE transfers (
  id BIGINT NOT NULL, source INT NOT NULL, target INT NOT NULL, amount BIGINT NOT NULL,
  PRIMARY KEY (id) NOT ENFORCED
) WITH ({options});
CREATE VIEW debits AS
  SELECT source AS account, SUM(amount) AS debits FROM transfers GROUP BY source;
CREATE VIEW credits AS
  SELECT target AS account, SUM(amount) AS credits FROM transfers GROUP BY target;
"""
QUESTIONS = {
    "joined": "SELECT 1, SUM(debits) - SUM(credits) "
    "FROM debits JOIN credits ON debits.account = credits.account",
    "balances": "SELECT 1, SUM(balance) FROM (SELECT credits.account, credits - debits AS balance "
    "FROM debits JOIN credits ON debits.account = credits.account)",
    "outer_joined": "SELECT 1, SUM(COALESCE(debits, 0)) - SUM(COALESCE(credits, 0)) "
    "FROM debits FULL JOIN credits ON debits.account = credits.account",
    "totals": "SELECT 1, d.debits - c.credits "
    "FROM (SELECT SUM(debits) AS debits FROM debits) AS d, "
    "(SELECT SUM(credits) AS credits FROM credits) AS c",
}
"""Queries of one row whose second column is 0, by name of the table that they go to."""


def script(source: str, sink: str) -> str:
    """The pipeline.

    Args:
        source: Options of the table of transfers, which says all kinds of changes.
        sink: Options of each table of results; `{name}` is the table's name.
    """
    asked = QUESTIONS
    tables = [
        f"CREATE TABLE {name} (id INT NOT NULL, difference BIGINT, PRIMARY KEY (id) NOT ENFORCED) "
        f"WITH ({sink.format(name=name)});"
        for name in asked
    ]
    inserts = [
        f"INSERT INTO {name} {query} ON CONFLICT DO DEDUPLICATE;" for name, query in asked.items()
    ]
    return "\n".join(
        [
            TRANSFERS.format(options=source),
            *tables,
            "EXECUTE STATEMENT SET BEGIN",
            *inserts,
            "END;",
        ]
    )


def ring(accounts: int) -> list[dict[str, Any]]:
    """The first transfers: each account pays its neighbour."""
    return [
        _change("+I", number, number, (number + 1) % accounts, 100) for number in range(accounts)
    ]


def changes(chance: random.Random, accounts: int, first: int) -> Iterator[list[dict[str, Any]]]:
    """Transfers without end, each with its changes: of ten one is put right, of twenty one goes.

    Args:
        chance: Who pays whom how much.
        accounts: How many there are.
        first: Id of the first one.
    """
    number = first
    while True:
        source, target = chance.randrange(accounts), chance.randrange(accounts)
        amount = chance.randrange(1, 1_000)
        yield [_change("+I", number, source, target, amount)]
        if chance.random() < 0.1:
            yield [
                _change("-U", number, source, target, amount),
                _change("+U", number, source, target, amount := amount + 1),
            ]
        if chance.random() < 0.05:
            yield [_change("-D", number, source, target, amount)]
        number += 1


def _change(op: str, number: int, source: int, target: int, amount: int) -> dict[str, Any]:
    data = {"id": number, "source": source, "target": target, "amount": amount}
    return {"op": op, "data": data}
