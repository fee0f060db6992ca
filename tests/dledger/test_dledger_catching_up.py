"""When a member that has forgotten its log counts again: once it has all that its leader had."""

from __future__ import annotations

import errno

import attrs
import pytest
from dispatch_kit import Kit as Leader
from election_kit import Kit as Member
from intake_kit import Kit as Follower
from intake_kit import entries

from actors.dledger.core.election_effects import Effects
from actors.dledger.core.member_state import LedgerEnd, Role, SavedVote
from actors.dledger.core.push_effects import Push
from actors.dledger.election.joining import Joining
from actors.dledger.replication.entry_handler import CatchingUp
from actors.dledger.rpc.rpc_messages import Sender
from actors.events.dledger import MembershipChanged
from actors.log_types import Membership
from actors.storage.ledger.member_opening import MemberNote
from wire.dledger.codes import PushType as P
from wire.dledger.codes import VoteResult as V
from wire.dledger.entry import Entry
from wire.dledger.rpc import PushEntryRequest

LOG = entries(0, 30, term=4)
SHARED = 19
"""So many entries of the follower's log are the leader's, and committed; the others are not."""
OTHERS = entries(SHARED, 30, term=3)


@attrs.define
class Pair:
    """n1, which leads term 5, and n0, which follows it: each push is answered as it is sent."""

    leader: Leader = attrs.field(factory=lambda: Leader(end=30))
    follower: Follower = attrs.field(factory=lambda: Follower(*LOG[:SHARED], *OTHERS))
    catching_up: CatchingUp = attrs.field(factory=CatchingUp)

    def __attrs_post_init__(self) -> None:
        self.catching_up.follow("n1", 5)

    def next(self) -> Push:
        """What the leader has sent, or will."""
        if not self.leader.sent:
            self.leader.tick()
        return self.leader.sent.pop(0)

    def answer(self, push: Push) -> None:
        """The follower takes it, and has it on its disk."""
        given: tuple[Entry, ...] = LOG[push.first : push.last + 1]
        token = self.follower.push(push.type, *given)
        self.catching_up.saw(
            PushEntryRequest(type=push.type, leader_id="n1", term=5, batch_entry=given)
        )
        if self.follower.ledger.log:
            self.follower.sync()
        effects = self.leader.dispatch.answered(
            self.leader.now_s, push, self.follower.answers[token]
        )
        self.leader.did(effects)

    def until_below(self, index: int) -> Push:
        """The first COMPARE of an entry below, which is on its way."""
        while (push := self.next()).first >= index:
            self.answer(push)
        assert push.type is P.COMPARE
        return push

    def what_counts(self) -> int:
        """How many entries the follower shares with the leader once it says that it has all."""
        intake = self.follower.intake
        while not self.catching_up.has(intake):
            self.answer(self.next())
        assert intake.matched is not None
        return intake.matched + 1


def test_the_first_compare_names_all_that_the_leader_has() -> None:
    assert Pair(follower=Follower()).what_counts() == len(LOG)


def test_a_search_that_the_incarnation_before_has_answered_says_nothing() -> None:
    """It had gone below what that life had vouched for."""
    pair = Pair()
    push = pair.until_below(SHARED - 1)
    pair.follower, pair.catching_up = Follower(), CatchingUp()
    pair.catching_up.follow("n1", 5)
    pair.leader.silence(push)
    assert pair.what_counts() == len(LOG)


def test_a_search_goes_on_in_the_next_session_under_the_same_leader() -> None:
    pair = Pair()
    push = pair.until_below(SHARED - 1)
    pair.follower.follow()
    pair.catching_up.follow("n1", 5)
    pair.answer(push)
    assert pair.what_counts() == len(LOG)


def test_another_leader_says_anew_what_it_has() -> None:
    pair = Pair()
    pair.answer(pair.next())
    pair.catching_up.follow("n2", 6)
    assert not pair.catching_up.has(pair.follower.intake)
    pair.answer(pair.next())
    pair.follower.intake.matched = 30
    assert not pair.catching_up.has(pair.follower.intake), "n1 does not lead term 6"


def test_it_is_said_once_in_a_session() -> None:
    pair = Pair(follower=Follower(*LOG))
    pair.answer(pair.next())
    assert pair.catching_up.has(pair.follower.intake)
    assert not pair.catching_up.has(pair.follower.intake)
    pair.catching_up.follow("n1", 5)
    assert pair.catching_up.has(pair.follower.intake), "who hears of it may have been elsewhere"


# ---- what its vote is worth ----


def member(membership: Membership) -> Member:
    """n0, which has missed its leader, with an empty log."""
    return Member(end=LedgerEnd(), membership=membership)


PARTIAL = pytest.mark.parametrize("membership", [Membership.NEW, Membership.FORGOT])


def grown(n0: Member, index: int) -> Effects:
    """As the store says it."""
    end = LedgerEnd(index=index, term=5) if index >= 0 else LedgerEnd()
    return n0.election.grew(n0.now_s, n0.state.session, end)


@PARTIAL
def test_a_follower_counts_once_it_holds_all_and_that_is_something(membership: Membership) -> None:
    n0 = member(membership)
    n0.hear("n1", 5)
    assert not grown(n0, 3).joined, "a part of it"
    assert not grown(n0, -1).joined
    assert not n0.election.caught_up(n0.now_s, n0.state.session).joined, "a log without entries"
    assert n0.state.membership is membership
    assert grown(n0, 0).joined
    assert n0.state.membership is Membership.FULL
    assert not grown(n0, 1).joined, "it is said once"


@PARTIAL
def test_what_it_held_in_another_session_says_nothing(membership: Membership) -> None:
    n0 = member(membership)
    n0.hear("n1", 5)
    before = n0.state.session
    n0.hear("n2", 6)
    n0.fence()
    n0.hear("n2", 6)
    assert not n0.election.caught_up(n0.now_s, before).joined
    assert not grown(n0, 7).joined
    assert n0.election.caught_up(n0.now_s, n0.state.session).joined


@PARTIAL
def test_it_may_have_voted_in_the_term_that_it_joins_in(membership: Membership) -> None:
    """With the vote that was lost its leader leads: a second one is for nobody else."""
    n0 = member(membership)
    n0.hear("n1", 5)
    n0.election.caught_up(n0.now_s, n0.state.session)
    effects = grown(n0, 0)
    assert effects.joined
    assert effects.persist == SavedVote(term=5, voted_for="n1")
    again = Member(vote=effects.persist, end=n0.state.end)
    said = again.asked_by("n2", 5, again.state.end).vote
    assert said is not None
    assert said.result is V.REJECT_ALREADY_VOTED


def test_a_vote_of_its_own_in_the_term_stays_what_it_is() -> None:
    n0 = member(Membership.NEW)
    n0.campaign()
    n0.hear("n1", 5)
    n0.election.caught_up(n0.now_s, n0.state.session)
    effects = grown(n0, 0)
    assert (effects.joined, effects.persist) == (True, None)
    assert n0.state.vote == SavedVote(term=5, voted_for="n0")


@PARTIAL
def test_who_leads_by_the_votes_of_all_lacks_nothing(membership: Membership) -> None:
    n0 = member(membership)
    number = n0.campaign()
    assert not n0.answers(number, V.ACCEPT, is_partial=True).joined
    assert not n0.answers(number, V.ACCEPT).joined
    assert n0.answers(number, None, V.ACCEPT).joined
    assert n0.state.role is Role.LEADER


def test_what_cannot_be_noted_is_begun_again_after_a_restart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[Membership] = []

    def take(membership: Membership) -> None:
        taken.append(membership)
        raise OSError(errno.ENOSPC, "no space")

    note = MemberNote(had_vote=lambda: True, membership=lambda: Membership.NEW, take=take)
    joining = Joining(Sender(group="ledger", self_id="n0"), note)
    assert joining.began(Membership.NEW) == (MembershipChanged(membership="new"),)
    assert joining.reason.startswith("is new: ")
    assert joining.joined() == (MembershipChanged(membership="full"),)
    assert (joining.reason, taken) == ("", [Membership.FULL])
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert line.startswith("ledger: n0 cannot note that its vote counts: ")
