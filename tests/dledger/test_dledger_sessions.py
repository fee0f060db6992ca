"""Sessions of a member: they rise over crashes, and are renewed where a part has forgotten one."""

from __future__ import annotations

from random import Random

from election_kit import Kit

from actors.dledger.core.election import Election
from actors.dledger.core.member_state import LedgerEnd, MemberState, Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.election.state_maintainer import ENDS_MAX, StoredEnds


def test_a_renewed_session_has_the_same_role_and_term() -> None:
    kit = Kit(members=1)
    kit.tick()
    session, term = kit.state.session, kit.state.term
    assert kit.state.role is Role.LEADER
    effects = kit.election.renew(kit.now_s)
    assert effects.role is not None
    assert (effects.role.session, effects.role.role) == (session + 1, Role.LEADER)
    assert (effects.role.term, effects.persist) == (term, None)


def test_a_candidate_has_nothing_to_renew() -> None:
    kit = Kit()
    session = kit.state.session
    effects = kit.election.renew(kit.now_s)
    assert (effects.role, kit.state.session) == (None, session)


def test_a_start_after_a_crash_begins_a_session_above_the_last() -> None:
    state = MemberState(
        self_id="n0", members=("n0", "n1", "n2"), vote=SavedVote(term=5), session=41
    )
    election = Election(settings=ElectionSettings(), state=state, rng=Random(1))
    effects = election.started(7.0)
    assert effects.role is not None
    assert (effects.role.session, effects.role.role, effects.role.term) == (42, Role.CANDIDATE, 5)
    assert not state.end_final, "the store has to say the end first"


def end(index: int, term: int = 1) -> LedgerEnd:
    return LedgerEnd(index=index, term=term)


def test_a_synced_member_ends_where_its_disk_does() -> None:
    ends = StoredEnds(True, end(-1, -1))
    assert ends.grew(end(3), -1) == end(-1, -1)
    assert ends.grew(end(9, 2), 2) == end(-1, -1), "the end at 2 was never reported"
    assert ends.grew(end(9, 2), 3) == end(3)
    assert ends.grew(end(9, 2), 9) == end(9, 2)
    assert ends.grew(end(6), 6) == end(6), "a cut"
    assert ends.grew(end(8, 4), 6) == end(6)
    for index in range(9, 9 + 3 * ENDS_MAX):
        assert ends.grew(end(index, 4), 6) == end(6)
    assert ends.grew(end(300, 5), 300) == end(300, 5)


def test_a_written_member_ends_where_its_log_does() -> None:
    ends = StoredEnds(False, end(-1, -1))
    assert ends.grew(end(3), -1) == end(3)
    assert ends.grew(end(2), -1) == end(2)
