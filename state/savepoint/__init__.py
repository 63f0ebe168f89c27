"""Savepoints: all that a pipeline keeps, as of one closed epoch, in files of their own.

files       the format: a manifest, and parts of compressed lines, each with its checksum
pages       structures of Redis read in pieces of bounded size
expired     what is left out of a savepoint because it is past its life
saving      `StateSaver`: from Redis into a folder; spread_keys: of keys that are spread
restoring   `restore_state`: from a folder into a pipeline that has nothing
restore_fence   its writes, as long as no other restore, run or drop has begun
fitting     `restored_states`: what of it such a pipeline takes, and where it goes (`Moves`)

What is hard is that all of it must be of one epoch, though state is far too large to read at once.
So a savepoint is taken between two runs: its first act is to open a run of its own, which fences
off whatever may still write, settles the epoch that was closed last, and makes the marker stand
still. The pipeline's query is over by then; it goes on, if it is to, by the run after.

A restore checks every file before it writes anything. It then says so in the pipeline's slot
(`restoring`) and marks all key groups with the savepoint's epoch, which the pipeline's marker has
not reached: until the last command of the restore sets the marker no run can begin there.

Sequence numbers, stamps and layouts are kept byte for byte, but for what is left out and for
segments of histories, which are put together; so a restored pipeline goes on as if it had never
stopped.
"""

from state.savepoint.expired import Expiry
from state.savepoint.files import (
    MANIFEST,
    Manifest,
    SavedFile,
    SavedState,
    read_manifest,
    saved_file,
    sync_folder,
)
from state.savepoint.fitting import Moves, restored_states
from state.savepoint.restoring import restore_state
from state.savepoint.saving import SaveOptions, StateSaver

__all__ = [
    "MANIFEST",
    "Expiry",
    "Manifest",
    "Moves",
    "SaveOptions",
    "SavedFile",
    "SavedState",
    "StateSaver",
    "read_manifest",
    "restore_state",
    "restored_states",
    "saved_file",
    "sync_folder",
]
