"""Which addresses may connect: the slaves'; and bounded notice of all others.

Nothing on this wire identifies a slave, so its address must (classic-ha.md T8, T12; design section
3).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

UNIDENTIFIED_MAX = 16
"""Connections beside one per slave: probes, and 4.9.7 slaves, which are silent for 5 s after the
connect. Each ends with its first report, its end of stream, or housekeeping."""


@attrs.define
class Acceptance:
    """The allow-list, and the counts of what was turned away.

    Attributes:
        slaves: address (host part) -> node name.
        refused_count: connections closed because their address is no slave's.
        full_count: connections closed because too many were open.
    """

    slaves: Mapping[str, str]
    refused_count: int = 0
    full_count: int = 0

    def admit(self, host: str) -> str | None:
        """The slave behind this address, or None: close it."""
        slave = self.slaves.get(host)
        if slave is None:
            self.refused_count += 1
        return slave

    def full(self) -> None:
        self.full_count += 1

    @property
    def worth_telling(self) -> bool:
        """Whether the latest refusal is an event: the 1st, 2nd, 4th, 8th ... so that a flood of
        probes is not one of events."""
        count = self.refused_count + self.full_count
        return count > 0 and count & (count - 1) == 0
