"""The questions that a member answers later; the election knows each by its token."""

from __future__ import annotations

from typing import Final

import attrs

from actors.dledger.core.election_effects import Effects
from actors.dledger.core.leader_proof import LeaderProof
from actors.dledger.election import election_requests as requests
from actors.dledger.replication.append_messages import ReadIndex
from actors.dledger.rpc.rpc_messages import Asked
from actors.dledger.session_messages import LeaderProven, ProveLeader
from actors.errors import Overloaded
from actors.runtime import ReplyTo

WAITING_MAX: Final = 10_000
"""How many fresh reads may wait for an index, and how many for a proof; more are refused."""


@attrs.define
class OpenQuestions:
    """The open questions of the state maintainer."""

    _transfers: dict[int, Asked] = attrs.field(factory=dict, init=False)
    _proofs: dict[int, ReplyTo[LeaderProven]] = attrs.field(factory=dict, init=False)
    _token: int = attrs.field(default=0, init=False)

    def transfer(self, asked: Asked) -> int:
        """Keep a request to hand the leadership over. Returns: its token."""
        self._token += 1
        self._transfers[self._token] = asked
        return self._token

    def proof(self, asked: ProveLeader, proof: LeaderProof) -> int | None:
        """Keep a question whether this member leads.

        Args:
            proof: collects the tokens; those of questions that were given up are removed from it.

        Returns: its token; None if it was refused.
        """
        if len(self._proofs) >= WAITING_MAX:
            self._proofs = {n: each for n, each in self._proofs.items() if not each.answered}
            proof.keep(self._proofs)
        if len(self._proofs) >= WAITING_MAX:
            asked.reply_to.fail(_overloaded())
            return None
        self._token += 1
        self._proofs[self._token] = asked.reply_to
        return self._token

    def answer(self, effects: Effects) -> None:
        """Send the answers that these effects have."""
        for answer in effects.transfers:
            self._transfers.pop(answer.token).reply_to.send(requests.transfer_response(answer))
        for proven in effects.proven:
            reply_to = self._proofs.pop(proven.token, None)
            if reply_to is not None:  # else it was given up, and forgotten
                reply_to.send(LeaderProven(term=proven.term))


@attrs.define
class OpenReads:
    """The fresh reads that ask a leader for its read index."""

    _waiting: list[ReplyTo[ReadIndex]] = attrs.field(factory=list, init=False)

    def add(self, reply_to: ReplyTo[ReadIndex]) -> None:
        """Keep a question for the next answer, or refuse it if too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            self._waiting = [each for each in self._waiting if not each.answered]
        if len(self._waiting) >= WAITING_MAX:
            reply_to.fail(_overloaded())
        else:
            self._waiting.append(reply_to)

    def answer(self, term: int, index: int | None) -> None:
        """Answer all questions with this leader's term and index; without an index they wait on."""
        if index is not None:
            for reply_to in self._waiting:
                reply_to.send(ReadIndex(term=term, index=index))
            self._waiting.clear()

    def fail(self, error: Exception) -> None:
        """Fail all questions: this member does not lead any more."""
        for reply_to in self._waiting:
            reply_to.fail(error)
        self._waiting.clear()


def _overloaded() -> Overloaded:
    return Overloaded(f"{WAITING_MAX} fresh reads wait already")
