"""What a stream that was killed before its first batch leaves in Spark's checkpoint."""

from __future__ import annotations

from typing import Final

from actors.pipeline.locations import Location

_LOGS: Final = ("offsets", "commits")
"""Spark's, of batches: which were begun, which are done. A file bears the number of its batch; its
name begins with a dot until it is whole."""


def clear_unbegun(checkpoint: Location) -> None:
    """Take away what is left of a first batch that was being noted down.

    Spark starts no stream at batch 0 where these folders have anything in them, and counts what is
    hidden: one kill at that moment, and no later run would ever begin. Where a batch was begun it
    minds none of that, and nothing is touched.

    Args:
        checkpoint: of a stream that does not run, and that nobody else may start now.

    Raises:
        OSError: it cannot be removed.
    """
    logs = {name: (checkpoint / name).children() for name in _LOGS}
    if all(each.startswith(".") for names in logs.values() for each in names):
        for log, names in logs.items():
            for each in names:
                (checkpoint / log / each).remove()
