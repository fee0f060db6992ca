"""Rules for where the master starts to send to a slave, by the slave's first report.

Source: apache/rocketmq store/ha/DefaultHAConnection.WriteSocketService.run (5.3.3), step
"nextTransferFromWhere == -1"; classic-ha.md 2.4 and T14.

Differs from upstream:
- The default for an empty slave is the master's first byte instead of the start of its last file,
  so that a new slave has the whole history. Both are starts of files, so a Java slave accepts
  either.
- A report above zero is checked before it gets here (`report_progress`); upstream takes any.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from actors.ha.core.extent import LogExtent


class StartRule(Protocol):
    """Decides by the first report where to begin to send."""

    @property
    def name(self) -> str: ...
    def start_bytes(self, report_bytes: int, extent: LogExtent, segment_bytes: int) -> int:
        """The physical offset of the first byte to send.

        Args:
            report_bytes: the first report; 0 means "nothing stored yet".
            extent: the master's log at this moment; a report above 0 lies inside it.
            segment_bytes: size of one commit log file.
        """


@attrs.frozen
class FirstByte:
    """Our rule: an empty slave gets everything that the master still has."""

    name = "first byte"

    def start_bytes(self, report_bytes: int, extent: LogExtent, segment_bytes: int) -> int:
        return extent.min_bytes if report_bytes == 0 else report_bytes


@attrs.frozen
class LastFile:
    """Upstream's rule (`compat = "upstream"`): an empty slave gets the master's last file only.

    It starts at M - (M mod file size), M being the master's end. If M is an exact multiple of the
    file size the slave gets nothing old at all.
    """

    name = "start of the last file"

    def start_bytes(self, report_bytes: int, extent: LogExtent, segment_bytes: int) -> int:
        if report_bytes != 0:
            return report_bytes
        end = extent.written_bytes
        return max(end - end % segment_bytes, extent.min_bytes)
