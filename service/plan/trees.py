"""Trees of nodes as text, as Flink draws them.

>>> inputs = {3: (2, 1), 2: (1,), 1: ()}
>>> print(draw_trees([3], inputs, lambda node: f"node {node}", lambda node: f"node {node} again"))
node 3
:- node 2
:  +- node 1
+- node 1 again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LEVELS_DRAWN = 200


def draw_trees(
    roots: Iterable[int],
    inputs: Mapping[int, Sequence[int]],
    line: Callable[[int], str],
    again: Callable[[int], str],
) -> str:
    """A tree for each root, an empty line between; a node that is used twice is drawn once.

    Without recursion: a plan may be as deep as it has nodes. Below `LEVELS_DRAWN` stems are left
    out and the level is said instead, or the text would grow with the square of the depth.

    Args:
        roots: Ids of the nodes on top.
        inputs: Ids of what stands below each node.
        line: A node's line.
        again: The line where a node stands that was drawn before.
    """
    lines: list[str] = []
    drawn: set[int] = set()
    for root in roots:
        if lines:
            lines.append("")
        pending = [(root, 0, "", "")]
        while pending:
            node, level, lead, below = pending.pop()
            if node in drawn:
                lines.append(lead + again(node))
                continue
            drawn.add(node)
            lines.append(lead + line(node))
            last = len(inputs[node]) - 1
            for at, each in reversed(list(enumerate(inputs[node]))):
                arm, stem = ("+- ", "   ") if at == last else (":- ", ":  ")
                if level < LEVELS_DRAWN:
                    pending.append((each, level + 1, below + arm, below + stem))
                else:
                    pending.append((each, level + 1, f"{below}(level {level + 1}) {arm}", below))
    return "\n".join(lines)
