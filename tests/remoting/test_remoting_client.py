"""RemotingClient: one connection for each address, answers by number, failures in time."""

from __future__ import annotations

import random

import pytest
import trio
from frame_client import FrameClient
from remoting_kit import (
    ECHO,
    HOSTS,
    LATER,
    NO_FRAMES,
    PORT,
    answer_frame,
    calling,
    lan,
    serving,
)

from actors.env.protocols import Address, Listener
from actors.events.remoting import (
    RPCAnswerRefused,
    RPCCallRefused,
    RPCPeerConnected,
    RPCPeerLost,
)
from actors.events.runtime import ActorCrashed
from actors.remoting import client as remoting_client
from actors.remoting.calling import CONNECT_TIMEOUT_S, RECONNECT_MAX_S
from actors.remoting.requests import CallFailed
from actors.remoting.stream import IDLE_S
from actors.runtime import AskTimeout
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import VERSION, Header


def body_of(outcome: object) -> bytes:
    assert isinstance(outcome, Frame), outcome
    return outcome.body


def why(outcome: object) -> str:
    assert isinstance(outcome, CallFailed), outcome
    return str(outcome)


async def accepted(listener: Listener) -> FrameClient:
    with trio.fail_after(600):
        return FrameClient.of(await listener.accept())


async def test_calls_go_over_one_connection(autojump_clock: object) -> None:
    """Many at once, answered by processors of a port; each gets its own answer."""
    async with serving(posted=True, fragment_share=0.9) as port, calling(port.network) as caller:
        for name in range(100):
            await caller.call(name, body=b"%d" % name, ext_fields={"n": str(name)})
        await caller.call("none", code=9999)
        await trio.sleep(1)
        for name in range(100):
            outcome = caller.outcomes[name]
            assert body_of(outcome) == b"%d" % name
            assert isinstance(outcome, Frame)
            assert outcome.header.ext_fields == {"n": str(name)}
        refused = caller.outcomes["none"]
        assert isinstance(refused, Frame)
        assert refused.header.code == 3  # an answer too
        assert len(port.channels) == len(caller.seen(RPCPeerConnected)) == 1


async def test_it_may_be_asked_as_any_actor(autojump_clock: object) -> None:
    async with serving() as port, calling(port.network) as caller:
        ref = caller.system.ref("/a/client")
        address = Address(HOSTS["ns"], PORT)
        answer = await ref.ask(
            Frame,
            lambda reply_to: remoting_client.Call(
                address=address, code=ECHO, body=b"x", reply_to=reply_to
            ),
            timeout_s=5,
        )
        assert answer.body == b"x"
        with pytest.raises(AskTimeout):
            await ref.ask(
                Frame,
                lambda reply_to: remoting_client.Call(
                    address=address, code=LATER, reply_to=reply_to
                ),
                timeout_s=1,
            )
        await trio.sleep(5)  # until its own time is over: nobody waits any more
        assert caller.seen(ActorCrashed) == []


async def test_a_one_way_call_is_sent_and_forgotten(autojump_clock: object) -> None:
    """Before there is a connection too."""
    async with lan() as network, calling(network) as caller:
        listener = await caller.listen()
        for body in (b"1", b"2"):
            await caller.call("", code=15, body=body, reply_to=None)
        server = await accepted(listener)
        found = [await server.next_frame() for _ in range(2)]
        assert [each.body for each in found] == [b"1", b"2"]
        assert all(each.header.is_oneway for each in found)
        assert found[0].header.version == VERSION
        await caller.call("asked")
        assert not (await server.next_frame()).header.is_oneway
        assert caller.outcomes == {}


async def test_each_call_has_its_own_time(autojump_clock: object) -> None:
    async with lan() as network, calling(network) as caller:
        listener = await caller.listen()
        await caller.call("short", timeout_s=1)
        await caller.call("long", timeout_s=10)
        server = await accepted(listener)
        short, long = [await server.next_frame() for _ in range(2)]
        await trio.sleep(2)
        assert "no answer within 1 s" in why(caller.outcomes["short"])
        assert "127.0.0.1:9876" in why(caller.outcomes["short"])
        await server.put(answer_frame(short.header.opaque), answer_frame(long.header.opaque, b"x"))
        await trio.sleep(1)
        assert body_of(caller.outcomes["long"]) == b"x"
        assert caller.seen(RPCAnswerRefused) == []


async def test_addresses_do_not_wait_for_each_other(autojump_clock: object) -> None:
    async with serving() as port, calling(port.network) as caller:
        listener = await caller.listen("b")
        await caller.call("b", host="b", timeout_s=60)
        await accepted(listener)  # who is there never answers
        for name in range(10):
            await caller.call(name)
            await trio.sleep(0.1)
            assert isinstance(caller.outcomes[name], Frame)
        assert "b" not in caller.outcomes


async def test_nobody_listens(autojump_clock: object) -> None:
    """Calls fail at once in the pause, and it is tried again after 0.1 s up to a second."""
    async with lan() as network, calling(network) as caller:
        for name in range(100):
            await caller.call(name)
            await trio.sleep(0.1)
        assert all(why(each) for each in caller.outcomes.values())
        assert len(caller.outcomes) == 100
        assert 8 <= caller.seen(RPCPeerLost)[-1].failures <= 20
        listener = await caller.listen()
        await trio.sleep(RECONNECT_MAX_S)
        await caller.call("at last")
        server = await accepted(listener)
        await server.put(answer_frame((await server.next_frame()).header.opaque))
        await trio.sleep(1)
        assert isinstance(caller.outcomes["at last"], Frame)


async def test_a_host_that_does_not_answer(autojump_clock: object) -> None:
    async with lan() as network, calling(network) as caller:
        await caller.listen()
        network.cut("a", "ns")
        await caller.call("first", timeout_s=60)
        await trio.sleep(CONNECT_TIMEOUT_S - 0.1)
        assert caller.outcomes == {}
        await trio.sleep(0.2)
        assert "no connection within" in why(caller.outcomes["first"])


@pytest.mark.checklist(73, of="broker")
@pytest.mark.parametrize("junk", [*NO_FRAMES.values(), b""], ids=[*NO_FRAMES, "its end"])
async def test_a_lost_connection_takes_its_calls_with_it(
    junk: bytes, autojump_clock: object
) -> None:
    async with lan() as network, calling(network) as caller:
        listener = await caller.listen()
        for name in range(3):
            await caller.call(name, timeout_s=60)
        server = await accepted(listener)
        first = await server.next_frame()
        await server.put(answer_frame(first.header.opaque), junk)
        if not junk:
            await server.send.aclose()
        await trio.sleep(0.05)
        assert isinstance(caller.outcomes[0], Frame)
        assert why(caller.outcomes[1])
        assert why(caller.outcomes[2])
        await trio.sleep(RECONNECT_MAX_S)
        await caller.call("anew")
        server = await accepted(listener)
        opaque = (await server.next_frame()).header.opaque
        assert opaque > first.header.opaque
        await server.put(answer_frame(opaque))
        await trio.sleep(1)
        assert isinstance(caller.outcomes["anew"], Frame)


async def test_an_idle_connection_ends_and_is_made_anew(autojump_clock: object) -> None:
    async with serving() as port, calling(port.network) as caller:
        for name in range(2):
            await caller.call(name)
            await trio.sleep(2 * IDLE_S)
            assert isinstance(caller.outcomes[name], Frame)
        assert len(port.channels) == 2


async def test_what_a_server_asks_is_refused(autojump_clock: object) -> None:
    async with lan() as network, calling(network) as caller:
        listener = await caller.listen()
        await caller.call(1)
        server = await accepted(listener)
        asked = await server.next_frame()
        await server.put(
            encode_frame(Header(code=40, opaque=asked.header.opaque, flag=2)),
            answer_frame(asked.header.opaque, b"x"),
        )
        await trio.sleep(1)
        assert body_of(caller.outcomes[1]) == b"x"
        assert len(caller.seen(RPCAnswerRefused)) == 1


async def test_what_cannot_be_sent_is_told_at_once(autojump_clock: object) -> None:
    async with serving() as port, calling(port.network) as caller:
        await caller.call("large", body=bytes(17 << 20))
        await caller.call("no text", ext_fields={"topic": "\ud800"})
        await caller.call("good")
        await trio.sleep(1)
        assert "at most" in why(caller.outcomes["large"])
        assert why(caller.outcomes["no text"])
        assert isinstance(caller.outcomes["good"], Frame)
        assert len(caller.seen(RPCCallRefused)) == 2


async def test_addresses_are_bounded(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has no connection any more makes way."""
    monkeypatch.setattr(remoting_client, "ADDRESSES_MAX", 1)
    async with serving() as port, calling(port.network) as caller:
        await caller.call("first")
        await trio.sleep(1)
        await caller.call("other", host="b")
        await trio.sleep(1)
        assert "are being called" in why(caller.outcomes["other"])
        await caller.call("same")
        await trio.sleep(2 * IDLE_S)
        assert isinstance(caller.outcomes["same"], Frame)
        listener = await caller.listen("b")
        await caller.call("now", host="b")
        server = await accepted(listener)
        await server.put(answer_frame((await server.next_frame()).header.opaque))
        await trio.sleep(1)
        assert isinstance(caller.outcomes["now"], Frame)


@pytest.mark.parametrize("seed", range(4))
async def test_every_call_ends_in_its_time_whatever_the_network_does(
    seed: int, autojump_clock: object
) -> None:
    """With its own answer, or in time without one; and afterwards calls are answered again."""
    rng = random.Random(seed)
    async with serving(posted=True, clog_share=0.1) as port, calling(port.network) as caller:
        sent_s: dict[object, float] = {}
        for name in range(300):
            match rng.randrange(40):
                case 0:
                    port.network.cut(*rng.sample(["a", "ns"], 2))
                case 1:
                    port.network.reset("a", "ns")
                case 2:
                    port.network.forget(*rng.sample(["a", "ns"], 2))
                case 3 if port.channels:
                    port.channels[-1].end("ended by the test")
                case 4 | 5 | 6:
                    port.network.heal_all()
            size = rng.choice([1, 1, 1, 100_000])
            await caller.call(name, body=b"%d," % name * size, timeout_s=2)
            sent_s[name] = trio.current_time()
            await trio.sleep(rng.expovariate(20))
            late = [each for each, at_s in sent_s.items() if trio.current_time() > at_s + 2.1]
            assert all(each in caller.outcomes for each in late)
        port.network.heal_all()
        await trio.sleep(3 + RECONNECT_MAX_S)
        await caller.call("at last", body=b"x")
        await caller.ended(301)
        assert body_of(caller.outcomes.pop("at last")) == b"x"
        answered = {at: each for at, each in caller.outcomes.items() if isinstance(each, Frame)}
        assert 20 < len(answered) < 300
        for name, each in answered.items():
            assert set(each.body.split(b",")) == {b"%d" % name, b""}
        assert caller.seen(ActorCrashed) == port.seen(ActorCrashed) == []


async def test_a_stop_ends_all_calls(autojump_clock: object) -> None:
    async with lan() as network, calling(network) as caller:
        listener = await caller.listen()
        await caller.call(1, timeout_s=60)
        server = await accepted(listener)
        await caller.system.stop()
        assert isinstance(caller.outcomes[1], Exception)
        assert await server.ended()
