"""Decides which addresses may connect, the slaves' alone, and counts all others.

Nothing on this wire identifies a slave but its address (classic-ha.md T8, T12; design section 3).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

UNIDENTIFIED_MAX = 16
"""Connections beside one per slave: probes, and 4.9.7 slaves, which are silent for 5 s after the
connect. Each ends with its first report, its end of stream, or housekeeping."""


@attrs.define
class Acceptance:
    """The addresses of the slaves, and the counts of connections that were turned away.

    Attributes:
        slaves: by address (its host part), the slave's name.
        refused_count: connections closed because their address is no slave's.
        full_count: connections closed because too many were open.
        refused_host: the last address that is no slave's; "": none came.
    """

    slaves: Mapping[str, str]
    refused_count: int = 0
    full_count: int = 0
    refused_host: str = ""

    def admit(self, host: str) -> str | None:
        """The slave with this address; None if the connection has to be closed."""
        slave = self.slaves.get(host)
        if slave is None:
            self.refused_count += 1
            self.refused_host = host
        return slave

    def full(self) -> None:
        self.full_count += 1

    @property
    def worth_reporting(self) -> bool:
        """Whether the latest refusal is emitted: the 1st, 2nd, 4th, 8th ... of them is.

        So a flood of probes is not a flood of events.
        """
        count = self.refused_count + self.full_count
        return count > 0 and count & (count - 1) == 0
