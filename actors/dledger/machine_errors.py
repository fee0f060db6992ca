"""What a user's state machine raises, in words that name its group and what it was called for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from actors.errors import MachineFailed

WORDS_MAX: Final = 500
"""Characters of what a machine raised that are passed on."""


def machine_failed(what: str, error: Exception) -> MachineFailed:
    """For who calls the machine: what it raised, in one line."""
    words = " ".join(str(error).split())[:WORDS_MAX]
    return MachineFailed(f"the state machine's {what} failed: {type(error).__name__}: {words}")


@contextmanager
def of_group(name: str) -> Iterator[None]:
    """What a machine raises here says whose it is."""
    try:
        yield
    except MachineFailed as failed:
        failed.args = (f"group {name}: {failed}",)
        raise
