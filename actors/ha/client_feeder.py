"""The feeder of a slave's client connects to the master, and hands over what comes.

There is one for each session. It only awaits and sends messages, and the client decides.
"""

from __future__ import annotations

import attrs
import trio

from actors.env.protocols import Address, Network, Stream
from actors.ha.client_messages import Connected, Connection, Received, StreamEnded, received
from actors.ha.core.states import Lost
from actors.ha.frame_reader import RECEIVE_BYTES, TURN_BYTES, FrameReader
from actors.ha.settings import ClientSettings
from actors.runtime import ActorRef

RATE_BYTES_PER_S_MIN = RECEIVE_BYTES
"""The lowest limit of what is received: the pause after the largest frame is shorter than the
housekeeping interval.
"""


@attrs.frozen
class ClientFeeder:
    """See the module's text.

    Attributes:
        client: the actor that gets the messages.
        arrived: by session, where a connection is put before `client` is sent Connected: a message
            that is never read would lose the stream.
    """

    _settings: ClientSettings
    _network: Network
    _client: ActorRef[Connected | Received | StreamEnded]
    _arrived: dict[int, Connection]

    async def feed(self, session: int, master: Address) -> None:
        """Connect, then hand over what comes, until the stream ends."""
        try:
            stream = await self._connect(master)
        except (OSError, trio.TooSlowError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            timeout_s = self._settings.connect_timeout_s
            detail = said or str(error) or f"no answer within {timeout_s} s"
            where = "" if str(master) in detail else f"{master}: "
            await self._send_ended(session, Lost.CONNECT_FAILED, f"{where}{detail}")
            return
        receive, send = stream.halves()
        now_s = trio.current_time()
        self._arrived[session] = Connection(stream=stream, send=send, opened_s=now_s)
        await self._client.tell(Connected(session=session))
        rate = self._settings.receive_bytes_per_s
        turn_bytes = TURN_BYTES if rate is None else min(rate, TURN_BYTES)
        try:
            reader = FrameReader(receive, self._settings.dialect.frame_meter(), turn_bytes)
            while pieces := await reader.receive():
                came = received(session, pieces)
                await self._client.tell(came)
                if rate is not None:
                    now_s = max(now_s, trio.current_time() - 1.0) + came.size_bytes / rate
                    await trio.sleep_until(now_s)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await self._send_ended(session, Lost.BROKEN, str(error))
        else:
            await self._send_ended(session, Lost.PEER_CLOSED, "")

    async def _connect(self, master: Address) -> Stream:
        settings = self._settings
        with trio.fail_after(settings.connect_timeout_s):
            return await self._network.connect(
                master.host, master.port, local_host=settings.own_host
            )

    async def _send_ended(self, session: int, reason: Lost, detail: str) -> None:
        await self._client.tell(StreamEnded(session=session, reason=reason, detail=detail))
