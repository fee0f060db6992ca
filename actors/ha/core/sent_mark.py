"""How far one connection was sent the log: what its reports are judged by.

Source: none. Upstream has no such check (T3, T8).
"""

from __future__ import annotations

import attrs


@attrs.define
class SentMark:
    """Belongs to the two sockets of one connection, and is the only thing that they share.

    write_socket raises it before a byte leaves, read_socket looks at it when a report has come, so
    no true report is above it. A message could not say that: conflated, it would stand behind the
    report that answers an earlier frame; not conflated, it would be one more for each frame, and
    the two would wait for room in each other's mailbox.

    Attributes:
        end_bytes: end of the newest frame that was begun; 0 before the first.
    """

    end_bytes: int = 0

    def raise_to(self, end_bytes: int) -> None:
        assert end_bytes >= self.end_bytes  # FramesContiguous
        self.end_bytes = end_bytes
