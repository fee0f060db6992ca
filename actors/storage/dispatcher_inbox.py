"""What the dispatcher tells itself."""

from __future__ import annotations

import attrs

from actors.storage.derived_work import Flush
from actors.storage.scrubber_messages import Checked


@attrs.frozen(kw_only=True)
class GoOn:
    """More is there to be dispatched."""


@attrs.frozen(kw_only=True)
class FlushDue:
    """Timer: make durable what was derived."""


@attrs.frozen(kw_only=True)
class Flushed:
    """From the feeder: the flush's files are synced."""

    flush: Flush


@attrs.frozen
class Compared:
    """The scrubber's answer for the bytes from `start_bytes` on."""

    start_bytes: int
    outcome: Checked | Exception
