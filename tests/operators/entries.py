"""Entries of the table of all operators: what one gets in tests, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from operators.kinds import spec_from_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis import strategies as st

    from operators.spec import OperatorSpec
    from operators.testing.operator_harness import Of
    from operators.upsert_materializer import MaterializerSpec

    AnySpec = OperatorSpec | MaterializerSpec

Output = Literal["changelog", "bag", "insertions", "kinds pass"] | tuple[int, ...]
"""What is promised of a changelog: it is well formed; it never takes back what is not there, though
the kinds of an update may come apart; it only grows; it is as well formed as the input; or it has
this upsert key."""
Gone = Literal["rows", "keys", "time"]
"""When state is empty: each row is taken back; each key is; time and watermark have passed all."""


@dataclass(frozen=True)
class Entry:
    """An operator in one setting."""

    kind: str
    setting: str
    make: Callable[..., AnySpec]
    """Its spec, with fields such as `ttl_ms` as an operator has it."""
    changes: st.SearchStrategy[list[Of]]
    output: Output
    gone: Gone | None
    """None: what is there stays, by what the operator is for."""
    watermarks: bool = False
    left: frozenset[bytes] = frozenset()
    """States that may hold something when all is gone."""
    bundles: bool = False
    """Emits once an epoch and key: how epochs are cut shows in the changes, not in the table."""
    sums_up: bool = True
    """What is emitted adds up to a table; else each emission stands for itself."""
    inputs: int = 1
    has_ttl: bool = True
    """The plan's TTL counts for all of the state, whatever times its rows have."""

    @property
    def name(self) -> str:
        """What a test is called by."""
        return f"{self.kind}: {self.setting}" if self.setting else self.kind

    def spec(self, ttl_ms: int = 0) -> AnySpec:
        """The spec; with a TTL for every input."""
        return self.make(**({"ttl_ms": (ttl_ms,) * self.inputs} if ttl_ms else {}))


def entry_of(
    kind: str, changes: Any, output: Output, gone: Gone | None, **more: Any
) -> Callable[..., Entry]:
    """Makes entries of one kind that have these fields, where none are told for an entry."""

    def entry(setting: str, make: Callable[..., AnySpec], **fields: Any) -> Entry:
        common = {"changes": changes, "output": output, "gone": gone, **more}
        return Entry(kind, setting, make, **{**common, **fields})

    return entry


def copied(make: Callable[..., Any], *arguments: Any, **fields: Any) -> Callable[..., Any]:
    """For makers without room for more fields."""

    def copied(**more: Any) -> Any:
        plain = make(*arguments, **fields)
        return spec_from_json(plain.model_copy(update=more).to_json())

    return copied
