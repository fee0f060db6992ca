"""Terms that leave no room for later ones: none is taken from a peer, none is campaigned in."""

from __future__ import annotations

import pytest
import trio
from election_kit import Kit
from rpc_kit import REQUESTS, Client, answer_frame, calling, request, serving

from actors.dledger.core.member_state import TERM_MAX, Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from actors.events.dledger import RPCAnswerRefused, RPCFrameRefused
from wire.dledger_codes import ResponseCode, VoteResult
from wire.dledger_rpc import HeartBeatResponse, Request, request_code_of

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
