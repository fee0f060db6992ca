"""A port whose requests are served by processors: answers, refusals, and what is sent unasked."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from remoting_kit import ECHO, FAIL, HOSTS, LATER, answer_frame, frame, serving

from actors.events.remoting import (
    RPCConnectionClosed,
    RPCConnectionRefused,
    RPCFrameRefused,
    RPCListening,
)
from actors.events.runtime import ActorCrashed
from actors.remoting.budget import STALLED_S, TAKES_NOTHING
from actors.remoting.connection import (
    BUDGET_SHARE_BYTES,
    CALLS_MAX,
    CUT_OFF_BYTES,
    READS_TOO_LITTLE,
    WORK_BYTES,
)
from actors.remoting.requests import (
    BUSY,
    UNANSWERED_MAX,
    Answer,
    CallFailed,
    Channel,
    Refused,
    Request,
)
from actors.remoting.server import SLOTS_KEPT, listed
from actors.remoting.stream import SEND_TIMEOUT_S
from actors.runtime import ReplyTo
from actors.runtime.accepting import UNKNOWN_ADDRESS
from wire.broker.codes import RequestCode, ResponseCode
from wire.errors import LocalProtocolError
from wire.remoting.frame import Frame
from wire.remoting.header import VERSION, Header, Language, SerializeType

MIB = 1 << 20


@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("encoding", SerializeType)
async def test_a_request_is_answered_in_its_encoding(
    encoding: SerializeType, posted: bool, autojump_clock: object
) -> None:
    async with serving(posted=posted, fragment_share=0.9) as port:
        client = await port.connect()
        asked = frame(opaque=7, body=b"body", encoding=encoding, topic="t", é="ü")
        answer = await port.ask(client, asked)
        assert answer.header == Header(
            code=0,
            ext_fields={"topic": "t", "é": "ü"},
            flag=1,
            language=Language.PYTHON,
            opaque=7,
            remark="seen",
            serialize_type=encoding,
            version=VERSION,
        )
        assert answer.body == b"body"
        assert port.seen(RPCListening) == [RPCListening(address=HOSTS["ns"], port=9876)]


@pytest.mark.parametrize("posted", [False, True])
async def test_what_is_refused(posted: bool, autojump_clock: object) -> None:
    """By code and remark; a processor that fails is code 1, and the connection goes on."""
    async with serving(posted=posted) as port:

        def no_topic(request: Request) -> Answer:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, "No topic route info: X \ud800")

        port.table[3] = no_topic
        client = await port.connect()
        found = [
            await port.ask(client, frame(code, opaque))
            for opaque, code in enumerate((9999, -5, FAIL, 3, FAIL, ECHO), 1)
        ]
        assert [(each.header.opaque, each.header.code, each.header.remark) for each in found] == [
            (1, 3, " request type 9999 not supported"),
            (2, 3, " request type -5 not supported"),
            (3, 1, "KeyError: 'no such broker'"),
            (4, 17, "No topic route info: X ?"),
            (5, 1, "KeyError: 'no such broker'"),
            (6, 0, "seen"),
        ]
        assert all(each.header.version == VERSION for each in found)
        refused = [(each.code, each.count) for each in port.seen(RPCFrameRefused)]
        assert refused == [(9999, 1), (-5, 2), (FAIL, 4)]  # a processor's own refusal is none
        assert port.seen(ActorCrashed) == []


async def test_a_failing_processor_is_logged_and_not_each_time(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as port:
        client = await port.connect()
        for opaque in range(1, 9):
            await port.ask(client, frame(FAIL, opaque))
        lines = [each.getMessage() for each in caplog.records]
        assert len(lines) == 4  # the 1st, 2nd, 4th, 8th
        assert lines[0].startswith(f"request code {FAIL} from {HOSTS['a']}:")
        assert all(each.exc_info is not None for each in caplog.records)


async def test_fields_that_are_missing_or_wrong_are_named(autojump_clock: object) -> None:
    class Registration(msgspec.Struct, frozen=True, rename="camel"):
        broker_name: str
        broker_id: int
        compressed: bool = False

    async with serving() as port:

        def register(request: Request) -> Answer:
            read = request.fields(Registration, code=ResponseCode.INVALID_PARAMETER)
            return Answer(remark=repr(read))

        port.table[103] = register
        client = await port.connect()
        said = []
        for fields in (
            {"brokerName": "b", "brokerId": "-1", "compressed": "true", "more": "x"},
            {"brokerId": "0"},
            {"brokerName": "b", "brokerId": "zero"},
            {"brokerName": "b", "brokerId": "0", "compressed": "maybe"},
            {},
        ):
            answer = await port.ask(client, frame(103, **fields))
            said.append((answer.header.code, answer.header.remark or ""))
        right = "Registration(broker_name='b', broker_id=-1, compressed=True)"
        assert said[0] == (0, right)
        assert [code for code, _ in said[1:]] == [ResponseCode.INVALID_PARAMETER] * 4
        for (_, remark), name in zip(
            said[1:], ("brokerName", "brokerId", "compressed", "brokerName"), strict=True
        ):
            assert name in remark


@pytest.mark.parametrize("posted", [False, True])
async def test_a_one_way_request_is_never_answered(posted: bool, autojump_clock: object) -> None:
    """Whatever becomes of it."""
    async with serving(posted=posted) as port:
        client = await port.connect()
        codes = (ECHO, FAIL, LATER, 9999)
        await client.put(*(frame(code, code, oneway=True) for code in codes))
        await trio.sleep(1)
        (later,) = port.kept
        assert later.reserve(50 * MIB)
        assert later.send(Answer(body=bytes(4096)))
        answer = await port.ask(client, frame(ECHO, 1))
        assert answer.header.opaque == 1
        client.stream.abort()
        await trio.sleep(1)
        (closed,) = port.seen(RPCConnectionClosed)
        assert (closed.requests, closed.refused, closed.unanswered) == (5, 2, 0)


async def test_answers_leave_as_they_are_given(autojump_clock: object) -> None:
    async with serving(posted=True) as port:
        client = await port.connect()
        await client.put(*(frame(LATER, opaque, b"%d" % opaque) for opaque in range(1, 5)))
        await trio.sleep(1)
        assert [each.header.opaque for each in port.kept] == [1, 2, 3, 4]
        for at in (2, 0, 3, 1):
            assert port.kept[at].send(Answer(body=port.kept[at].body))
            assert not port.kept[at].send(Answer(body=b"twice"))
        assert [(await client.next_frame()).body for _ in range(4)] == [b"3", b"1", b"4", b"2"]


async def test_an_actor_that_crashes_answers_what_it_was_asked(autojump_clock: object) -> None:
    async with serving(posted=True) as port:
        client = await port.connect()
        await client.put(frame(LATER, 1))
        answer = await port.ask(client, frame(LATER, 2, b"crash"))
        others = [answer, await client.next_frame()]
        assert sorted(each.header.opaque for each in others) == [1, 2]
        assert {each.header.code for each in others} == {1}
        assert len(port.seen(ActorCrashed)) == 1
        await trio.sleep(1)
        assert (await port.ask(client, frame(ECHO, 3))).header.code == 0


async def test_an_answer_that_fits_no_frame_is_a_failure(autojump_clock: object) -> None:
    async with serving() as port:
        port.table[1] = lambda request: Answer(code=40_000)
        client = await port.connect()
        binary = await port.ask(client, frame(1, encoding=SerializeType.ROCKETMQ))
        assert binary.header.code == 1
        assert "no binary header holds" in (binary.header.remark or "")
        assert (await port.ask(client, frame(1))).header.code == 40_000


async def test_requests_to_the_client_are_numbered_and_answered(autojump_clock: object) -> None:
    async with serving() as port:
        client = await port.connect()
        await port.ask(client, frame(encoding=SerializeType.ROCKETMQ))
        (channel,) = port.channels
        assert channel.address.host == HOSTS["a"]
        outcomes: list[Any] = []
        for body in (b"one", b"two"):
            channel.call(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
                ext_fields={"topic": "t"},
                body=body,
                timeout_s=10,
                reply_to=ReplyTo.local(outcomes.append),
            )
        assert channel.notify(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext_fields={"consumerGroup": "g"}
        )
        first, second, told = [await client.next_frame() for _ in range(3)]
        assert (first.header.code, first.body, second.body) == (326, b"one", b"two")
        assert first.header.serialize_type is SerializeType.ROCKETMQ  # as the client speaks
        assert first.header.ext_fields == {"topic": "t"}
        assert not first.header.is_oneway
        assert (told.header.code, told.header.is_oneway, told.header.version) == (40, True, VERSION)
        assert len({each.header.opaque for each in (first, second, told)}) == 3
        await client.put(
            answer_frame(second.header.opaque, b"2"), answer_frame(first.header.opaque, b"1", 1)
        )
        await trio.sleep(1)
        assert [(each.header.code, each.body) for each in outcomes] == [(0, b"2"), (1, b"1")]
        await client.put(answer_frame(first.header.opaque))
        await port.ask(client, frame())
        assert port.seen(RPCFrameRefused)[0].reason == "an answer to nothing that was asked"


async def test_calls_to_the_client_end_with_their_time_or_connection(
    autojump_clock: object,
) -> None:
    async with serving() as port:
        client = await port.connect()
        await port.ask(client, frame())
        (channel,) = port.channels
        ended: list[tuple[str, float, Any]] = []

        def call(name: str, timeout_s: float, **fields: Any) -> None:
            def end(outcome: Frame | Exception) -> None:
                ended.append((name, trio.current_time(), outcome))

            reply_to: ReplyTo[Frame] = ReplyTo.local(end)
            channel.call(326, timeout_s=timeout_s, reply_to=reply_to, **fields)

        begun_s = trio.current_time()
        call("late", 5.0)
        call("lost", 100.0)
        call("early", 1.0)
        with pytest.raises(LocalProtocolError):
            call("never", 1.0, body=bytes(17 * MIB))
        await trio.sleep(10)
        assert [(name, round(at_s - begun_s)) for name, at_s, _ in ended] == [
            ("early", 1),
            ("late", 5),
        ]
        client.stream.abort()
        await trio.sleep(1)
        call("gone", 1.0)
        assert [name for name, _, _ in ended[2:]] == ["lost", "gone"]
        assert all(isinstance(outcome, CallFailed) for _, _, outcome in ended)
        assert not channel.notify(40)


async def test_calls_to_the_client_are_bounded(autojump_clock: object) -> None:
    async with serving() as port:
        client = await port.connect()
        await port.ask(client, frame())
        failed: list[Any] = []
        for _ in range(CALLS_MAX + 1):
            port.channels[0].call(326, timeout_s=100, reply_to=ReplyTo.local(failed.append))
        assert len(failed) == 1
        for _ in range(CALLS_MAX):
            assert (await client.next_frame()).header.code == 326


async def test_who_watches_a_connection_learns_of_its_end_once(autojump_clock: object) -> None:
    async with serving() as port:
        client = await port.connect()
        await port.ask(client, frame())
        (channel,) = port.channels
        ended: list[Channel] = []
        for _ in range(3):
            channel.on_end(ended.append)
        await client.send.aclose()
        await trio.sleep(1)
        assert ended == [channel]
        channel.on_end(ended.append)
        assert ended == [channel, channel]  # asked when it was over


async def test_a_connection_may_be_ended_here(autojump_clock: object) -> None:
    async with serving() as port:
        client, other = await port.connect(), await port.connect()
        for each in (client, other):
            await port.ask(each, frame())
        port.channels[0].end("its broker was removed")
        assert await client.ended()
        await port.ask(other, frame())
        assert [each.reason for each in port.seen(RPCConnectionClosed)] == [
            "its broker was removed"
        ]


# --- bounds -----------------------------------------------------------------------------------


@pytest.mark.checklist(75, of="broker")
async def test_who_does_not_read_what_it_is_told_is_cut_off(autojump_clock: object) -> None:
    """At a limit, at once; others are told all the same."""
    async with serving() as port:
        client, other = await port.connect(), await port.connect("b")
        for each in (client, other):
            await port.ask(each, frame())
        deaf, hears = port.channels
        begun_s, told = trio.current_time(), 0
        while deaf.notify(40, body=bytes(MIB)):
            told += 1
            assert told < 100
        await trio.sleep(0.1)
        assert 8 <= told <= 64
        assert trio.current_time() - begun_s < 1
        assert [each.reason for each in port.seen(RPCConnectionClosed)] == [READS_TOO_LITTLE]
        assert hears.notify(40, body=b"news")
        assert (await other.next_frame()).body == b"news"


LARGE = {
    "body": Answer(body=bytes(MIB)),
    "ext_fields": Answer(ext_fields={"value": "x" * MIB}),
    "remark": Answer(code=1, remark="x" * MIB),
    "no ASCII": Answer(ext_fields={"value": "\0" * (MIB // 6)}),
}
"""Answers whose frames have some MiB, by what is large in them."""


@pytest.mark.checklist(75, of="broker")
@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE.keys())
async def test_who_does_not_read_its_answers_is_cut_off(
    large: Answer, autojump_clock: object
) -> None:
    """What it may hold of the port's room is bounded, and others are answered meanwhile."""
    async with serving() as port:
        port.table.update({1: lambda request: large, 2: lambda request: Answer(body=bytes(MIB))})
        client, other = await port.connect(), await port.connect("b")
        await client.put(*(frame(1, opaque) for opaque in range(1, 1000)))
        begun_s = trio.current_time()
        await trio.sleep(1)
        assert port.channels[0].unsent_bytes < BUDGET_SHARE_BYTES
        for _ in range(10):
            assert len((await port.ask(other, frame(2))).body) == MIB
        await trio.sleep_until(begun_s + SEND_TIMEOUT_S + 2)
        (closed,) = port.seen(RPCConnectionClosed)
        assert "has read nothing" in closed.reason
        assert port.seen(ActorCrashed) == []


async def test_it_is_cut_off_before_all_its_answers_are_encoded(autojump_clock: object) -> None:
    """Those of one step, whose room was asked for and is less than they take."""
    async with serving() as port:

        def reserving(request: Request) -> Answer:
            assert request.reserve(1)
            return LARGE["body"]

        port.table[1] = reserving
        client = await port.connect()
        await client.put(*(frame(1, opaque) for opaque in range(1, 200)))
        await trio.sleep(1)
        assert [each.reason for each in port.seen(RPCConnectionClosed)] == [READS_TOO_LITTLE]
        assert port.channels[0].unsent_bytes < CUT_OFF_BYTES + 2 * WORK_BYTES


@pytest.mark.checklist(75, of="broker")
async def test_many_that_do_not_read_take_the_ports_room_for_moments_only(
    autojump_clock: object,
) -> None:
    """All of it: others are answered busy until those have taken nothing for some seconds.

    A part is kept for who holds nothing, so it takes many that do not read.
    """
    async with serving(connections_max=256) as port:
        port.table[1] = lambda request: Answer(body=bytes(MIB))
        other, codes = await port.connect("b"), []
        for count in (12, 60):
            deaf = [await port.connect() for _ in range(count)]
            for turn in range(3):
                for each in deaf:
                    await each.put(*(frame(1, turn * 100 + number) for number in range(100)))
                await trio.sleep(0.1)
            codes.append((await port.ask(other, frame(1))).header.code)
        assert codes == [0, ResponseCode.SYSTEM_BUSY]
        assert port.seen(RPCConnectionClosed) == []
        await trio.sleep(STALLED_S)
        answers = [await port.ask(other, frame(1)) for _ in range(2)]
        assert answers[0].header.code == ResponseCode.SYSTEM_BUSY
        assert len(answers[1].body) == MIB
        assert {each.reason for each in port.seen(RPCConnectionClosed)} == {TAKES_NOTHING}


async def test_too_much_at_once_is_answered_busy(autojump_clock: object) -> None:
    """Not what is taken in time: a client that reads gets all."""
    async with serving() as port:
        port.table[1] = lambda request: Answer(body=bytes(2 * MIB))
        client = await port.connect()
        await client.put(*(frame(1, opaque) for opaque in range(1, 9)))
        answers = [await client.next_frame() for _ in range(8)]
        codes = [each.header.code for each in answers]
        assert codes == [0] * 4 + [ResponseCode.SYSTEM_BUSY] * 4
        assert answers[-1].header.remark == BUSY
        for opaque in range(9, 17):
            assert len((await port.ask(client, frame(1, opaque))).body) == 2 * MIB
        (channel,) = port.channels
        assert channel._share.reads_bytes == 0  # type: ignore[attr-defined]


async def test_an_answer_whose_room_was_asked_for_is_not_refused(autojump_clock: object) -> None:
    async with serving() as port:

        def reserving(request: Request) -> Answer:
            assert request.reserve(20 * MIB)
            return Answer(body=bytes(10 * MIB))

        port.table.update({1: lambda request: Answer(body=bytes(2 * MIB)), 2: reserving})
        client = await port.connect()
        await client.put(*(frame(1, opaque) for opaque in range(1, 7)), frame(2, 7))
        answers = [await client.next_frame() for _ in range(7)]
        assert [each.header.code for each in answers] == [0] * 4 + [
            ResponseCode.SYSTEM_BUSY
        ] * 2 + [0]
        assert len(answers[-1].body) == 10 * MIB
        assert (await port.ask(client, frame(9999))).header.code == 3
        (channel,) = port.channels
        assert channel._share.reads_bytes == 0  # type: ignore[attr-defined]


async def test_a_thousand_connections_are_served(autojump_clock: object) -> None:
    """Of one address: the later ones speak first, as clients do."""
    async with serving(connections_max=1024) as port:
        clients = []
        for opaque in range(1000 - SLOTS_KEPT):
            clients.append(await port.connect())
            await clients[-1].put(frame(ECHO, opaque))
        for opaque, client in enumerate(clients):
            assert (await client.next_frame()).header.opaque == opaque
        assert port.seen(RPCConnectionClosed) == []
        assert port.seen(RPCConnectionRefused) == []


async def test_unanswered_requests_are_bounded(autojump_clock: object) -> None:
    async with serving(posted=True, unanswered_max=UNANSWERED_MAX) as port:
        client = await port.connect()
        many = 10 * UNANSWERED_MAX
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.put, *(frame(LATER, opaque) for opaque in range(1, many + 1)))
            await trio.sleep(10)
            assert len(port.kept) == UNANSWERED_MAX
            while len(port.kept) < many or not port.kept[-1].answered:
                for each in port.kept:
                    each.send(Answer())
                await trio.sleep(0.1)
            for _ in range(many):
                await client.next_frame()


async def test_a_client_that_asks_much_at_once_lets_others_in_between(
    autojump_clock: object,
) -> None:
    """Each connection may have a few requests in the line of the actor that they share."""
    most, greedy_count, each_asks = 16, 20, 300
    async with serving(posted=True, unanswered_max=most) as port:
        greedy = [await port.connect() for _ in range(greedy_count)]
        for client in greedy:
            await client.put(*(frame(LATER, opaque) for opaque in range(1, each_asks + 1)))
        await trio.sleep(1)
        assert len(port.kept) == greedy_count * most
        other = await port.connect("b")
        assert (await port.ask(other, frame())).header.remark == "seen"
        while len(port.kept) < greedy_count * each_asks or not port.kept[-1].answered:
            for each in port.kept:
                each.send(Answer())
            await trio.sleep(0.1)
        for client in greedy:
            for _ in range(each_asks):
                await client.next_frame()


async def test_what_was_not_sent_does_not_outlive_its_connection(autojump_clock: object) -> None:
    """Though requests are still waited for that know it, and the port's room is free again."""
    async with serving() as port:
        port.table[1] = lambda request: Answer(body=bytes(7 * MIB))
        client = await port.connect()
        await client.put(frame(LATER, 1), frame(1, 2))
        await trio.sleep(1)
        (channel,) = port.channels
        assert channel.unsent_bytes > 5 * MIB
        client.stream.abort()
        await trio.sleep(1)
        assert len(port.seen(RPCConnectionClosed)) == 1
        assert channel.unsent_bytes == 0
        (waits,) = port.kept
        assert waits.channel is channel
        held = gc.get_referents(channel, channel._frames)  # type: ignore[attr-defined]
        assert not [each for each in held if isinstance(each, bytes) and len(each) > MIB]


@pytest.mark.parametrize("large", ["body", "field"])
async def test_large_unanswered_requests_are_bounded_by_their_bytes(
    large: str, autojump_clock: object
) -> None:
    async with serving(posted=True) as port:
        client = await port.connect()
        text = "x" * (MIB // 4 - 1000)
        sent = frame(LATER, body=text.encode()) if large == "body" else frame(LATER, value=text)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.put, *[sent] * 160))
            await trio.sleep(10)
            assert 64 <= len(port.kept) < 72
            nursery.cancel_scope.cancel()


# --- who may come -----------------------------------------------------------------------------


async def test_addresses_that_may_not_connect(autojump_clock: object) -> None:
    async with serving(may_connect={HOSTS["a"]}.__contains__) as port:
        client = await port.connect("a")
        assert (await port.ask(client, frame())).header.code == 0
        try:
            stranger = await port.connect("b")
        except ConnectionResetError:
            pass
        else:
            assert await stranger.ended()
        assert [each.reason for each in port.seen(RPCConnectionRefused)] == [UNKNOWN_ADDRESS]
    may_connect = listed(("10.0.0.1",))
    assert all(map(may_connect, ("127.0.0.9", "::1", "10.0.0.1")))
    assert not may_connect("10.0.0.2")


async def test_quiet_clients_make_way_and_brokers_do_not(autojump_clock: object) -> None:
    async with serving(connections_max=SLOTS_KEPT + 2) as port:
        broker = await port.connect()
        await port.ask(broker, frame())
        port.channels[0].prove()
        quiet = await port.connect()
        await port.ask(quiet, frame())
        late = await port.connect()
        assert await quiet.ended()
        for each in (broker, late):
            assert (await port.ask(each, frame())).header.code == 0
