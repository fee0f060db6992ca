"""What a slave's feeder reads next: bodies of large frames stay in the system until the store
writes them, all else comes as bytes.

Differs from upstream, which gathers each frame in a buffer of 4 MiB and copies it from there.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Held, ReceiveHalf
from wire.ha_classic import FrameMeter

RECEIVE_BYTES = 256 << 10
"""One read into memory. The bytes go on to the store as they came."""


@attrs.define
class FrameReader:
    """Reads one connection's frames, without an opinion on any."""

    _receive: ReceiveHalf
    _meter: FrameMeter

    async def receive(self) -> bytes | Held:
        """The next bytes, b"" at the end; held ones belong to one body. Raises: as `ReceiveHalf`.

        Behind a large frame another one is expected, so that just its header is read.
        """
        meter, receive = self._meter, self._receive
        large = meter.body_bytes >= receive.hold_from_bytes
        if large and meter.rest_bytes:
            data = await receive.receive_held(meter.rest_bytes)
            if data:
                meter.body_passed(len(data))
            return data
        size = meter.header_bytes if large else RECEIVE_BYTES
        received = await receive.receive_some(size)
        meter.passed(received)
        return received
