"""What the workers of pytest-xdist take at a time, and in which order.

Not by xdist's own groups: pytest 9.2 keeps node ids where xdist 3.8 does not put a group's name, so
a mark does nothing, and the tests beside real brokers ran in all workers at once.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

JAVA = "tests/interop/"
DLEDGER = "tests/interop/test_interop_dledger"
"""Real members, and brokers of their own: beside those of JAVA they shorten the whole."""
SPARK = "tests/pipeline/"
LONG = "tests/interop/long_"
"""Named on the command line alone; these wait most of the time, each with brokers of its own."""
TOGETHER = (DLEDGER, JAVA, SPARK)
"""A room that one worker takes whole: its tests share brokers, or a Spark session."""
APART = ("tests/cluster/", "tests/sim/", "tests/switching/")
"""Each test alone: the rooms of the longest files, which the workers divide."""
FIRST = (DLEDGER, JAVA, SPARK, *APART)
"""Begun first, in this order: nothing long is left for the end, when one worker would have it and
the others nothing. Tests that mostly wait run beside such as compute.
"""


def unit_of(nodeid: str) -> str:
    """Tests of one unit run in one worker, one after the other: a file, or one test alone.

    All beside real brokers are one, for a machine holds few, and all beside real members are; so
    are all that share a Spark session.
    """
    if nodeid.startswith(LONG):
        return nodeid
    for room in TOGETHER:
        if nodeid.startswith(room):
            return room
    return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]


def position_of(nodeid: str) -> int:
    """Where a test stands in the order; those of equal places stay as they were found."""
    places = (place for place, room in enumerate(FIRST) if nodeid.startswith(room))
    return next(places, len(FIRST))


class Units(LoadScopeScheduling):
    """Hands out whole units in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by the number of their tests

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
