"""One `Election` in a script's hand: n0, started at 0 s, its store answering when the script says.

member members=3 term=5 vote=n1 end=7/3 fenced=true
tick | wait SECONDS | campaign | lead | due | state
fenced END | grew END | disk full|free | saw-term TERM
vote-from NAME term=6 end=7/3 | answer NAME RESULT term=5
heartbeat NAME term=5 | beat NAME CODE term=-1
transfer FROM TO term=5 watermark=7 index=7 | held END | taken CODE | prefer NAME=INDEX ...
"""

from __future__ import annotations

from random import Random
from typing import Any

from dledger_words import TURNS_MAX, end_of, end_text

from actors.dledger.core.election import Election
from actors.dledger.core.election_effects import Effects
from actors.dledger.core.member_state import MemberState, Role, SavedVote
from actors.dledger.core.settings import CompatSettings, ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from actors.dledger.core.votes import VoteAnswer, VoteAsked
from wire.dledger.codes import ResponseCode, VoteResult


class Member:
    """See the module's text."""

    def __init__(
        self,
        compat: CompatSettings,
        members: int = 3,
        term: int = 5,
        vote: str = "",
        end: str = "7/3",
        fenced: bool = True,
        preferred: str = "",
    ) -> None:
        state = MemberState(
            self_id="n0",
            members=tuple(f"n{i}" for i in range(members)),
            vote=SavedVote(term=term, voted_for=vote),
            end=end_of(end),
        )
        settings = ElectionSettings(preferred_leaders=tuple(filter(None, preferred.split(","))))
        self.election = Election(settings=settings, state=state, rng=Random(1), compat=compat)
        self.now_s = 0.0
        self.due_s: float | None = None
        self.round = self.beats = self.taker = 0
        self.transfers = 0
        self.lines = self.did(self.election.started(0.0))
        if fenced:
            self.lines = self.do_fenced()

    def made(self) -> list[str]:
        return self.do_state()

    def did(self, effects: Effects) -> list[str]:
        """What one input asked for, in the order in which it is to be done."""
        self.due_s = effects.deadline_s
        lines = []
        if effects.persist is not None:
            vote = f", vote for {effects.persist.voted_for}" if effects.persist.voted_for else ""
            lines.append(f"remember term {effects.persist.term}{vote}")
        if effects.role is not None:
            role = effects.role
            of = f" of {role.leader}" if role.role is Role.FOLLOWER else ""
            lines.append(f"session {role.session}: {role.role.name}{of} in term {role.term}")
        if effects.hold_appends is not None:
            lines.append("hold appends" if effects.hold_appends else "take appends again")
        if effects.vote is not None:
            lines.append(f"vote: {effects.vote.result.name}, term {effects.vote.term}")
        if effects.heartbeat is not None:
            said = effects.heartbeat
            lines.append(f"answer {said.code.name}" + f", term {said.term}" * (said.term >= 0))
        for answer in effects.transfers:
            lines.append(f"transfer {answer.token}: {answer.code.name}, term {answer.term}")
        if effects.ask_votes is not None:
            ask = effects.ask_votes
            self.round = ask.number
            lines.append(f"ask for votes in term {ask.term}, log ends at {end_text(ask.end)}")
        if effects.send_heartbeats is not None:
            self.beats = effects.send_heartbeats.number
            lines.append(f"heartbeats in term {effects.send_heartbeats.term}")
        if effects.send_transfer is not None:
            send = effects.send_transfer
            self.taker = send.number
            lines.append(f"{send.transferee} is to take over from index {send.index} on")
        return lines or ["nothing"]

    # ---- the clock ----

    def do_tick(self) -> list[str]:
        assert self.due_s is not None, "nothing is due"
        self.now_s = max(self.now_s, self.due_s)
        return self.did(self.election.tick(self.now_s))

    def do_wait(self, seconds: str) -> list[str]:
        until_s, lines, turns = self.now_s + float(seconds), [], 0
        while self.due_s is not None and self.due_s <= until_s:
            turns += 1
            assert turns < TURNS_MAX, "it spins"
            at_s = max(self.now_s, self.due_s)
            lines += [f"{at_s:.3f} s: {line}" for line in self.do_tick() if line != "nothing"]
        self.now_s = until_s
        return lines or ["nothing"]

    def do_due(self) -> list[str]:
        return ["never" if self.due_s is None else f"in {self.due_s - self.now_s:.3f} s"]

    def do_campaign(self) -> list[str]:
        """Until the member asks for votes."""
        lines: list[str] = []
        while not any("ask for votes" in line for line in lines):
            assert len(lines) < TURNS_MAX, "no campaign"
            lines += [line for line in self.do_tick() if line != "nothing"]
        return lines

    def do_lead(self) -> list[str]:
        """By everybody's vote."""
        lines = self.do_campaign()
        for peer in self.election.state.peers:
            if self.election.state.role is not Role.LEADER:
                lines += [line for line in self.do_answer(peer, "ACCEPT") if line != "nothing"]
        return [*lines, *self.do_fenced()] if lines else lines

    def do_state(self) -> list[str]:
        state = self.election.state
        vote, leader = state.vote.voted_for or "nobody", state.leader or "unknown"
        return [f"{state.role.name} in term {state.term}, vote for {vote}, leader {leader}"]

    # ---- the store ----

    def do_fenced(self, end: str = "") -> list[str]:
        state = self.election.state
        where = end_of(end) if end else state.end
        lines = self.did(self.election.fenced(self.now_s, state.session, where))
        return [line for line in lines if line != "nothing"]

    def do_grew(self, end: str) -> list[str]:
        session = self.election.state.session
        return self.did(self.election.grew(self.now_s, session, end_of(end)))

    def do_disk(self, how: str) -> list[str]:
        return self.did(self.election.lead_allowed(self.now_s, how == "free"))

    # ---- others ----

    def do_saw_term(self, term: str) -> list[str]:
        return self.did(self.election.saw_term(self.now_s, int(term)))

    def do_vote_from(self, name: str, term: int = 5, end: str = "7/3") -> list[str]:
        asked = VoteAsked(candidate=name, term=term, end=end_of(end))
        return self.did(self.election.vote_requested(self.now_s, asked))

    def do_answer(self, name: str, result: str, term: int | None = None) -> list[str]:
        answer = None
        if result != "none":
            known = self.election.state.term if term is None else term
            answer = VoteAnswer(result=VoteResult[result], term=known)
        return self.did(self.election.vote_answered(self.now_s, self.round, name, answer))

    def do_heartbeat(self, name: str, term: int = 5) -> list[str]:
        return self.did(self.election.heartbeat(self.now_s, name, term))

    def do_beat(self, name: str, code: str, term: int = -1) -> list[str]:
        known = ResponseCode[code]
        return self.did(self.election.heartbeat_answered(self.now_s, self.beats, name, known, term))

    def do_transfer(self, transferer: str, transferee: str, **options: Any) -> list[str]:
        self.transfers += 1
        watermark = options.pop("watermark", 7)
        asked = TransferAsked(
            token=self.transfers,
            transferer=transferer,
            transferee=transferee,
            **{"term": self.election.state.term, **options},
        )
        marks = {transferee: watermark}
        return self.did(self.election.transfer_requested(self.now_s, asked, marks))

    def do_held(self, end: str) -> list[str]:
        session = self.election.state.session
        return self.did(self.election.held(self.now_s, session, end_of(end)))

    def do_taken(self, code: str) -> list[str]:
        known = ResponseCode[code]
        term = self.election.state.term + 1
        return self.did(self.election.transfer_answered(self.now_s, self.taker, known, term))

    def do_prefer(self, **watermarks: int) -> list[str]:
        return self.did(self.election.look_for_preferred(self.now_s, watermarks))
