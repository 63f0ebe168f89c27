"""What a disk refuses to a sink of files: told by the sink, its path and the system's own words.

A full disk may get room, and a failing one be mounted again: that is waited for, as for a database
that is away. A folder that may not be written stays so until somebody changes it, and is final.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final

from service.runtime.dataflow_errors import SinkRefused, SinkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sinks.spec import SinkSpec

_REFUSED: Final = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
        *(errno.ENAMETOOLONG, errno.ELOOP),
    }
)


@contextlib.contextmanager
def named(sink: SinkSpec) -> Iterator[None]:
    """Tell errors of the system as those of the sink whose files are at work.

    Raises:
        SinkRefused: Its folder or files are not to be written as they are.
        SinkUnavailable: There is no room, or the disk fails.
    """
    try:
        yield
    except FileNotFoundError:
        raise  # no matter of the disk: something else took a file away
    except OSError as error:
        # The name, too, by which the service knows the cause: Spark brings it the text alone.
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        said = f"{os.strerror(error.errno)} ({name})" if error.errno else name
        path = sink.options["path"]
        told = f'files of sink {sink.table} cannot be written in "{path}": {said}'
        kind = SinkRefused if error.errno in _REFUSED else SinkUnavailable
        raise kind(told) from error
