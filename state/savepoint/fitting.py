"""The states of a savepoint that a pipeline takes: those of its operators, in the form they had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from state.errors import CodecMismatch, SavepointMismatch
from state.registry import form_of, read_registered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.descriptors import StateDescriptor
    from state.savepoint.files import Manifest, SavedState


@dataclass(frozen=True, slots=True)
class Moves:
    """Where what a savepoint holds goes. What is not named is left behind."""

    nodes: Mapping[str, str]
    """By node of the savepoint: the one that takes its states."""
    slot: Mapping[str, str]
    """By name in the slot of the pipeline that was saved: the one that it gets."""
    offsets: str
    """What the sources had consumed, by the names that the restored pipeline has for them."""

    @classmethod
    def none(cls, manifest: Manifest, wanted: Iterable[str]) -> Moves:
        """All stays where it was; of the nodes that are wanted, what lies beside states, too."""
        nodes = {each: each for each in (*manifest.nodes, *wanted)}
        return cls(nodes, {each: each for each in manifest.slot}, manifest.offsets)


def restored_states(
    manifest: Manifest,
    wanted: Mapping[str, Sequence[StateDescriptor]],
    *,
    allow_non_restored_state: bool,
    moves: Moves | None = None,
) -> list[SavedState]:
    """The states of a savepoint that a pipeline takes, each with the node that it goes to.

    Args:
        manifest: The savepoint's.
        wanted: What the pipeline's operators will keep.
        allow_non_restored_state: Whether state that none of them will keep may be left behind.
        moves: Which of them take what; None: those of the same names.

    Raises:
        SavepointMismatch: Some would be left behind, and that is not allowed.
        CodecMismatch: A state is asked for in another form.
        FormatVersionMismatch, StateCorrupt: An entry of the registry cannot be read.
    """
    nodes = (moves or Moves.none(manifest, wanted)).nodes
    asked = {f"{node}/{each.name}": each for node, several in wanted.items() for each in several}
    taken, left = [], []
    for each in manifest.states:
        moved = replace(each, node=nodes[each.node]) if each.node in nodes else None
        descriptor = None if moved is None else asked.get(moved.field)
        if moved is None or descriptor is None:
            left.append(each)
            continue
        saved = read_registered(each.field.encode(), each.registered.encode())
        if (saved.kind, saved.codecs) == (descriptor.kind, descriptor.codecs):
            taken.append(moved)
        elif each.keys:
            raise CodecMismatch(
                f"state {each.name!r} of {each.node} was saved as {form_of(saved)}, "
                f"it is asked for as {form_of(descriptor)}",
                hint="give the state another name, and allow_non_restored_state",
            )
    # What was registered once and holds nothing can be neither lost nor misread.
    lost = [each.field for each in left if each.keys]
    if lost and not allow_non_restored_state:
        raise SavepointMismatch(
            f"the savepoint has state that no operator of the plan keeps: {', '.join(lost)}",
            hint="restore with a plan that keeps it, or allow_non_restored_state to drop it",
        )
    return taken
