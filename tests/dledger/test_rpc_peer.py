"""Calls to a peer: answers, time-outs, lost connections."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import trio
from rpc_kit import PORT, Client, PeerKit, answer_frame, calling, request

from actors.env.protocols import Listener
from actors.events.remoting import (
    RPCAnswerRefused,
    RPCCallRefused,
    RPCPeerConnected,
    RPCPeerLost,
)
from actors.events.runtime import ActorCrashed
from actors.remoting.calling import CONNECT_TIMEOUT_S, RECONNECT_MAX_S
from actors.remoting.stream import IDLE_S
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    InstallSnapshotRequest,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
)
from wire.remoting.frame import encode_frame
from wire.remoting.header import Header

OK = HeartBeatResponse(code=200)


async def accepted(listener: Listener) -> Client:
    with trio.fail_after(600):
        return Client.of(await listener.accept())


def ended(kit: PeerKit) -> list[tuple[object, bool]]:
    """(token, whether there was a response) of the calls that have ended."""
    return [(each.token, each.response is not None) for _, each in kit.received]


async def test_a_call_is_answered(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        assert kit.seen(RPCPeerConnected) == []  # nobody has called
        token = object()
        asked = request(VoteRequest, leader_id="n1", term=3)
        await kit.call(token, asked)
        client = await accepted(listener)
        assert client.stream.remote.host == "127.0.0.2"
        number, found = await client.next_request()
        assert found == asked
        answer = VoteResponse(group="g", term=4)
        await client.put(answer_frame(number, answer))
        (answered,) = await kit.answers(1)
        assert (answered.peer, answered.response) == ("n0", answer)
        assert answered.token is token
        assert kit.seen(RPCPeerConnected)[0].address == f"127.0.0.1:{PORT}"


async def test_answers_come_in_any_order_each_once(autojump_clock: object) -> None:
    async with calling(fragment_share=0.9) as kit:
        listener = await kit.listen()
        for token in range(5):
            await kit.call(token, request(PushEntryRequest, term=token))
        client = await accepted(listener)
        numbers = [(await client.next_request())[0] for _ in range(5)]
        assert len(set(numbers)) == 5
        for token in (3, 1, 4, 0, 2):
            await client.put(answer_frame(numbers[token], PushEntryResponse(term=token)) * 2)
        answered = await kit.answers(5)
        await trio.sleep(10)
        assert len(kit.received) == 5
        assert [each.token for each in answered] == [3, 1, 4, 0, 2]
        terms = [each.response.term for each in answered if each.response is not None]
        assert terms == [3, 1, 4, 0, 2]


async def test_each_call_has_its_own_time(autojump_clock: object) -> None:
    """A late answer is nobody's; an answer in time is not disturbed by other calls' time-outs."""
    async with calling() as kit:
        listener = await kit.listen()
        begun_s = trio.current_time()
        for token, timeout_s in (("long", 5.0), ("short", 1.0), ("middle", 3.0)):
            await kit.call(token, timeout_s=timeout_s)
        client = await accepted(listener)
        numbers = [(await client.next_request())[0] for _ in range(3)]
        await trio.sleep_until(begun_s + 2.0)
        assert ended(kit) == [("short", False)]
        assert kit.received[0][0] - begun_s == pytest.approx(1.0, abs=0.01)
        await client.put(answer_frame(numbers[1], OK), answer_frame(numbers[0], OK))
        await trio.sleep_until(begun_s + 10.0)
        assert ended(kit) == [("short", False), ("long", True), ("middle", False)]
        assert kit.received[2][0] - begun_s == pytest.approx(3.0, abs=0.01)
        assert kit.seen(RPCAnswerRefused) == []


async def test_nobody_listens(autojump_clock: object) -> None:
    """Calls fail at once, and connections are tried after 0.1, 0.2, 0.4, 0.8, 1, 1 ... s."""
    async with calling() as kit:
        for token in range(400):
            await kit.call(token)
            await trio.sleep(0.01)
        assert len(kit.received) == 400
        assert not any(answered.response for _, answered in kit.received)
        lost = kit.seen(RPCPeerLost)
        assert [each.failures for each in lost] == [1, 2, 4]
        assert [each.pause_s for each in lost] == [0.1, 0.2, 0.8]
        listener = await kit.listen()
        await trio.sleep(RECONNECT_MAX_S)
        await kit.call("at last")
        client = await accepted(listener)
        await client.put(answer_frame((await client.next_request())[0], OK))
        await kit.answers(401)
        assert ended(kit)[-1] == ("at last", True)


async def test_the_peer_does_not_answer_a_connect(autojump_clock: object) -> None:
    """Calls end in their own time or with the attempt; those are never sent later."""
    async with calling() as kit:
        listener = await kit.listen()
        kit.network.cut("n1", "n0")
        await kit.call("short", timeout_s=1.0)
        await kit.call("long", timeout_s=60.0)
        begun_s = trio.current_time()
        await kit.answers(2)
        assert ended(kit) == [("short", False), ("long", False)]
        assert trio.current_time() - begun_s == pytest.approx(CONNECT_TIMEOUT_S, abs=0.01)
        assert kit.seen(RPCPeerLost)[0].unanswered == 1
        kit.network.heal_all()
        await trio.sleep(1)
        kit.network.cut("n1", "n0")
        await kit.call("over", timeout_s=0.5)
        await kit.call("sent", timeout_s=60.0)
        await trio.sleep(0.7)
        kit.network.heal_all()
        client = await accepted(listener)
        await client.put(answer_frame((await client.next_request())[0], OK))
        await kit.answers(4)
        assert ended(kit)[2:] == [("over", False), ("sent", True)]


NO_ANSWERS = {
    "system error": encode_frame(Header(code=1, opaque=1, flag=1, remark="NullPointerException")),
    "busy": encode_frame(Header(code=2, opaque=1, flag=1, remark="busy")),
    "not supported": encode_frame(Header(code=3, opaque=1, flag=1)),
    "no body": encode_frame(Header(code=200, opaque=1, flag=1)),
    "junk": encode_frame(Header(code=200, opaque=1, flag=1), b'{"term":"x"}'),
    "20 digits": encode_frame(Header(code=200, opaque=1, flag=1), b'{"term":12345678901234567890}'),
    "null": encode_frame(Header(code=200, opaque=1, flag=1), b"null"),
    "of another group": answer_frame(1, HeartBeatResponse(group="h")),
    "to another's question": answer_frame(1, HeartBeatResponse(local_id="n2")),
    "of another member": answer_frame(1, HeartBeatResponse(remote_id="n2")),
}


@pytest.mark.parametrize("frame", NO_ANSWERS.values(), ids=NO_ANSWERS.keys())
async def test_what_is_no_answer_is_none(frame: bytes, autojump_clock: object) -> None:
    """At once, and only for the call that it answers."""
    async with calling() as kit:
        listener = await kit.listen()
        for token in (1, 2):
            await kit.call(token, timeout_s=60)
        client = await accepted(listener)
        assert [(await client.next_request())[0] for _ in range(2)] == [1, 2]
        await client.put(frame, answer_frame(2, OK))
        await kit.answers(2)
        assert ended(kit) == [(1, False), (2, True)]
        (refused,) = kit.seen(RPCAnswerRefused)
        assert refused.count == 1


async def test_a_request_from_the_peer_is_refused(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        await kit.call(1)
        client = await accepted(listener)
        await client.next_request()
        stray = encode_frame(Header(code=RequestCode.METADATA, opaque=1), b"{}")
        await client.put(*[stray] * 3, answer_frame(1, OK))
        await kit.answers(1)
        assert ended(kit) == [(1, True)]
        assert [each.count for each in kit.seen(RPCAnswerRefused)] == [1, 2]


@pytest.mark.parametrize("how", ["closed", "reset", "no frame"])
async def test_a_lost_connection_takes_its_calls_with_it(how: str, autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        for token in range(3):
            await kit.call(token, timeout_s=60)
        client = await accepted(listener)
        number, _ = await client.next_request()
        await client.put(answer_frame(number, OK))
        await kit.answers(1)
        if how == "closed":
            await client.send.aclose()
        elif how == "reset":
            client.stream.abort()
        else:
            await client.put((17 << 20).to_bytes(4) + bytes(8))
        await kit.answers(3)
        assert ended(kit) == [(0, True), (1, False), (2, False)]
        (lost,) = kit.seen(RPCPeerLost)
        assert (lost.unanswered, lost.failures, lost.pause_s) == (2, 1, 0.1)
        await kit.call("too early")
        await kit.answers(4)
        await trio.sleep(0.1)
        await kit.call("anew")
        client = await accepted(listener)
        number, _ = await client.next_request()
        assert number == 4  # so no late answer can be meant for it
        await client.put(answer_frame(number, OK))
        await kit.answers(5)
        assert ended(kit)[3:] == [("too early", False), ("anew", True)]
        client.stream.abort()
        await trio.sleep(1)
        assert kit.seen(RPCPeerLost)[1].failures == 1  # since the last answer


async def test_a_peer_that_closes_every_connection_is_left_alone(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        connects = []

        async def close_all() -> None:
            while True:
                (await listener.accept()).abort()
                connects.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close_all)
            for token in range(1000):
                await kit.call(token)
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert len(connects) < 16
        assert len(kit.received) == 1000


async def test_an_idle_connection_is_closed_and_made_anew(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        for turn in range(2):
            await kit.call(turn)
            client = await accepted(listener)
            await client.put(answer_frame((await client.next_request())[0], OK))
            await kit.answers(2 * turn + 1)
            await trio.sleep(IDLE_S / 2)
            await kit.call(turn)
            await client.put(answer_frame((await client.next_request())[0], OK))
            answered_s = trio.current_time()
            assert await client.ended()
            assert trio.current_time() - answered_s == pytest.approx(IDLE_S, abs=0.1)
        assert all(answered.response for _, answered in kit.received)
        assert len(kit.received) == 4
        assert [(each.failures, each.pause_s) for each in kit.seen(RPCPeerLost)] == [(0, 0.0)] * 2


async def test_open_calls_are_bounded(autojump_clock: object) -> None:
    async with calling(open_max=2) as kit:
        listener = await kit.listen()
        for token in range(3):
            await kit.call(token, timeout_s=60)
        client = await accepted(listener)
        await kit.answers(1)
        assert ended(kit) == [(2, False)]
        for _ in range(2):
            await client.put(answer_frame((await client.next_request())[0], OK))
        await kit.answers(3)
        assert ended(kit)[1:] == [(0, True), (1, True)]


async def test_a_peer_that_does_not_read(autojump_clock: object) -> None:
    """What it does not take is bounded; calls beyond that fail at once, others in their time."""
    async with calling() as kit:
        await kit.listen()
        body = bytes(8 << 20)
        for token in range(10):
            await kit.call(token, request(AppendEntryRequest, body=body), timeout_s=20)
            await trio.sleep(0.01)
        at_once = len(kit.received)
        assert 0 < at_once < 5
        await kit.answers(10)
        assert not any(answered.response for _, answered in kit.received)
        assert kit.seen(RPCPeerLost) == []
        await trio.sleep(60)
        assert "has read nothing" in kit.seen(RPCPeerLost)[0].reason


async def test_a_slow_peer_gets_everything(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        bodies = [bytes([token]) * (3 << 20) for token in range(8)]
        for token, body in enumerate(bodies):
            await kit.call(token, request(AppendEntryRequest, body=body), timeout_s=600)
        client = await accepted(listener)
        for token, body in enumerate(bodies):
            await trio.sleep(10)
            number, found = await client.next_request()
            assert isinstance(found, AppendEntryRequest)
            assert found.body == body
            await client.put(answer_frame(number, AppendEntryResponse(index=token)))
        await kit.answers(8)
        assert ended(kit) == [(token, True) for token in range(8)]


@pytest.mark.parametrize(
    "asked",
    [
        request(InstallSnapshotRequest, data=bytes(13 << 20)),
        request(HeartBeatRequest, leader_id="\ud800"),
    ],
    ids=["above a frame", "no text"],
)
async def test_what_cannot_be_sent_is_reported(asked: object, autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        assert isinstance(asked, InstallSnapshotRequest | HeartBeatRequest)
        await kit.call("bad", asked)
        await kit.call("good")
        client = await accepted(listener)
        await client.put(answer_frame((await client.next_request())[0], OK))
        await kit.answers(2)
        assert ended(kit) == [("bad", False), ("good", True)]
        assert len(kit.seen(RPCCallRefused)) == 1


@pytest.mark.parametrize("connected", [True, False])
async def test_a_crash_ends_all_calls(connected: bool, autojump_clock: object) -> None:
    """And the connection; the next incarnation makes its own."""
    async with calling() as kit:
        listener = await kit.listen()
        if not connected:
            kit.network.cut("n0", "n1")
        for token in range(2):
            await kit.call(token, timeout_s=math.inf)
        await trio.sleep(1)
        client = await accepted(listener) if connected else None
        await kit.call("crash", cast(Any, "no request"))
        await kit.answers(2)
        assert ended(kit) == [(0, False), (1, False)]
        assert len(kit.seen(ActorCrashed)) == 1
        if client is not None:
            assert await client.ended()
        kit.network.heal_all()
        await trio.sleep(1)
        await kit.call("anew", timeout_s=1)
        assert (await kit.answers(3))[2].token == "anew"


async def test_a_stop_closes_the_connection(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        await kit.call(1)
        client = await accepted(listener)
        await kit.system.stop()
        assert await client.ended()


async def test_a_caller_that_is_gone_disturbs_nobody(autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        await kit.call(1, caller="nobody")
        await kit.call(2)
        client = await accepted(listener)
        for _ in range(2):
            await client.put(answer_frame((await client.next_request())[0], OK))
        await kit.answers(1)
        assert ended(kit) == [(2, True)]
        assert kit.seen(ActorCrashed) == []
