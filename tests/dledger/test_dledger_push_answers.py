"""An answer counts only if it is about what was asked; the answers are those of real versions."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
from dispatch_kit import Kit
from election_kit import END
from election_kit import Kit as Member
from group_kit import Group, opened
from test_dledger_actors_followers import push
from test_dledger_transfer import a_leader

from actors.dledger.core.member_state import Role
from actors.dledger.core.push_answers import READS_NOTHING, SPEAKS_N, misfit
from actors.dledger.core.push_effects import DispatcherState, Push, PushAnswer
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.election.election_requests import vote_answer
from actors.dledger.replication.entry_handler import EntryHandler
from actors.dledger.replication.foreign_leader import SENDS_NOTHING
from actors.dledger.replication.push_bodies import push_answer
from actors.dledger.rpc.peer_messages import GetTaking, Taking
from actors.errors import OutcomeUnknown
from actors.events.dledger import CommittedRose, PeerNotUnderstood
from wire.dledger.codes import PushType, RequestCode, ResponseCode, VoteResult
from wire.dledger.rpc import PushEntryRequest, PushEntryResponse, VoteResponse, decode_response

P, C = PushType, ResponseCode
GOLDEN = Path(__file__).parents[1] / "golden" / "dledger" / "push-answers.ndjson"
ROWS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
OF_L = [row for row in ROWS if "0.3.1.2" in row["versions"]]
OF_N = [row for row in ROWS if "0.4.0" in row["versions"]]
SETTLE_S = 30.0
TERM = 5


def push_of(row: dict[str, object], number: int = 1) -> Push:
    type_, first, last = P[str(row["type"])], row["first"], row["last"]
    assert isinstance(first, int)
    assert isinstance(last, int)
    return Push(number=number, type=type_, first=first, last=last, commit_index=-1)


def answer_of(row: dict[str, object]) -> PushAnswer:
    response, tolerated = decode_response(RequestCode.PUSH, str(row["answer"]).encode())
    answer = push_answer(response)
    assert not tolerated
    assert answer is not None
    return answer


@pytest.mark.parametrize("row", OF_L, ids=lambda row: row["case"])
def test_what_real_versions_answer_is_about_what_they_were_asked(row: dict[str, object]) -> None:
    assert misfit(push_of(row), answer_of(row), TERM) == ""


@pytest.mark.parametrize("row", OF_N, ids=lambda row: row["case"])
def test_nothing_that_0_4_0_answers_is(row: dict[str, object]) -> None:
    """By the keys that it alone writes, and without them where it says anything of its log."""
    answer = answer_of(row)
    assert misfit(push_of(row), answer, TERM).startswith(SPEAKS_N)
    bare = attrs.evolve(answer, foreign=False)
    names_none = row["type"] == "COMMIT" or answer.code is C.UNKNOWN_MEMBER
    assert (misfit(push_of(row), bare, TERM) == "") is names_none


@pytest.mark.parametrize(
    "other",
    [
        {"index": 3},
        {"index": 5},
        {"index": -1, "count": 0},
        {"index": 4, "count": 1},
        {"index": 4, "count": 3},
        {"term": 4},
        {"end": 4},
        {"code": C.INCONSISTENT_STATE, "index": -1, "count": 0},
        {"code": C.UNEXPECTED_ARGUMENT},
    ],
    ids=str,
)
def test_what_differs_from_the_push_is_no_answer_to_it(other: dict[str, object]) -> None:
    pushed = Push(number=1, type=P.APPEND, first=4, last=5, commit_index=-1)
    good = PushAnswer(code=C.SUCCESS, term=TERM, index=4, count=2, begin=0, end=5)
    assert misfit(pushed, good, TERM) == ""
    assert misfit(pushed, attrs.evolve(good, end=9), TERM) == "", "it has more"
    assert misfit(pushed, attrs.evolve(good, index=5, count=0), TERM) == "", "0.2.5 names the last"
    assert misfit(pushed, attrs.evolve(good, code=C.NOT_FOLLOWER, index=-1), TERM) == ""
    assert misfit(pushed, attrs.evolve(good, **other), TERM)  # type: ignore[arg-type]


def foreign(kit: Kit, row: dict[str, object], *, bears: bool) -> None:
    """The push that was sent last is answered as in that row."""
    pushed = kit.sent.pop(0)
    assert pushed.type is P[str(row["type"])]
    answer = attrs.evolve(answer_of(row), foreign=bears)
    kit.did(kit.dispatch.answered(kit.now_s, pushed, answer))


def reported(kit: Kit) -> list[PeerNotUnderstood]:
    return [each for each in kit.last.events if isinstance(each, PeerNotUnderstood)]


COMPARED = next(row for row in OF_N if row["type"] == "COMPARE")
COMMITTED = next(row for row in OF_N if row["type"] == "COMMIT")
REFUSED = next(row for row in OF_N if row["type"] == "APPEND")


@pytest.mark.parametrize("bears", [True, False], ids=["its keys", "its index"])
def test_a_compare_that_asked_for_nothing_matches_nothing(bears: bool) -> None:
    """A leader of one entry took the answer "I have what is before it" for the entry."""
    kit = Kit(end=0)
    foreign(kit, COMPARED, bears=bears)
    assert kit.last.matched is None
    assert (kit.state, kit.dispatch.matched) == (DispatcherState.COMPARE, -1)
    (event,) = reported(kit)
    assert event.reason == kit.dispatch.refusal
    assert event.said == "code SUCCESS, term 5, index -1, count 0, log 0 to 0"
    assert kit.last.deadline_s == kit.now_s + kit.dispatch.settings.foreign_pause_s
    kit.grow()
    assert not kit.sent, "it is left alone for a while"
    kit.tick()
    foreign(kit, COMPARED, bears=bears)
    assert not kit.last.events, "no news"
    kit.tick()
    kit.answer(kit.one(P.COMPARE, 1), C.INCONSISTENT_STATE, begin=-1, end=-1)
    kit.answer(kit.one(P.TRUNCATE, 0))
    assert (kit.dispatch.matched, kit.dispatch.refusal) == (0, ""), "another program by now"


@pytest.mark.parametrize("row", [COMMITTED, REFUSED], ids=["COMMIT", "APPEND"])
def test_a_peer_that_becomes_another_program_moves_nothing(row: dict[str, object]) -> None:
    """It had the log, and is started again with 0.4.0: what it says then is not about that."""
    kit = Kit()
    kit.append_state()
    if row is REFUSED:
        kit.grow()
    else:
        kit.tick()
    foreign(kit, row, bears=row is COMMITTED)
    assert (kit.last.matched, kit.dispatch.matched) == (None, 9)
    assert kit.state is DispatcherState.COMPARE
    assert kit.dispatch.refusal.startswith(SPEAKS_N if row is COMMITTED else READS_NOTHING)
    assert len(reported(kit)) == 1


def test_a_late_answer_is_not_judged() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow(2)
    first, second = kit.take(P.APPEND, P.APPEND)
    kit.answer(first, C.INCONSISTENT_STATE)
    assert kit.state is DispatcherState.COMPARE
    kit.answer(second, C.UNEXPECTED_ARGUMENT)
    assert kit.dispatch.refusal == ""


# ---- votes, heartbeats, transfers ----


def test_a_vote_in_another_term_is_none() -> None:
    kit = Member()
    number = kit.campaign()
    kit.answers(number, VoteResult.ACCEPT, VoteResult.ACCEPT, term=TERM - 1)
    assert kit.state.role is Role.CANDIDATE
    kit.lead()


def test_a_vote_beside_a_refusal_is_none() -> None:
    response = VoteResponse(code=C.UNKNOWN_GROUP, vote_result=VoteResult.ACCEPT, term=TERM)
    assert vote_answer(response).result is VoteResult.UNKNOWN


def test_a_heartbeat_followed_in_another_term_keeps_no_leader() -> None:
    kit = Member()
    kit.lead()
    begun_s = kit.now_s
    while kit.state.role is Role.LEADER:
        effects = kit.tick()
        assert kit.now_s <= begun_s + 2 * kit.election.settings.leak_s
        if effects.send_heartbeats is not None:
            number = effects.send_heartbeats.number
            kit.beat_answers(number, C.SUCCESS, C.SUCCESS, term=TERM - 1)


def test_a_transfer_that_succeeded_in_the_old_term_did_not() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1",)))
    assert kit.election.look_for_preferred(0.0, {"n1": 7}).hold_appends is True
    sent = kit.election.held(0.0, kit.state.session, END).send_transfer
    assert sent is not None
    effects = kit.election.transfer_answered(0.0, sent.number, C.SUCCESS, sent.term)
    assert (kit.state.role, effects.hold_appends) == (Role.LEADER, False)


# ---- members ----


def as_0_4_0(request: PushEntryRequest) -> PushEntryResponse:
    row = next(row for row in OF_N if request.type is P[row["type"]])
    response, _ = decode_response(RequestCode.PUSH, row["answer"].encode())
    assert isinstance(response, PushEntryResponse)
    given = {each: getattr(response, each) for each in response.__struct_fields__}
    return PushEntryResponse(**{**given, "term": request.term, "group": request.group})


async def test_nothing_is_committed_by_members_that_take_nothing(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def take(self: EntryHandler, asked: object) -> None:
        asked.reply_to.send(as_0_4_0(asked.request))  # type: ignore[attr-defined]

    monkeypatch.setattr(EntryHandler, "_take", take)
    async with opened() as group:
        leader = await group.leader()
        others = {name for name in group.names if name != leader}
        await group.until(lambda: len(group.events(PeerNotUnderstood, leader)) >= 2)
        with pytest.raises(OutcomeUnknown):
            await group.append(leader, b"x")
        await trio.sleep(SETTLE_S)
        said = group.events(PeerNotUnderstood, leader)
        assert {each.peer for each in said} == others
        assert len(said) == 2, "each once"
        assert not group.events(CommittedRose)
        warned = [each.getMessage() for each in caplog.records if SPEAKS_N in each.getMessage()]
        assert len(warned) == 2


async def refusal_of(group: Group, follower: str) -> str:
    taking = await group.ref(follower, "entry_handler").ask(
        Taking, lambda reply_to: GetTaking(reply_to=reply_to), timeout_s=5.0
    )
    assert isinstance(taking, Taking)
    return taking.refusal


async def test_a_follower_names_a_leader_that_it_cannot_read(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as group:
        leader = await group.leader()
        follower = next(name for name in group.names if name != leader)
        done = await group.append(leader, b"x")
        await group.until_shown(done.last_index)
        for fields, reason in (
            ({"type": P.COMPARE, "pre_log_index": 7, "pre_log_term": 1}, SPEAKS_N),
            ({"type": P.TRUNCATE, "pre_log_index": 0, "pre_log_term": -1}, SPEAKS_N),
            ({"type": P.APPEND}, SENDS_NOTHING),
        ):
            answer = await group.call(follower, push(group, follower, leader, **fields))
            assert answer.code == C.UNEXPECTED_ARGUMENT
            assert await refusal_of(group, follower) == f"{leader}, its leader, {reason}"
        reported = [(each.peer, each.reason) for each in group.events(PeerNotUnderstood, follower)]
        assert reported == [
            (leader, f"{leader}, its leader, {reason}") for reason in (SPEAKS_N, SENDS_NOTHING)
        ]
        assert any("cannot read what it is sent" in each.getMessage() for each in caplog.records)
        done = await group.append(leader, b"y")
        await group.until_shown(done.last_index)
        assert await refusal_of(group, follower) == "", "its leader's own pushes are read"
