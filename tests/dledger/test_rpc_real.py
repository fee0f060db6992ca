"""Both ends of DLedger's connections on this machine's sockets."""

from __future__ import annotations

import pytest
import trio
from rpc_kit import Client, calling, request, serving

from actors.dledger.rpc.rpc_messages import Asked, AskedAppends
from actors.env.tcp import TcpNetwork
from actors.events.remoting import RPCConnectionClosed, RPCListening, RPCPeerLost
from wire.dledger.rpc import AppendEntryRequest, AppendEntryResponse, Request

pytestmark = pytest.mark.real_io

CALLS = 500
LARGE_BYTES = 4 << 20


async def test_a_peer_calls_a_member_over_tcp() -> None:
    """Many small calls at once, then large ones; a bad frame beside them; then the member stops."""

    def first_byte(asked: Request) -> AppendEntryResponse:
        assert isinstance(asked, AppendEntryRequest)
        assert asked.body
        return AppendEntryResponse(index=len(asked.body), pos=asked.body[0])

    async def answer(asked: Asked | AskedAppends) -> None:
        if isinstance(asked, AskedAppends):
            asked.reply_to.send(tuple(map(first_byte, asked.requests)))
        else:
            asked.reply_to.send(first_byte(asked.request))

    with trio.fail_after(60):
        async with serving(network=TcpNetwork(), port=0) as kit:
            kit.behave = answer
            (listening,) = kit.seen(RPCListening)
            async with calling(network=TcpNetwork(), port=listening.port) as peer:
                sizes = [1 + number for number in range(CALLS)] + [LARGE_BYTES] * 4
                for number, size in enumerate(sizes):
                    body = bytes([number % 256]) * size
                    await peer.call(number, request(AppendEntryRequest, body=body), timeout_s=30)
                bad = Client.of(
                    await TcpNetwork().connect(
                        listening.address, listening.port, local_host="127.0.0.3"
                    )
                )
                await bad.put(b"\x16\x03" * 20)
                assert await bad.ended()
                answered = await peer.answers(len(sizes))
                for each in answered:
                    number = each.token
                    assert isinstance(number, int)
                    assert isinstance(each.response, AppendEntryResponse)
                    found = (each.response.index, each.response.pos)
                    assert found == (sizes[number], number % 256)
                stranger = Client.of(
                    await TcpNetwork().connect(
                        listening.address, listening.port, local_host="127.0.0.9"
                    )
                )
                assert await stranger.ended()
                await kit.system.stop()
                assert len(kit.seen(RPCConnectionClosed)) == 2
                await peer.call("late")
                assert (await peer.answers(len(sizes) + 1))[-1].response is None
                assert peer.seen(RPCPeerLost)
