"""What a member hears of each peer: whether it answers, and what it refuses."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
from functools import partial
from typing import Any, TypeVar

import attrs
import pytest
import trio
from group_kit import SMALL, Group, group_config, opened, run_member
from rpc_kit import Client, answer_frame, calling, request

from actors.config import ClusterConfig
from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role
from actors.dledger.core.votes import VoteAnswer
from actors.dledger.election.election_requests import _Beat, _Transfer, _Vote, vote_response
from actors.dledger.election.peer_signs import PeerSigns, refusal_of
from actors.dledger.rpc.peer_messages import (
    GetLink,
    GetProgress,
    GetSigns,
    GetTaking,
    Link,
    PeerSign,
    Progress,
    Signs,
    Taking,
)
from actors.dledger.rpc.rpc_messages import Answered, Sender
from actors.errors import LogFull, TriologError
from actors.events.dledger import DispatcherChanged
from actors.trees.ledger_setup import LedgerPaths
from wire.dledger.codes import VoteResult
from wire.dledger.rpc import (
    HeartBeatRequest,
    HeartBeatResponse,
    Response,
    VoteRequest,
    VoteResponse,
)

R = TypeVar("R")

# ---- votes and heartbeats ----

MEANT = "its own id is another, or it has no such peer"


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (HeartBeatResponse(code=200), ""),
        (HeartBeatResponse(code=403, term=9), ""),
        (HeartBeatResponse(code=9999), ""),
        (HeartBeatResponse(code=400), "answers UNKNOWN_GROUP: its group has another name"),
        (HeartBeatResponse(code=401), f"answers UNKNOWN_MEMBER: {MEANT}"),
        (HeartBeatResponse(code=402), "answers UNEXPECTED_MEMBER: it bears the same id itself"),
        (VoteResponse(code=200, vote_result=VoteResult.ACCEPT), ""),
        (
            VoteResponse(code=200, vote_result=VoteResult.REJECT_UNKNOWN_LEADER),
            f"answers UNKNOWN_MEMBER: {MEANT}",
        ),
        (
            VoteResponse(code=200, vote_result=VoteResult.REJECT_UNEXPECTED_LEADER),
            "answers UNEXPECTED_MEMBER: it bears the same id itself",
        ),
        (VoteResponse(code=400), "answers UNKNOWN_GROUP: its group has another name"),
    ],
)
def test_which_answers_are_refusals(response: Response, words: str) -> None:
    assert refusal_of(response) == words


def signs() -> PeerSigns:
    return PeerSigns(Sender(group="g", self_id="n0"))


def heard(found: PeerSigns, now_s: float, token: object, response: Response | None) -> PeerSign:
    found.heard(now_s, Answered(peer="n1", token=token, response=response))
    (sign,) = found.signs().signs
    return sign


def test_a_peer_is_silent_from_its_first_missing_answer_to_its_next_one() -> None:
    found = signs()
    assert found.signs().signs == ()
    sign = heard(found, 1.0, _Vote(1, "n1"), None)
    assert (sign.silent, sign.heard_s) == (True, None)
    sign = heard(found, 2.0, _Beat(2, "n1"), HeartBeatResponse(code=200))
    assert (sign.silent, sign.heard_s) == (False, 2.0)
    sign = heard(found, 3.0, _Vote(1, "n1"), None)
    assert not sign.silent, "of an earlier round, given up since"
    sign = heard(found, 3.0, _Transfer(9), None)
    assert not sign.silent, "a transfer takes its time"
    sign = heard(found, 4.0, _Beat(3, "n1"), None)
    assert (sign.silent, sign.heard_s) == (True, 2.0)


def test_a_peer_joins_until_it_votes_like_others() -> None:
    found = signs()
    accept = VoteAnswer(result=VoteResult.ACCEPT, term=1)
    refusal = VoteAnswer(result=VoteResult.REJECT_ALREADY_VOTED, term=1)
    answers = ((accept, False), (attrs.evolve(accept, is_partial=True), True), (refusal, True))
    said: list[tuple[Response | None, bool]] = [
        (vote_response(VoteRequest(), answer), joins) for answer, joins in answers
    ]
    said += [(None, True), (vote_response(VoteRequest(), accept), False)]
    for number, (response, joins) in enumerate(said):
        assert heard(found, 1.0, _Vote(number, "n1"), response).joins is joins


def test_a_peer_joins_for_as_long_as_its_heartbeats_say_so() -> None:
    """A leader asks for no votes: what they were is long past while it leads."""
    found = signs()
    partial = VoteAnswer(result=VoteResult.ACCEPT, term=1, is_partial=True)
    assert heard(found, 1.0, _Vote(1, "n1"), vote_response(VoteRequest(), partial)).joins
    assert heard(found, 1.0, _Beat(2, "n1"), HeartBeatResponse(code=200, joins=True)).joins
    assert heard(found, 1.0, _Beat(3, "n1"), None).joins
    assert not heard(found, 1.0, _Beat(4, "n1"), HeartBeatResponse(code=200)).joins


@pytest.mark.parametrize(("role", "joins"), [("CANDIDATE", True), ("FOLLOWER", False)])
def test_who_finds_a_leader_knows_no_more_who_joins(role: str, joins: bool) -> None:
    found = signs()
    partial = VoteAnswer(result=VoteResult.ACCEPT, term=1, is_partial=True)
    heard(found, 1.0, _Vote(1, "n1"), vote_response(VoteRequest(), partial))
    found.took(2.0, RoleChanged(session=3, role=Role[role], term=1, leader="n2"))
    (sign,) = found.signs().signs
    assert (sign.joins, sign.silent, sign.heard_s) == (joins, False, 1.0)


def test_a_refusal_is_reported_once_and_again_when_it_was_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = signs()
    for number, code in enumerate((400, 400, 401, 401, 400, 200, 400)):
        heard(found, 1.0, _Beat(number, "n1"), HeartBeatResponse(code=code))
    group, member = "answers UNKNOWN_GROUP: its group has another name", MEANT
    assert caplog.messages == [
        f"g: n1 refuses n0: {group}",
        f"g: n1 refuses n0: answers UNKNOWN_MEMBER: {member}",
        f"g: n1 refuses n0: {group}",
        f"g: n1 refuses n0: {group}",
    ]
    assert {(each.name, each.levelno) for each in caplog.records} == {
        ("triolog.dledger", logging.WARNING)
    }
    sign = heard(found, 9.0, _Beat(9, "n1"), None)
    assert (sign.silent, sign.refusal) == (True, group), "the last that it said"


# ---- connections ----


async def link(kit: Any) -> Link:
    found: Link = await kit.system.ref("/n1/peer").ask(
        Link, lambda reply: GetLink(reply_to=reply), timeout_s=1.0
    )
    return found


async def test_why_there_was_no_answer(autojump_clock: object) -> None:
    async with calling() as kit:
        assert await link(kit) == Link(connected=False, error="")
        await kit.call("nobody listens")
        await kit.answers(1)
        found = await link(kit)
        assert not found.connected
        assert "refused" in found.error
        listener = await kit.listen()
        await trio.sleep(5)
        await kit.call("slow", timeout_s=2.0)
        client = Client.of(await listener.accept())
        number, _ = await client.next_request()
        await kit.answers(2)
        assert await link(kit) == Link(connected=True, error="no answer within 2 s")
        await kit.call("wrong")
        number, _ = await client.next_request()
        await client.put(answer_frame(number, HeartBeatResponse(code=200))[:-2] + b"x}")
        await kit.answers(3)
        assert "JSON is malformed" in (await link(kit)).error


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "frame"),
        (bytes(12), "frame"),
        (b"", "Connection reset by peer"),
    ],
    ids=["an API", "classic replication", "who closes"],
)
async def test_a_port_where_somebody_else_listens(
    data: bytes, words: str, autojump_clock: object
) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        await kit.call("a", request(HeartBeatRequest))
        client = Client.of(await listener.accept())
        await client.next_request()
        if data:
            await client.put(data)
        else:
            client.stream.abort()
        await kit.answers(1)
        found = await link(kit)
        assert not found.connected
        assert words in found.error


# ---- whole groups ----


async def ask(group: Group, path: str, kind: type[R], message: Any) -> R:
    node = path.split("/")[1]
    found: R = (
        await group.systems[node]
        .ref(path)
        .ask(kind, lambda reply: message(reply_to=reply), timeout_s=5.0)
    )
    return found


async def sign_of(group: Group, node: str, peer: str, name: str = "ledger") -> PeerSign:
    path = LedgerPaths(f"/{node}/{name}").state_maintainer
    said = await ask(group, path, Signs, GetSigns)
    return next(sign for sign in said.signs if sign.peer == peer)


async def start_odd(group: Group, config: ClusterConfig, host: str, name: str) -> None:
    main = partial(run_member, config, name)
    group.systems[name] = await group.world.start_node(host, main)


async def test_a_member_that_calls_its_group_otherwise(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides know it: the leader, and who never finds one."""
    async with opened(started=False) as group:
        await group.start("n0", "n1")
        own = group.config.groups["ledger"]
        odd = attrs.evolve(group.config, groups={"other": attrs.evolve(own, name="other")})
        await start_odd(group, odd, "n2", "n2")
        leader = await group.leader()
        await trio.sleep(30)
        words = "answers UNKNOWN_GROUP: its group has another name"
        sign = await sign_of(group, leader, "n2")
        assert (sign.silent, sign.refusal) == (False, words)
        assert (await sign_of(group, "n2", leader, "other")).refusal == words
        warned = [each for each in caplog.messages if f"n2 refuses {leader}" in each]
        assert warned == [f"ledger: n2 refuses {leader}: {words}"], "once in half a minute"
        details = {
            each.detail for each in group.events(DispatcherChanged, leader) if each.peer == "n2"
        }
        assert "answered UNKNOWN_GROUP" in details
        assert "no answer" not in details


async def test_a_member_with_the_id_of_another(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(started=False) as group:
        await group.start("n0", "n1")
        leader = await group.leader()  # else who calls itself n1 may lead n0
        nodes = group.config.nodes
        odd = attrs.evolve(
            group.config, nodes={"n0": nodes["n0"], "n2": nodes["n1"], "n1": nodes["n2"]}
        )
        main = partial(run_member, odd, "n1")
        await group.world.start_node("n2", main)
        await trio.sleep(30)
        sign = await sign_of(group, leader, "n2")
        assert (sign.silent, sign.refusal) == (False, f"answers UNKNOWN_MEMBER: {MEANT}")
        # Who calls itself n1 says of n2 the same as n1 does, if that leads.
        warned = [each for each in caplog.messages if f"n2 refuses {leader}" in each]
        assert len(warned) == 1 + (leader == "n1")


async def test_a_member_whose_files_have_another_size(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, and so does its leader; neither more than once in a session."""
    async with opened(data_file_bytes=8192, started=False) as group:
        await group.start("n0", "n1")
        leader = await group.leader()
        odd = group_config(**{**SMALL, "data_file_bytes": 4096})
        await start_odd(group, odd, "n2", "n2")
        handler, dispatcher = group.paths("n2").entry_handler, group.paths(leader).dispatcher("n2")
        await trio.sleep(10)
        assert await ask(group, handler, Taking, GetTaking) == Taking(refusal="")
        for _ in range(4):
            done = await group.append(leader, bytes(1500))
        await trio.sleep(20)
        taking = await ask(group, handler, Taking, GetTaking)
        assert taking.refusal.endswith(
            " in files of 4096 bytes: its leader's data_file_bytes may be another"
        )
        found = await ask(group, dispatcher, Progress, GetProgress)
        assert found.refusal == f"takes no entries: {taking.refusal}"
        assert found.lag == done.last_index - found.matched > 0
        assert not (await sign_of(group, leader, "n2")).refusal, "votes and heartbeats are right"
        assert caplog.messages == [
            f"ledger: n2 cannot take what {leader} sends: {taking.refusal}",
            f"ledger: n2, which follows {leader}, {found.refusal}",
        ]


async def test_a_member_without_room_says_how_much_there_is(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await group.leader()
        name = next(each for each in group.names if each != leader)
        await group.append(leader, b"x")
        handler = group.paths(name).entry_handler
        group.world.node(name).disk.faults.fill(40.0)
        for _ in range(50):
            done = await group.append(leader, bytes(4000))
        await trio.sleep(5)
        said = (await ask(group, handler, Taking, GetTaking)).refusal
        assert said.startswith("no room: the disk of "), said
        assert said.endswith(" is more than 90% full (100%, 0 bytes free)")
        dispatcher = group.paths(leader).dispatcher(name)
        found = await ask(group, dispatcher, Progress, GetProgress)
        assert found.refusal == f"takes no entries: {said}"
        await group.until_shown(done.last_index)
        assert await ask(group, handler, Taking, GetTaking) == Taking(refusal="")
        assert (await ask(group, dispatcher, Progress, GetProgress)).refusal == ""


async def test_a_healthy_group_warns_of_nothing(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while members die, come back and catch up."""
    async with opened() as group:
        for _ in range(3):
            leader = await group.leader()
            await group.append(leader, b"x")
            await group.kill(leader)
            second = await group.leader()
            done = await group.append(second, b"y")
            await group.start(leader)
            await group.until_shown(done.last_index)
        words = ("refuses", "takes no", "ends each connection", "turned away")
        assert [each for each in caplog.messages if any(word in each for word in words)] == []


async def test_a_member_whose_store_takes_no_entries_says_why_until_there_is_a_leader(
    autojump_clock: object,
) -> None:
    """With every disk full nobody leads for long, and nothing else would tell why."""
    async with opened(data_file_bytes=4096) as group:
        leader = await group.leader()
        path = LedgerPaths(f"/{leader}/ledger").state_maintainer
        for name in group.names:
            group.world.node(name).disk.faults.fill(30.0)
        with pytest.raises(LogFull):
            while True:
                await group.append(leader, bytes(1000))
        await trio.sleep(0.1)
        assert "no room" in (await ask(group, path, Signs, GetSigns)).full
        await trio.sleep(60.0)
        assert await group.leader()
        assert (await ask(group, path, Signs, GetSigns)).full == ""


async def test_all_members_whose_disks_take_no_new_file_say_so(autojump_clock: object) -> None:
    """Each is elected in turn, for votes can be saved: to lead or follow clears no sign."""
    async with opened(data_file_bytes=4096) as group:
        leader = await group.leader()
        for name, operation in itertools.product(group.names, ("create", "prepare")):
            faults = group.world.node(name).disk.faults
            faults.fail(operation, errno.ENOSPC, path_part="/ledger/data/", times=10**6)
        with pytest.raises(LogFull):
            while True:
                await group.append(leader, bytes(1000))
        saying: set[str] = set()
        until_s = trio.current_time() + 300.0
        while saying != set(group.names):
            assert trio.current_time() < until_s, saying
            for name in group.names:
                with contextlib.suppress(TriologError):
                    await group.append(name, bytes(1000))
                path = LedgerPaths(f"/{name}/ledger").state_maintainer
                is_full = (await ask(group, path, Signs, GetSigns)).full
                (saying.add if is_full else saying.discard)(name)
            await trio.sleep(0.25)
