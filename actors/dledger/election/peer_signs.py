"""What the answers to votes and heartbeats show of each peer: silence, refusals, impossible terms.

Source: the codes 400 to 402 of openmessaging/dledger, DLedgerServer.handle..., 0.3.1.2, where
upstream's caller drops them without a message; dledger.md 2.4, 4.2 and 4.4.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import attrs

from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import INDEX_NONE, TERM_LEAP_MAX, Role
from actors.dledger.election.election_requests import round_of, vote_answer
from actors.dledger.rpc.peer_messages import PeerSign, Signs
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Answered, Sender
from actors.events.dledger import TermRefused
from actors.storage.ledger.term_files import NEW_VOTE
from wire.dledger.codes import ResponseCode, VoteResult, response_code
from wire.dledger.rpc import HeartBeatResponse, Response, VoteResponse

_MEANT: Final = {
    ResponseCode.UNKNOWN_GROUP: "its group has another name",
    ResponseCode.UNKNOWN_MEMBER: "its own id is another, or it has no such peer",
    ResponseCode.UNEXPECTED_MEMBER: "it bears the same id itself",
}
_OF_VOTES: Final = {
    VoteResult.REJECT_UNKNOWN_LEADER: ResponseCode.UNKNOWN_MEMBER,
    VoteResult.REJECT_UNEXPECTED_LEADER: ResponseCode.UNEXPECTED_MEMBER,
}


LEADERLESS_S: Final = 10.0
"""The seconds after which a candidate first logs that it finds no leader, and the least time
between further lines about it.
"""

_LOGGER: Final = logging.getLogger("triolog.dledger")


@attrs.define
class Leaderless:
    """Logs that a candidate has found no leader for a while, and what keeps one from being elected.

    Otherwise nothing of an election would be seen in a node's log; upstream logs each of its
    rounds. A member that is no candidate (`candidate = false`) asks no peer, so it logs nothing.
    `PeerSigns` owns it.
    """

    _sender: Sender
    _since_s: float | None = attrs.field(default=None, init=False)  # a candidate since then
    _said_s: float = attrs.field(default=0.0, init=False)
    _said: str = attrs.field(default="", init=False)

    def took(self, now_s: float, role: RoleChanged) -> None:
        """Note a role; log that there is a leader, if it was logged that there is none."""
        if role.role is Role.CANDIDATE:
            if self._since_s is None:
                self._since_s = self._said_s = now_s
            return
        if self._said and self._since_s is not None:
            whom = "leads" if role.role is Role.LEADER else f"follows {role.leader}"
            self._warn(f"{whom}, after {now_s - self._since_s:.0f} s without a leader")
        self._since_s, self._said = None, ""

    def look(self, now_s: float, signs: Iterable[PeerSign], *, joins: bool, full: str = "") -> None:
        """Log what keeps this candidate from a leader, if it is due and has changed.

        Args:
            joins: whether this member is a provisional voter.
            full: why its store takes no entries, so that it cannot lead; "" if it takes them.
        """
        if self._since_s is None or now_s - self._said_s < LEADERLESS_S:
            return
        reason = self._reason(sorted(signs, key=lambda each: each.peer), joins=joins, full=full)
        if reason != self._said:
            self._said, self._said_s = reason, now_s
            self._warn(f"has found no leader for {now_s - self._since_s:.0f} s: {reason}")

    def _reason(self, signs: list[PeerSign], *, joins: bool, full: str) -> str:
        silent = [each.peer for each in signs if each.silent]
        refusing = [each.peer for each in signs if not each.silent and each.refusal]
        asked = [each.peer for each in signs if each.joins and not each.silent]
        joining = [self._sender.self_id] * joins + asked
        reasons = [f"it takes no entries ({full})"] if full else []
        if silent:
            reasons.append(f"{', '.join(silent)} {_verb(silent, 'does', 'do')} not answer")
        if refusing:
            reasons.append(f"{', '.join(refusing)} {_verb(refusing, 'refuses', 'refuse')} it")
        if joining:
            lack = _verb(joining, "is new or lacks its log", "are new or lack their logs")
            reasons.append(f"{', '.join(joining)} {lack}, which takes the votes of all")
        return "; ".join(reasons) or "the others answer, and elect nobody"

    def _warn(self, text: str) -> None:
        _LOGGER.warning("%s: %s %s", self._sender.group, self._sender.self_id, text)


def _verb(names: list[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def leap_text(refused: TermRefused) -> str:
    """Describe, for people, what is wrong with a peer's term, and what to do about it."""
    return (
        f"says term {refused.term}, which does not follow {refused.known}, the last known here, and"
        " is not believed: whichever of both differs from all other members has lost its vote:"
        f" stop it, and {NEW_VOTE}"
    )


def refusal_of(response: Response) -> str:
    """Describe, for people, why a peer refuses this member.

    Returns: "" if it does not refuse it, or refuses only this call.
    """
    code = response_code(response.code)
    if isinstance(response, VoteResponse) and response.vote_result in _OF_VOTES:
        code = _OF_VOTES[response.vote_result]
    meant = _MEANT.get(code)
    return "" if meant is None else f"answers {code.name}: {meant}"


@attrs.define
class PeerSigns:
    """What the answers have shown of each peer. The state maintainer owns it.

    Attributes:
        full: why the own store refused entries when it was last given some; "" if it took them. A
            new role does not clear it: a member that is elected may have as little room.
    """

    _sender: Sender
    full: str = attrs.field(default="", init=False)
    _end_index: int = attrs.field(default=INDEX_NONE, init=False)
    _signs: dict[str, PeerSign] = attrs.field(factory=dict, init=False)
    _leapt: dict[str, TermRefused] = attrs.field(factory=dict, init=False)
    _rounds: dict[str, int] = attrs.field(factory=dict, init=False)  # the newest that has ended
    _log: RefusalLog = attrs.field(
        default=attrs.Factory(lambda signs: RefusalLog(signs._sender.group), takes_self=True),
        init=False,
    )
    _leaderless: Leaderless = attrs.field(
        default=attrs.Factory(lambda signs: Leaderless(signs._sender), takes_self=True), init=False
    )

    @property
    def joining(self) -> tuple[str, ...]:
        """The peers that are provisional voters, by their last votes or heartbeats."""
        return tuple(peer for peer, sign in self._signs.items() if sign.joins and not sign.silent)

    def took(self, now_s: float, role: RoleChanged) -> None:
        """Note this member's new role; with a leader, forget which peers are provisional voters."""
        if role.role is not Role.CANDIDATE:
            signs = self._signs.items()
            self._signs = {peer: attrs.evolve(sign, joins=False) for peer, sign in signs}
        self._leaderless.took(now_s, role)

    def note_events(self, events: tuple[object, ...]) -> tuple[object, ...]:
        """Log each impossible term that the election has refused. Returns: the same events."""
        for event in events:
            if isinstance(event, TermRefused):
                self._leapt[event.peer] = event
                self._log.say(event.peer, f"{event.peer or 'a leader'} {leap_text(event)}")
        return events

    def grew(self, end_index: int) -> None:
        """Note the log's end. New entries show that the store takes entries again."""
        if end_index > self._end_index:
            self.full = ""
        self._end_index = end_index

    def heard(self, now_s: float, answered: Answered, *, joins: bool = False) -> None:
        """Note that a call to a peer has ended; log a new refusal, and an election that takes long.

        Args:
            joins: whether this member is a provisional voter.
        """
        self._hear(now_s, answered)
        self._leaderless.look(now_s, self._signs.values(), joins=joins, full=self.full)

    def _hear(self, now_s: float, answered: Answered) -> None:
        number, peer = round_of(answered.token), answered.peer
        if number is None or number < self._rounds.get(peer, 0):
            return  # an older call, which was given up, is no news
        self._rounds[peer] = number
        before = self._signs.get(peer)
        if answered.response is None:
            self._signs[peer] = PeerSign(
                peer=peer,
                silent=True,
                heard_s=None if before is None else before.heard_s,
                refusal="" if before is None else before.refusal,
                joins=before is not None and before.joins,
            )
            return
        refusal = refusal_of(answered.response) or self._leap_of(peer, answered.response.term)
        joins = before is not None and before.joins
        if isinstance(answered.response, HeartBeatResponse):
            joins = answered.response.joins
        elif isinstance(answered.response, VoteResponse):
            answer = vote_answer(answered.response)
            joins = answer.is_partial or (joins and answer.result is not VoteResult.ACCEPT)
        self._signs[peer] = PeerSign(
            peer=peer, silent=False, heard_s=now_s, refusal=refusal, joins=joins
        )
        if peer not in self._leapt:
            self._log.say(peer, refusal and f"{peer} refuses {self._sender.self_id}: {refusal}")

    def _leap_of(self, peer: str, term: int) -> str:
        """Describe, for people, what is still wrong with a peer's term; "" for nothing."""
        refused = self._leapt.get(peer)
        if refused is None:
            return ""
        if term <= refused.known + TERM_LEAP_MAX:
            del self._leapt[peer]
            return ""
        return leap_text(refused)

    def signs(self, unsaved_vote: str = "", joining: str = "") -> Signs:
        """Return the signs of each peer that was asked for something, and of this member itself."""
        signs = tuple(self._signs[peer] for peer in sorted(self._signs))
        return Signs(signs=signs, unsaved_vote=unsaved_vote, joining=joining, full=self.full)
