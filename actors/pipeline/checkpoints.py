"""Removes what a stream that was killed before its first batch leaves in Spark's checkpoint."""

from __future__ import annotations

from typing import Final

from actors.pipeline.locations import Location

_LOGS: Final = ("offsets", "commits")
"""Spark's folders of the batches that were begun, and of those that are done. A file has the number
of its batch as its name, which begins with a dot until the file is whole."""


def clear_unbegun(checkpoint: Location) -> None:
    """Remove what is left of the unfinished note of a first batch.

    Spark starts no stream at batch 0 if these folders have anything in them, even hidden files, so
    a run that is killed at that moment would keep all later runs from starting. Once a batch was
    begun Spark ignores such files, and nothing is removed.

    Args:
        checkpoint: the checkpoint of a stream that does not run, and that no other process may
            start now.

    Raises:
        OSError: it cannot be removed.
    """
    logs = {name: (checkpoint / name).children() for name in _LOGS}
    if all(each.startswith(".") for names in logs.values() for each in names):
        for log, names in logs.items():
            for each in names:
                (checkpoint / log / each).remove()
