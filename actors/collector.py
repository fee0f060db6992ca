"""Python's cyclic garbage collector, in a process that is ours or whose owner asks for it.

An append is some ten objects that stay for as long as a quorum takes and are in no cycle: counting
references frees them. With Python's defaults the collector looks at them after every 700 new ones,
finds a thousand appends under way each time, moves them to the old, and looks at the whole program
when those are a quarter more (measured: a fifth of what an append costs). No library of ours
changes this for a program that embeds it.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 20_000
"""New objects between two looks at them: some MB. Python: 700."""
YOUNG_LOOKS: Final = 20
"""Such looks for one at those that have survived one, and of these for one at all. Python: 10."""


def collect_less() -> None:
    """Leave alone what the program has now, and look at what it makes more rarely.

    To be called once all is imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, YOUNG_LOOKS, YOUNG_LOOKS)
