"""Real Java nodes' requests through a member's port: read, routed, and answered byte for byte.

The parts of the member are stand-ins that give Java's own answers; what needs no part is ours.
"""

from __future__ import annotations

import golden_dledger as golden
import msgspec
import pytest
from rpc_kit import PARTS, Client, ServerKit, led_by, serving

from actors.dledger.rpc.rpc_messages import Asked
from wire.buffer import NEED_DATA
from wire.dledger.rpc import decode_request, decode_response, request_code, request_code_of
from wire.remoting.frame import Decoder, Frame
from wire.remoting.header import Language

OF_THE_REMOTING_LAYER = {"PULL": 3, "USER_DEFINE": 3, "7": 3}
"""Requests that no part of ours serves, and the code that they get. Java fails PULL with 1."""

OWN = (("g", "n0"), ("g", "n1"), ("g", "n2"))


def decoded(frame: bytes) -> Frame:
    decoder = Decoder()
    decoder.receive_data(frame)
    found = decoder.next_frame()
    assert found is not NEED_DATA
    return found


def pairs(scenario: str) -> list[tuple[str, bytes, bytes]]:
    """(name, request, reply) of a recording, as bytes on the wire.

    Numbers are of a connection's requester, so the reply is the next one with number and name.
    """
    rows = golden.frames(scenario)
    found = []
    for at, row in enumerate(rows):
        if row.is_reply:
            continue
        opaque = decoded(row.frame).header.opaque
        replies = (
            each.frame
            for each in rows[at + 1 :]
            if each.is_reply
            and each.name == row.name
            and decoded(each.frame).header.opaque == opaque
        )
        reply = next(replies, None)
        if reply is not None:
            found.append((row.name, row.frame, reply))
    return found


def member_of(frame: bytes) -> tuple[str, str | None]:
    body = msgspec.json.decode(decoded(frame).body)
    return body["group"], body.get("remoteId")


def as_java(frame: Frame) -> Frame:
    """What Java would have written: it says another language."""
    header = msgspec.structs.replace(frame.header, language=Language.JAVA)
    return msgspec.structs.replace(frame, header=header)


async def answered(kit: ServerKit, client: Client, asked: bytes, reply: bytes) -> Frame:
    """What our port answers when its part gives Java's answer."""
    java = decoded(reply)

    async def as_recorded(found: Asked) -> None:
        if java.body:
            code = request_code_of(found.request)
            found.reply_to.send(decode_response(code, java.body)[0])
        else:
            found.reply_to.fail(RuntimeError(java.header.remark))

    kit.behave = as_recorded
    await client.put(asked)
    return await client.next_frame()


@pytest.mark.parametrize("scenario", golden.SCENARIOS)
async def test_java_is_answered_as_by_java(scenario: str, autojump_clock: object) -> None:
    found = pairs(scenario)
    assert found
    async with serving(members=OWN) as kit:
        client = await kit.connect()
        for name, asked, reply in found:
            if member_of(asked) not in OWN or name in OF_THE_REMOTING_LAYER:
                continue
            before = len(kit.asked)
            ours, java = await answered(kit, client, asked, reply), decoded(reply)
            code = request_code(decoded(asked).header.code)
            assert code is not None
            ((part, got),) = kit.asked[before:]
            request, loose = decode_request(code, decoded(asked).body)
            assert (part, got.request) == (PARTS[type(request)], request)
            assert not loose
            if java.body:
                assert as_java(ours) == java
            else:
                assert (ours.header.code, ours.header.opaque) == (1, java.header.opaque)


@pytest.mark.checklist(5, of="dledger")
async def test_refusals_are_those_of_java(autojump_clock: object) -> None:
    """04-refusals: what needs no part of the member, beside a member n1 that leads."""
    seen = []
    async with serving(members=(("g", "n1"),)) as kit:
        kit.role_status.publish(led_by("n1"))
        client = await kit.connect()
        for name, asked, reply in pairs("04-refusals"):
            java = decoded(reply)
            code = msgspec.json.decode(java.body)["code"] if java.body else 0
            if code not in (400, 401) and name not in OF_THE_REMOTING_LAYER:
                continue
            await client.put(asked)
            ours = await client.next_frame()
            if java.body:
                assert as_java(ours) == java
            else:
                expected = OF_THE_REMOTING_LAYER[name]
                assert (ours.header.code, ours.header.opaque) == (expected, java.header.opaque)
                assert ours.body == b""
            seen.append((name, code))
        assert kit.asked == []
    refused = [("METADATA", 400), ("METADATA", 401), ("METADATA", 401)]
    assert seen == [*refused, ("PULL", 0), ("USER_DEFINE", 0), ("7", 0)]


async def test_a_recording_in_one_piece(autojump_clock: object) -> None:
    """All requests of a scenario at once, cut anywhere: every one gets its answer."""
    found = pairs("10-empty-follower")
    assert len(found) > 60
    async with serving(members=OWN, fragment_share=0.9) as kit:
        client = await kit.connect()
        await client.put(*(asked for _, asked, _ in found))
        got = sorted([(await client.next_frame()).header.opaque for _ in found])
        assert got == sorted(decoded(asked).header.opaque for _, asked, _ in found)
        assert len(kit.asked) == len(found)
