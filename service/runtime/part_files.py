"""Names of the files that `filesystem` sinks put in place, as sinks give and sources read them.

A name has the run that wrote the file. An epoch that runs again in another run has the same rows,
so its files are those of the first try under another name: a source that has read them reads them
no second time.
"""

from __future__ import annotations

import re
from pathlib import PurePath

# Versions before this one wrote no run.
_PART = re.compile(r"(?P<part>part-\d{10}-\d{5,})(?:-(?P<run>\d{10}))?(?P<extension>\.\w+)")


def part_name(epoch: int, part: int, run: int, extension: str) -> str:
    """The name of what a run writes of a part of an epoch: of a partition for a sink.

    >>> part_name(7, 0, 2, "csv")
    'part-0000000007-00000-0000000002.csv'
    """
    return f"part-{epoch:010}-{part:05}-{run:010}.{extension}"


def without_run(path: str) -> str:
    """What paths have in common whose files are of one part; of other paths the path.

    >>> without_run("out/part-0000000007-00000-0000000002.csv"), without_run("out/a-1.csv")
    ('out/part-0000000007-00000.csv', 'out/a-1.csv')
    """
    name = PurePath(path).name
    found = _PART.fullmatch(name)
    return path.removesuffix(name) + found["part"] + found["extension"] if found else path


def run_of(path: str) -> int:
    """The run that wrote a file; 0 where its name tells none.

    >>> run_of("out/part-0000000007-00000-0000000002.csv"), run_of("out/a-1.csv")
    (2, 0)
    """
    found = _PART.fullmatch(PurePath(path).name)
    return int(found["run"] or 0) if found else 0
