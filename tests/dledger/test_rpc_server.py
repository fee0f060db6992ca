"""What a connection of a member or a client meets: routing, order, refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from rpc_kit import (
    PARTS,
    PORT,
    REQUESTS,
    Narrow,
    Refusing,
    StandIn,
    answer_at_once,
    frame_of,
    keep,
    led_by,
    request,
    serving,
    success,
)

from actors.dledger.rpc.routing import Directory
from actors.dledger.rpc.rpc_messages import Asked, AskedAppends
from actors.dledger.rpc.session import ENTRIES_UNANSWERED_MAX, READS_MAX
from actors.errors import ConfigError
from actors.events.remoting import RPCConnectionClosed, RPCFrameRefused, RPCListening
from actors.remoting.requests import BUSY, UNANSWERED_MAX
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    HeartBeatRequest,
    HeartBeatResponse,
    PushEntryRequest,
    Request,
    VoteRequest,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.remoting.frame import encode_frame
from wire.remoting.header import FLAG_ONEWAY, Header, SerializeType


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
async def test_every_request_goes_to_its_part(cls: type[Request], autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        asked = request(cls, term=7)
        await client.ask(asked)
        number, answer = await client.answer_of(request_code_of(asked))
        assert (number, answer.code, answer.term) == (1, 200, 7)
        ((part, found),) = kit.asked
        assert (part, found.request, found.peer) == (PARTS[cls], asked, "127.0.0.2")
        assert kit.seen(RPCListening) == [RPCListening(address="127.0.0.1", port=PORT)]


async def test_answers_leave_in_any_order(autojump_clock: object) -> None:
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        await client.ask(*(request(PushEntryRequest, term=term) for term in range(3)))
        await trio.sleep(1)
        for number in (1, 2, 0):
            asked = kit.asked[number][1]
            asked.reply_to.send(success(asked))
            found, answer = await client.answer_of(RequestCode.PUSH)
            assert (found, answer.term) == (number + 1, number)


async def test_appends_that_come_together_are_asked_together(autojump_clock: object) -> None:
    async def answer(asked: Any) -> None:
        if not isinstance(asked, AskedAppends):
            await answer_at_once(asked)
        elif asked.requests[0].body == b"bad":
            asked.reply_to.fail(ValueError("no"))
        else:
            terms = [each.term for each in asked.requests]
            asked.reply_to.send(tuple(AppendEntryResponse(index=term) for term in terms))

    def append(term: int, body: bytes = b"x") -> Request:
        return request(AppendEntryRequest, term=term, body=body)

    whole = {"fragment_share": 0.0}
    async with serving(members=(("g", "n0"), ("h", "n0")), **whole) as kit:
        kit.behave = answer
        client = await kit.connect()
        other = [request(AppendEntryRequest, term=7, body=b"h", group="h")]
        await client.ask(append(1), append(2), request(term=9), append(3), *other, append(4))
        found = {}
        for _ in range(6):
            frame = await client.next_frame()
            found[frame.header.opaque] = frame.body
        indexes = [decode_response(RequestCode.APPEND, found[n])[0] for n in (1, 2, 4)]
        assert [each.index for each in indexes if isinstance(each, AppendEntryResponse)] == [
            1,
            2,
            3,
        ]
        kinds = [(type(asked), len(getattr(asked, "requests", "x"))) for _, asked in kit.asked]
        assert sorted(kinds, key=str) == [(Asked, 1)] * 3 + [(AskedAppends, 3)]

        await client.ask(append(1, b"bad"), append(2), append(3))
        for number in (1, 2, 3):
            header = (await client.next_frame()).header
            assert (header.code, header.opaque) == (1, number)
            assert "ValueError: no" in (header.remark or "")
        await client.put(*(frame_of(append(n), n, flag=FLAG_ONEWAY) for n in (1, 2)))
        await client.ask(append(5))
        assert (await client.answer_of(RequestCode.APPEND))[0] == 1
        client.stream.abort()
        await trio.sleep(1)
        (closed,) = kit.seen(RPCConnectionClosed)
        assert closed.unanswered == 0


async def test_a_question_without_wish_for_an_answer_gets_none(autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        await client.put(
            frame_of(request(VoteRequest), 1, flag=FLAG_ONEWAY),
            frame_of(request(group="x"), 2, flag=FLAG_ONEWAY),
            encode_frame(Header(code=7, opaque=3, flag=FLAG_ONEWAY)),
            frame_of(request(), 4),
        )
        assert (await client.answer_of(RequestCode.METADATA))[0] == 4
        assert [part for part, _ in kit.asked] == ["state_maintainer"] * 2


@pytest.mark.checklist(5, of="dledger")
@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize(
    ("group", "member", "code"),
    [("x", "n0", 400), ("g", "n9", 401), ("x", "n9", 401), ("g", None, 401), (None, "n0", 400)],
)
async def test_a_wrong_addressee_gets_that_answer(
    cls: type[Request], group: str | None, member: str | None, code: int, autojump_clock: object
) -> None:
    async with serving() as kit:
        kit.role_status.publish(led_by("n2"))
        client = await kit.connect()
        asked = request(cls, group=group, remote_id=member, local_id="n1", term=5)
        await client.ask(asked)
        _, answer = await client.answer_of(request_code_of(asked))
        assert kit.asked == []
        assert (answer.code, answer.group, answer.remote_id) == (code, group, member)
        assert (answer.leader_id, answer.local_id, answer.term) == ("n2", "n1", 5)


async def test_groups_share_a_port(autojump_clock: object) -> None:
    members = (("g", "n0"), ("h", "n0"), ("h", "n5"))
    async with serving(members=members) as kit:
        kit.role_status.publish(led_by("n1"))
        client = await kit.connect()
        await client.ask(*(request(group=group, remote_id=member) for group, member in members))
        for _ in members:
            assert (await client.answer_of(RequestCode.METADATA))[1].code == 200
        wrong = (("g", "n5", 400, "n1"), ("g", "n9", 401, "n1"), ("h", "n9", 401, None))
        for group, member, code, leader in (*wrong, ("x", "n0", 400, None)):
            await client.ask(request(group=group, remote_id=member))
            _, answer = await client.answer_of(RequestCode.METADATA)
            assert (answer.code, answer.leader_id) == (code, leader)


def test_no_member_stands_in_a_directory_twice() -> None:
    with pytest.raises(AssertionError):
        Directory(())


PUSH = b'{"group":"g","remoteId":"n0","type":"APPEND",'
BAD_BODIES = {
    "nothing": b"",
    "null": b"null",
    "an array": b"[]",
    "a number": b"5",
    "no UTF-8": b'{"group":"\xff"}',
    "cut": PUSH,
    "a word for a number": PUSH + b'"term":"x"}',
    "20 digits": PUSH + b'"term":12345678901234567890}',
    "20 digits in quotes": PUSH + b'"commitIndex":"12345678901234567890"}',
    "null for a number": PUSH + b'"term":null}',
    "a fraction": PUSH + b'"term":1.5}',
    "an entry that is a word": PUSH + b'"entry":"x"}',
    "an entry without index": PUSH + b'"entry":{"body":"","magic":1,"pos":0,"size":48,"term":1}}',
    "null for a list": PUSH + b'"batchEntry":null}',
    "Base64 without padding": PUSH
    + b'"entry":{"body":"eA","index":0,"magic":1,"pos":0,"size":49,"term":1}}',
    "Base64 of another alphabet": PUSH
    + b'"entry":{"body":"e-_=","index":0,"magic":1,"pos":0,"size":50,"term":1}}',
    "deep": b'{"a":' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_bad_body_disturbs_nothing(body: bytes, autojump_clock: object) -> None:
    """Refused by its remark; the same connection serves what comes before and behind it."""
    async with serving() as kit:
        client = await kit.connect()
        await client.put(
            frame_of(request(), 1),
            encode_frame(Header(code=RequestCode.PUSH, opaque=2), body),
            frame_of(request(), 3),
        )
        frames = {
            frame.header.opaque: frame for frame in [await client.next_frame() for _ in "abc"]
        }
        assert [frames[number].header.code for number in (1, 2, 3)] == [200, 1, 200]
        assert frames[2].header.remark
        assert frames[2].body == b""
        assert len(kit.asked) == 2
        (refused,) = kit.seen(RPCFrameRefused)
        assert (refused.code, refused.count) == (RequestCode.PUSH, 1)


@pytest.mark.parametrize("code", [0, 7, 51003, 59999, -14532, 2**31 - 1])
async def test_an_unknown_code_is_not_supported(code: int, autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        await client.put(encode_frame(Header(code=code, opaque=9), b"{}"))
        header = (await client.next_frame()).header
        assert (header.code, header.opaque, header.is_reply) == (3, 9, True)
        assert str(code) in (header.remark or "")


@pytest.mark.checklist(1, of="dledger")
async def test_a_binary_header_asks_for_nothing(autojump_clock: object) -> None:
    """Its 16 bits cannot hold 51004, which arrives as -14532: refused, in the same encoding."""
    async with serving() as kit:
        client = await kit.connect()
        header = Header(code=51004 - 65536, opaque=3, serialize_type=SerializeType.ROCKETMQ)
        await client.put(encode_frame(header, encode_body(request(PushEntryRequest))))
        frame = await client.next_frame()
        assert (frame.header.code, frame.header.opaque) == (3, 3)
        assert frame.header.serialize_type is SerializeType.ROCKETMQ
        assert kit.asked == []


async def test_an_answer_that_nobody_waits_for_is_dropped(autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        stray = encode_frame(Header(code=200, opaque=1, flag=1), b"{}")
        await client.put(*[stray] * 5, frame_of(request(), 2))
        assert (await client.answer_of(RequestCode.METADATA))[0] == 2
        assert [each.count for each in kit.seen(RPCFrameRefused)] == [1, 2, 4]
        client.stream.abort()
        await trio.sleep(1)
        (closed,) = kit.seen(RPCConnectionClosed)
        assert (closed.requests, closed.refused, closed.unanswered) == (1, 5, 0)


async def test_tolerated_frames_are_counted(autojump_clock: object) -> None:
    async with serving() as kit:
        client = await kit.connect()
        body = b'{"GROUP":"g","remoteId":"n0","term":"4","extra":[]}'
        await client.put(
            encode_frame(Header(code=RequestCode.METADATA, opaque=1), body), frame_of(request(), 2)
        )
        assert (await client.answer_of(RequestCode.METADATA))[1].term == 4
        await client.answer_of(RequestCode.METADATA)
        client.stream.abort()
        await trio.sleep(1)
        assert kit.seen(RPCConnectionClosed)[0].tolerated == 1


async def refused_with(kit: Any, asked: Request, code: int) -> str:
    """The remark of a remoting failure; afterwards the same connection is served."""
    client = await kit.connect()
    await client.ask(asked)
    frame = await client.next_frame()
    assert (frame.header.code, frame.header.opaque, frame.body) == (code, 1, b"")
    kit.behave = answer_at_once
    await client.ask(request())
    assert (await client.answer_of(RequestCode.METADATA))[1].code == 200
    return frame.header.remark or ""


async def test_a_part_that_fails_is_a_remark(autojump_clock: object) -> None:
    async def fail(asked: Asked) -> None:
        asked.reply_to.fail(ValueError("the disk\ud800 is upside down" + "!" * 1000))

    async with serving() as kit:
        kit.behave = fail
        remark = await refused_with(kit, request(AppendEntryRequest), 1)
        assert "the disk? is upside down" in remark
        assert len(remark) <= 500


async def test_a_part_that_crashes_is_a_remark(autojump_clock: object) -> None:
    async def crash(asked: Asked) -> None:
        raise RuntimeError("crash")

    async with serving() as kit:
        kit.behave = crash
        assert "ActorDown" in await refused_with(kit, request(PushEntryRequest), 1)


async def test_an_answer_that_cannot_be_sent_is_a_remark(autojump_clock: object) -> None:
    async def nonsense(asked: Asked) -> None:
        asked.reply_to.send(msgspec.structs.replace(success(asked), group="\ud800"))

    async def too_large(asked: Asked) -> None:
        asked.reply_to.send(msgspec.structs.replace(success(asked), group="x" * (17 << 20)))

    for behave in (nonsense, too_large):
        async with serving() as kit:
            kit.behave = behave
            assert await refused_with(kit, request(), 1)


@pytest.mark.parametrize("stand_in", [Narrow, Refusing])
async def test_a_part_without_room(stand_in: type[StandIn], autojump_clock: object) -> None:
    """What it has no room for waits or is refused; heartbeats are served all the while."""
    async with serving(stand_in=stand_in) as kit:
        gate = trio.Event()

        async def wait(asked: Asked) -> None:
            if isinstance(asked.request, PushEntryRequest):
                await gate.wait()
            asked.reply_to.send(success(asked))

        kit.behave = wait
        client = await kit.connect()
        await client.ask(request(PushEntryRequest))
        await trio.sleep(1)  # it is being worked on
        await client.ask(*[request(PushEntryRequest)] * 3)
        if stand_in is Refusing:
            for number in (2, 3):  # 1 has the room
                header = (await client.next_frame()).header
                assert (header.code, header.opaque, header.remark) == (2, number, BUSY)
        await client.ask(request(HeartBeatRequest))
        assert isinstance((await client.answer_of(RequestCode.HEART_BEAT))[1], HeartBeatResponse)
        gate.set()
        for number in (1, 1, 2, 3) if stand_in is Narrow else (1, 1):
            assert (await client.answer_of(RequestCode.PUSH))[0] == number


async def test_reads_of_one_connection_are_bounded(autojump_clock: object) -> None:
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        asked = request(GetEntriesRequest, begin_index=0)
        await client.ask(*[asked] * (READS_MAX + 1))
        header = (await client.next_frame()).header
        assert (header.code, header.opaque) == (2, READS_MAX + 1)
        for _, each in kit.asked:
            each.reply_to.send(success(each))
        for _ in range(READS_MAX):
            await client.answer_of(RequestCode.GET)
        await client.ask(asked)
        await trio.sleep(1)
        assert len(kit.asked) == READS_MAX + 1


async def test_a_client_has_few_requests_in_the_line_of_a_members_part(
    autojump_clock: object,
) -> None:
    """All connections share it. One that brings entries may have as many as a leader pushes."""
    async with serving() as kit:
        kit.behave = keep
        clients = [await kit.connect() for _ in range(20)]
        for client in clients:
            await client.ask(*[request()] * 300)
        await trio.sleep(1)
        assert len(kit.asked) == 20 * UNANSWERED_MAX


async def test_a_client_that_appends_has_many_requests_under_way(autojump_clock: object) -> None:
    """They are synced together."""
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        await client.ask(*[request(AppendEntryRequest, body=b"x")] * 300)
        await trio.sleep(1)
        assert sum(len(getattr(each, "requests", (each,))) for _, each in kit.asked) == 300


async def test_unanswered_requests_of_one_connection_are_bounded(autojump_clock: object) -> None:
    """The others wait in the stream, and come when there is room."""
    async with serving() as kit:
        kit.behave = keep
        client = await kit.connect()
        asked, over = request(VoteRequest), ENTRIES_UNANSWERED_MAX + 3000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.ask, *[asked] * over)
            await trio.sleep(10)
            waiting = len(kit.asked)
            assert ENTRIES_UNANSWERED_MAX <= waiting < over
            other = await kit.connect("n2")
            kit.behave = answer_at_once
            await other.ask(asked)
            await other.answer_of(RequestCode.VOTE)
            for _, each in kit.asked:
                each.reply_to.send(success(each))
            for _ in range(over):
                await client.answer_of(RequestCode.VOTE)


async def test_a_port_in_use_names_the_key(autojump_clock: object) -> None:
    async with serving() as kit:
        with pytest.RaisesGroup(
            pytest.RaisesExc(ConfigError, match=r"groups\.g\.port: cannot listen on 127\.0\.0\.1"),
            flatten_subgroups=True,
            allow_unwrapped=True,
        ):
            async with serving(network=kit.network.open("n0")):
                raise AssertionError("two servers at one port")
