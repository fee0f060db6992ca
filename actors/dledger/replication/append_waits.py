"""The appends that a leader has taken: where their entries are, and how each is answered."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.dledger.replication import outcomes
from actors.dledger.replication.append_messages import Committed
from actors.log_types import Chain
from actors.runtime import ReplyTo
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import AppendEntryRequest, AppendEntryResponse, Response


@attrs.define
class RPCAnswer:
    """Answers one APPEND over the wire, of one entry.

    Attributes:
        term, leader: stand in the answer.
    """

    request: AppendEntryRequest
    reply_to: ReplyTo[Response]
    term: int
    leader: str

    @property
    def answered(self) -> bool:
        return self.reply_to.answered

    def send(self, value: Committed) -> bool:
        index, pos = value.first_index, value.positions[0]
        return self.reply_to.send(_response(self, self.request, ResponseCode.SUCCESS, index, pos))

    def fail(self, error: Exception) -> bool:
        first = getattr(error, "first", None)
        index = -1 if first is None else first
        return self.reply_to.send(_response(self, self.request, outcomes.code_of(error), index, -1))


@attrs.define
class RPCAnswers:
    """Answers APPENDs that came together over the wire, once each of them has its response.

    Attributes:
        term, leader: stand in the answers.
    """

    requests: tuple[AppendEntryRequest, ...]
    reply_to: ReplyTo[tuple[Response, ...]]
    term: int
    leader: str
    _responses: dict[int, Response] = attrs.field(factory=dict, init=False)  # by position

    def part(self, first: int, behind: int) -> RPCAnswersPart:
        """Return what answers some of the APPENDs, which became one append.

        Args:
            first, behind: the position of the first among all of them, and the one after the last.
        """
        return RPCAnswersPart(self, first, behind)

    def refuse(self, position: int, error: Exception) -> bool:
        """Answer one APPEND of which nothing was written. Returns: the same as `add`."""
        response = _response(self, self.requests[position], outcomes.code_of(error), -1, -1)
        return self.add({position: response})

    def add(self, responses: dict[int, Response]) -> bool:
        """Add responses, by position. Returns: False if nobody waits for them any more."""
        found = self._responses
        found.update(responses)
        if len(found) < len(self.requests):
            return not self.reply_to.answered
        return self.reply_to.send(tuple(found[position] for position in range(len(found))))


@attrs.define
class RPCAnswersPart:
    """Answers some APPENDs of an `RPCAnswers` that became one append."""

    _all: RPCAnswers
    _first: int
    _behind: int

    @property
    def answered(self) -> bool:
        return self._all.reply_to.answered

    def send(self, value: Committed) -> bool:
        to, first, index = self._all, self._first, value.first_index
        return to.add(
            {
                first + n: _response(
                    to, to.requests[first + n], ResponseCode.SUCCESS, index + n, pos
                )
                for n, pos in enumerate(value.positions)
            }
        )

    def fail(self, error: Exception) -> bool:
        to, code, index = self._all, outcomes.code_of(error), getattr(error, "first", None)
        return to.add(
            {
                position: _response(
                    to,
                    to.requests[position],
                    code,
                    -1 if index is None else index + position - self._first,
                    -1,
                )
                for position in range(self._first, self._behind)
            }
        )


def _response(
    to: RPCAnswer | RPCAnswers,
    request: AppendEntryRequest,
    code: ResponseCode,
    index: int,
    pos: int,
) -> AppendEntryResponse:
    """Return the response to one APPEND.

    It copies the request's base fields only if nothing was written, as upstream's does.
    """
    written = index >= 0
    return AppendEntryResponse(
        code=code,
        group=request.group,
        index=index,
        leader_id=to.leader or None,
        local_id=None if written else request.local_id,
        pos=pos,
        remote_id=None if written else request.remote_id,
        term=to.term if written else request.term,
    )


AnswerTo: TypeAlias = ReplyTo[Committed] | RPCAnswer | RPCAnswersPart


@attrs.define
class AppendWait:
    """One append that a leader has taken.

    Attributes:
        count: how many entries it has.
        appends: how many requests became this append.
        first, last: the indexes of its entries once the store has answered them; -1 before.
        positions: where each entry stands in the log, in bytes.
        chain: see `Append`.
    """

    answer_to: AnswerTo
    count: int
    deadline_s: float
    appends: int = 1
    chain: Chain | None = None
    first: int = -1
    last: int = -1
    positions: tuple[int, ...] = ()

    def done(self, copies: int, results: tuple[object, ...]) -> None:
        """Answer a committed append. Args: as the attributes of Committed."""
        self.answer_to.send(
            Committed(
                first_index=self.first,
                last_index=self.last,
                positions=self.positions,
                copies=copies,
                results=results,
            )
        )


@attrs.define
class AppliedResults:
    """A state machine's results, kept until the appends of their entries are answered.

    Appends are answered in the order of their entries; results of earlier entries are dropped.
    """

    _by_index: dict[int, object] = attrs.field(factory=dict)  # in the order of indexes

    def add(self, last: int, results: tuple[object, ...]) -> None:
        """Add results.

        Args:
            last: the index of the entry that the last of `results` is for.
        """
        self._by_index.update(zip(range(last - len(results) + 1, last + 1), results, strict=True))

    def take(self, first: int, last: int) -> tuple[object, ...]:
        """Remove and return the results of these entries; () without a state machine."""
        held = self._by_index
        if not held:
            return ()
        found = tuple(held.get(index) for index in range(first, last + 1))
        while held and (lowest := next(iter(held))) <= last:
            del held[lowest]
        return found

    def forget(self) -> None:
        """Drop all results: no append waits for them."""
        self._by_index.clear()
