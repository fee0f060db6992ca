"""The appends that a leader has taken: who made each, where it lies, how it is answered."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import attrs

from actors.dledger.replication import outcomes
from actors.dledger.replication.append_messages import Committed
from actors.log_types import Chain
from actors.runtime import ReplyTo
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import AppendEntryRequest, AppendEntryResponse, Response


class Answers(Protocol):
    """Where the outcome of an append goes: to a caller in process, or over the wire."""

    @property
    def answered(self) -> bool:
        """Nobody waits for it any more."""

    def send(self, value: Committed) -> bool: ...
    def fail(self, error: Exception) -> bool: ...


@attrs.define
class RPCAnswer:
    """A client's APPEND over the wire: one entry.

    Attributes:
        term, leader: of the answer.
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
    """To clients' APPENDs that came together: they leave together, once each has its response.

    Attributes:
        term, leader: of the answers.
    """

    requests: tuple[AppendEntryRequest, ...]
    reply_to: ReplyTo[tuple[Response, ...]]
    term: int
    leader: str
    _responses: dict[int, Response] = attrs.field(factory=dict, init=False)  # by position

    def part(self, first: int, behind: int) -> RPCAnswersPart:
        """To those that are one append; `first`, `behind`: their positions."""
        return RPCAnswersPart(self, first, behind)

    def refuse(self, position: int, error: Exception) -> bool:
        """Nothing of that one was written."""
        response = _response(self, self.requests[position], outcomes.code_of(error), -1, -1)
        return self.add({position: response})

    def add(self, responses: dict[int, Response]) -> bool:
        """False: nobody waits for them any more."""
        found = self._responses
        found.update(responses)
        if len(found) < len(self.requests):
            return not self.reply_to.answered
        return self.reply_to.send(tuple(found[position] for position in range(len(found))))


@attrs.define
class RPCAnswersPart:
    """To some of `RPCAnswers` that are one append."""

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
    """Upstream's: only where nothing was written it copies all base fields of the request."""
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
    """One caller's append.

    Attributes:
        count: of its entries.
        appends: that it stands for, made by as many requests.
        first, last: their indexes once the store has said them, -1 before.
        positions: of each, in bytes.
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
        """It is committed. Args: as in Committed."""
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
    """What a state machine gave for entries, until the appends that they are of are answered.

    Appends are answered in the order of their entries; what lies before is nobody's any more.
    """

    _by_index: dict[int, object] = attrs.field(factory=dict)  # in the order of indexes

    def add(self, last: int, results: tuple[object, ...]) -> None:
        """Args: last: index of the entry that the last of `results` is for."""
        self._by_index.update(zip(range(last - len(results) + 1, last + 1), results, strict=True))

    def take(self, first: int, last: int) -> tuple[object, ...]:
        """The results of these entries, the next that are asked for; () without a state machine."""
        held = self._by_index
        if not held:
            return ()
        found = tuple(held.get(index) for index in range(first, last + 1))
        while held and (lowest := next(iter(held))) <= last:
            del held[lowest]
        return found

    def forget(self) -> None:
        """Nobody waits for any."""
        self._by_index.clear()
