"""A master and slaves that speak auto-switch HA, without a controller."""

from __future__ import annotations

import attrs
import pytest
from ha_peer import Peer

from actors.epochs import Epoch, History
from actors.ha.accept_socket import AcceptSocket
from actors.ha.connection_state import ConnectionState
from actors.ha.core.autoswitch_dialect import AutoSwitchDialect, EpochHandshake
from actors.trees import classic
from wire.buffer import NEED_DATA
from wire.ha import autoswitch
from wire.ha.autoswitch import EpochFrameStarted, HandshakeAnswer, HandshakeRequest
from wire.ha.frames import FrameData, FrameDecoder, FrameEnded


def history(*epochs: tuple[int, int]) -> History:
    """The history with these epochs: number, first offset."""
    return tuple(Epoch(number, 0, "", start) for number, start in epochs)


@attrs.define
class Known:
    """What a broker is asked while it replicates."""

    history: History = ()
    confirm_bytes: int = -1
    replicas: dict[int, str] = attrs.field(factory=lambda: {1: "n0", 2: "n1", 3: "n2"})

    def dialect(self, broker_id: int = 1, **options: bool) -> AutoSwitchDialect:
        return AutoSwitchDialect(
            handshake=EpochHandshake(
                broker_id=broker_id,
                who=lambda request: self.replicas.get(request.broker_id or 0, ""),
                history=lambda: self.history,
                **options,
            ),
            confirm=lambda: self.confirm_bytes,
        )

    def speak(self, patch: pytest.MonkeyPatch) -> None:
        """Have the trees of classic groups speak this dialect."""

        def accept_socket(**options: object) -> AcceptSocket:
            return AcceptSocket(**{**options, "slaves": None})  # type: ignore[arg-type]

        def connection_state(**options: object) -> ConnectionState:
            return ConnectionState(**options, handshake=True)  # type: ignore[arg-type]

        patch.setattr(classic, "classic_dialect", lambda compat: self.dialect())
        patch.setattr(classic, "AcceptSocket", accept_socket)
        patch.setattr(classic, "ConnectionState", connection_state)


@attrs.define
class EpochSlave:
    """A slave in the hands of a test."""

    peer: Peer
    _decoder: FrameDecoder[autoswitch.MasterMessage] = attrs.field(
        factory=lambda: FrameDecoder(autoswitch.MASTER_HEADER)
    )

    async def shake(self, broker_id: int, **flags: bool) -> None:
        request = HandshakeRequest(broker_id=broker_id, **flags)
        await self.peer.send.send_all(autoswitch.encode_request(request))

    async def report(self, *offsets: int) -> None:
        await self.peer.send.send_all(b"".join(map(autoswitch.encode_report, offsets)))

    async def answer(self) -> HandshakeAnswer:
        found = await self._event()
        assert isinstance(found, HandshakeAnswer)
        return found

    async def frame(self) -> tuple[EpochFrameStarted, bytes]:
        head, body = await self._event(), b""
        assert isinstance(head, EpochFrameStarted)
        while not isinstance(event := await self._event(), FrameEnded):
            assert isinstance(event, FrameData)
            body += event.data
        return head, body

    async def _event(self) -> object:
        while (event := self._decoder.next_event()) is NEED_DATA:
            data = await self.peer.receive.receive_some(65536)
            assert data, "the stream ended"
            self._decoder.receive_data(data)
        return event
