"""Terms that leave no room for later ones: none is taken from a peer, none is campaigned in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import trio
from election_kit import END, Kit
from group_kit import GROUP, opened
from rpc_kit import REQUESTS, Client, answer_frame, calling, request, serving

from actors.dledger.core.member_state import TERM_LEAP_MAX, TERM_MAX, Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from actors.dledger.election.election_requests import _Beat
from actors.dledger.election.peer_signs import PeerSigns
from actors.dledger.rpc.rpc_messages import Answered, Sender
from actors.events.dledger import TermRefused
from actors.events.remoting import RPCAnswerRefused, RPCFrameRefused
from wire.dledger.codes import ResponseCode, VoteResult
from wire.dledger.rpc import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushEntryRequest,
    Request,
    VoteRequest,
    request_code_of,
)

LONG_MAX = (1 << 63) - 1


@pytest.mark.parametrize("term", [TERM_MAX + 1, LONG_MAX])
@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
async def test_a_request_of_such_a_term_reaches_no_part(
    cls: type[Request], term: int, autojump_clock: object
) -> None:
    async with serving() as kit:
        client = await kit.connect()
        asked = request(cls, term=term)
        await client.ask(asked)
        _, answer = await client.answer_of(request_code_of(asked))
        assert answer.code == 411
        assert kit.asked == []
        assert [each.count for each in kit.seen(RPCFrameRefused)] == [1]
        await client.ask(request(cls, term=TERM_MAX))
        _, answer = await client.answer_of(request_code_of(asked))
        assert answer.code == 200


@pytest.mark.parametrize("term", [TERM_MAX + 1, LONG_MAX])
async def test_an_answer_of_such_a_term_is_none(term: int, autojump_clock: object) -> None:
    async with calling() as kit:
        listener = await kit.listen()
        for token in (1, 2):
            await kit.call(token)
        with trio.fail_after(600):
            client = Client.of(await listener.accept())
        numbers = [(await client.next_request())[0] for _ in range(2)]
        for number, said in zip(numbers, (term, TERM_MAX), strict=True):
            await client.put(answer_frame(number, HeartBeatResponse(code=403, term=said)))
        first, second = await kit.answers(2)
        assert first.response is None
        assert second.response is not None
        assert [each.count for each in kit.seen(RPCAnswerRefused)] == [1]


@pytest.mark.parametrize("term", [TERM_MAX, LONG_MAX])
def test_a_member_that_has_one_takes_no_later_term_by_itself(term: int) -> None:
    """Of a file that says so. It could not write the next one down."""
    kit = Kit(vote=SavedVote(term=term))
    number = kit.campaign()
    already = VoteResult.REJECT_ALREADY_VOTED
    kit.answers(number, already, already, term=term)
    for _ in range(10):
        kit.now_s += 100.0
        kit.election.tick(kit.now_s)
        kit.fence()
    assert kit.state.term == term


def test_below_it_terms_rise() -> None:
    kit = Kit(vote=SavedVote(term=TERM_MAX - 1))
    already = VoteResult.REJECT_ALREADY_VOTED
    kit.answers(kit.campaign(), already, already, term=TERM_MAX - 1)
    kit.campaign()
    assert kit.state.term == TERM_MAX


def test_nobody_takes_leadership_over_into_a_later_one() -> None:
    """It would be heard no more."""
    kit = Kit(vote=SavedVote(term=TERM_MAX))
    kit.hear("n1", TERM_MAX)
    asked = TransferAsked(token=1, transferer="n1", transferee="n0", term=TERM_MAX)
    effects = kit.election.transfer_requested(kit.now_s, asked, {})
    assert [each.code for each in effects.transfers] == [ResponseCode.TAKE_LEADERSHIP_FAILED]
    assert (kit.state.term, kit.state.role) == (TERM_MAX, Role.FOLLOWER)


def test_nobody_hands_leadership_over_into_a_later_one() -> None:
    settings = ElectionSettings(preferred_leaders=("n1",))
    kit = Kit(vote=SavedVote(term=TERM_MAX), settings=settings)
    kit.lead()
    asked = TransferAsked(token=1, transferer="n0", transferee="n1", term=TERM_MAX)
    effects = kit.election.transfer_requested(kit.now_s, asked, {"n1": 7})
    assert [each.code for each in effects.transfers] == [ResponseCode.TAKE_LEADERSHIP_FAILED]
    assert kit.election.look_for_preferred(kit.now_s, {"n1": 7}).hold_appends is None


def leap_by_vote(kit: Kit, term: int) -> None:
    answer = kit.asked_by("n1", term, END).vote
    assert answer is not None
    assert (answer.result, answer.term) == (VoteResult.UNKNOWN, 5)


def leap_by_heartbeat(kit: Kit, term: int) -> None:
    answer = kit.hear("n1", term).heartbeat
    assert answer is not None
    assert (answer.code, answer.term) == (ResponseCode.UNEXPECTED_ARGUMENT, 5)


def leap_by_a_voter(kit: Kit, term: int) -> None:
    kit.answers(kit.campaign(), VoteResult.REJECT_EXPIRED_VOTE_TERM, term=term)


def leap_by_the_end_of_a_voters_log(kit: Kit, term: int) -> None:
    kit.answers(kit.campaign(), VoteResult.REJECT_TERM_SMALL_THAN_LEDGER, term=term)


def leap_by_an_answer_to_a_leader(kit: Kit, term: int) -> None:
    beats = kit.lead().send_heartbeats
    assert beats is not None
    kit.beat_answers(beats.number, ResponseCode.EXPIRED_TERM, term=term)
    assert kit.state.role is Role.LEADER


def leap_by_a_push(kit: Kit, term: int) -> None:
    kit.last = kit.election.saw_term(kit.now_s, term)


LEAPS = {
    leap_by_vote: "n1",
    leap_by_heartbeat: "n1",
    leap_by_a_voter: "n1",
    leap_by_the_end_of_a_voters_log: "n1",
    leap_by_an_answer_to_a_leader: "n1",
    leap_by_a_push: "",
}
"""Every way in which a peer says a term, and whom the refusal names."""


@pytest.mark.parametrize("term", [200 + TERM_LEAP_MAX, 1 << 62, TERM_MAX])
@pytest.mark.parametrize(("leap", "peer"), LEAPS.items())
def test_a_term_that_no_elections_can_have_come_to_is_not_taken(
    leap: Callable[[Kit, int], None], peer: str, term: int
) -> None:
    """One message would leave the group few terms, or none, whoever sent it."""
    kit = Kit(vote=SavedVote(term=5))
    leap(kit, term)
    assert kit.last.events == (TermRefused(peer=peer, term=term, known=5),)
    for _ in range(10):  # nor later
        kit.tick()
        kit.fence()
    assert kit.state.term < 100
    kit.hear("n2", 100)
    assert (kit.state.term, kit.hear("n2", 100).events[0].leader) == (100, "n2")
    leap_by_a_push(kit, term)
    assert len(kit.last.events) == (peer == "n1")  # each is reported once
    assert kit.state.term == 100


@pytest.mark.parametrize(
    "leap", [leap_by_vote, leap_by_heartbeat, leap_by_a_push], ids=lambda leap: leap.__name__
)
def test_the_largest_that_they_can_is(leap: Callable[[Kit, int], None]) -> None:
    kit = Kit(vote=SavedVote(term=5))
    with contextlib.suppress(AssertionError):  # of the refusal
        leap(kit, 5 + TERM_LEAP_MAX)
    assert kit.state.term == 5 + TERM_LEAP_MAX


def test_a_group_that_an_older_version_let_leap_goes_on() -> None:
    """It took what came up to 2^62, and had no later term."""
    kit = Kit(vote=SavedVote(term=1 << 62, voted_for="n1"))
    already = VoteResult.REJECT_ALREADY_VOTED
    kit.answers(kit.campaign(), already, already, term=1 << 62)
    kit.lead()
    assert kit.state.term > 1 << 62


def test_a_peer_whose_term_leaps_is_named_until_it_says_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = PeerSigns(Sender(group="g", self_id="n0"))
    said = "says term 4611686018427387904, which does not follow 5, the last known here, and is not"

    def refusal(number: int, term: int) -> str:
        answer = HeartBeatResponse(code=403, term=term)
        found.heard(1.0, Answered(peer="n1", token=_Beat(number, "n1"), response=answer))
        (sign,) = found.signs().signs
        return sign.refusal

    assert refusal(1, 1 << 62) == ""  # the election judges it, and tells
    assert found.note_events((refused := TermRefused(peer="n1", term=1 << 62, known=5),)) == (
        refused,
    )
    (record,) = caplog.records
    assert record.getMessage().startswith(f"g: n1 {said} believed: ")
    assert refusal(2, 1 << 62).startswith(said)
    assert refusal(2, 6) == ""
    assert refusal(3, 1 << 62) == ""
    assert len(caplog.records) == 1


@pytest.mark.parametrize("cls", [VoteRequest, HeartBeatRequest, PushEntryRequest])
async def test_a_group_outlives_one_request_of_the_last_term(
    cls: type[Request], autojump_clock: object
) -> None:
    """Each member took it from the address of another, and had no later term to elect in."""
    async with opened() as group:
        first = await group.leader()
        await group.append(first, b"one")
        for name in group.names:
            by = next(other for other in group.names if other != name)
            names = {"group": GROUP, "remote_id": name, "local_id": by, "leader_id": by}
            end = {"ledger_end_term": 9} if cls is VoteRequest else {}
            await group.call(name, request(cls, term=TERM_MAX, **names, **end))
        for body in (b"two", b"three"):  # the last term had one election in it
            await group.kill(first)
            then = await group.leader(within_s=60.0)
            await group.append(then, body)
            await group.start(first)
            first = then
        assert await group.bodies(first) == [b"one", b"two", b"three"]
