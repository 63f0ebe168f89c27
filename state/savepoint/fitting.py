"""The states of a savepoint that a pipeline takes: those of its operators, in the form they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import CodecMismatch, SavepointMismatch
from state.registry import form_of, read_registered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state.descriptors import StateDescriptor
    from state.savepoint.files import Manifest, SavedState


def restored_states(
    manifest: Manifest,
    wanted: Mapping[str, Sequence[StateDescriptor]],
    *,
    allow_non_restored_state: bool,
    changed: Mapping[str, str] | None = None,
) -> list[SavedState]:
    """The states of a savepoint that a pipeline takes.

    Args:
        manifest: The savepoint's.
        wanted: What the pipeline's operators will keep.
        allow_non_restored_state: Whether state that none of them will keep may be left behind.
        changed: Operators by which what was saved would be read as something else, and why; they
            begin empty.

    Raises:
        SavepointMismatch: Some would be left behind, and that is not allowed.
        CodecMismatch: A state is asked for in another form.
        FormatVersionMismatch, StateCorrupt: An entry of the registry cannot be read.
    """
    changed = changed or {}
    asked = {
        f"{node}/{each.name}": each
        for node, several in wanted.items()
        if node not in changed
        for each in several
    }
    # What was registered once and holds nothing can be neither lost nor misread.
    left = [each.field for each in manifest.states if each.keys and each.field not in asked]
    kept = {each.node for each in manifest.states if each.keys and each.node in changed}
    if kept and not allow_non_restored_state:
        raise SavepointMismatch(
            "what was saved would be read as something else: "
            + ", ".join(f"{node} ({changed[node]})" for node in sorted(kept)),
            hint="restore with the plan that it was saved of, or allow_non_restored_state to drop "
            "it: these operators then begin empty",
        )
    if left and not allow_non_restored_state:
        raise SavepointMismatch(
            f"the savepoint has state that no operator of the plan keeps: {', '.join(left)}",
            hint="give the operators the ids that they had, or allow_non_restored_state to drop it",
        )
    taken = []
    for each in manifest.states:
        descriptor = asked.get(each.field)
        if descriptor is None:
            continue
        saved = read_registered(each.field.encode(), each.registered.encode())
        if (saved.kind, saved.codecs) == (descriptor.kind, descriptor.codecs):
            taken.append(each)
        elif each.keys:
            raise CodecMismatch(
                f"state {each.name!r} of {each.node} was saved as {form_of(saved)}, "
                f"it is asked for as {form_of(descriptor)}",
                hint="give the state another name, and allow_non_restored_state",
            )
    return taken
