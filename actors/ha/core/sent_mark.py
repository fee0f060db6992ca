"""How far the log was sent on one connection, by which the slave's reports are judged.

Source: none. Upstream has no such check (T3, T8).
"""

from __future__ import annotations

import attrs


@attrs.define
class SentMark:
    """The only state that the two sockets of one connection share.

    write_socket raises it before it sends a byte, and read_socket reads it when a report has come,
    so no true report is above it. A message would not do: a conflated one could come after the
    report to an earlier frame; and one for each frame would have both actors wait for room in each
    other's mailbox.

    Attributes:
        end_bytes: the end of the newest frame that was begun; 0 before the first.
    """

    end_bytes: int = 0

    def raise_to(self, end_bytes: int) -> None:
        assert end_bytes >= self.end_bytes  # FramesContiguous
        self.end_bytes = end_bytes
