"""Notices a leader whose pushes this member cannot read, because it speaks another dialect.

Nothing of it reaches the log: an APPEND of dialect N has its entries under another key, COMPARE and
TRUNCATE have none, and a push without entries is refused with UNEXPECTED_ARGUMENT, as upstream's
followers do. If it goes on, a warning is logged here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from actors.dledger.core.push_answers import SPEAKS_N
from actors.dledger.core.push_effects import PushAnswer
from actors.dledger.core.refusals import refusal
from actors.dledger.replication.push_bodies import push_response
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Sender
from actors.events.dledger import PeerNotUnderstood
from actors.readable import counted
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import PushEntryRequest, Response

SENDS_NOTHING: Final = "sends what holds no entry, as a leader of another dialect does"


@attrs.define
class ForeignLeader:
    """See the module's text.

    Attributes:
        refusal: what the leader sends, for people; "" if this member can read it.
    """

    _sender: Sender
    refusal: str = attrs.field(default="", init=False)
    _log: RefusalLog = attrs.field(
        default=attrs.Factory(lambda self: RefusalLog(self._sender.group), takes_self=True),
        init=False,
    )

    def forget(self) -> None:
        """Begin a session."""
        self.refusal = ""

    def answer(
        self,
        request: PushEntryRequest,
        answer: PushAnswer,
        leader: str,
        emit: Callable[[PeerNotUnderstood], None],
    ) -> Response:
        """Return the answer to a push of `leader`, which this member follows.

        If the leader has begun to speak another dialect, log it and emit PeerNotUnderstood.
        """
        if answer.code is not ResponseCode.UNEXPECTED_ARGUMENT:
            if answer.code is ResponseCode.SUCCESS:
                self.refusal = ""
            return push_response(request, answer)
        is_n = request.pre_log_index is not None or request.pre_log_term is not None
        what = f"{leader}, its leader, {SPEAKS_N if is_n else SENDS_NOTHING}"
        if what != self.refusal:
            self.refusal, me = what, self._sender.self_id
            self._log.say(leader, f"{me} cannot read what it is sent: {what}")
            push = "none" if request.type is None else request.type.name
            said = (
                f"type {push}, {counted(len(request.entries), 'entry', 'entries')},"
                f" pre-log {request.pre_log_index}"
            )
            emit(PeerNotUnderstood(peer=leader, reason=what, said=said))
        return ill_formed(request, leader)


def ill_formed(request: PushEntryRequest, leader: str) -> Response:
    """Return the answer to a push without entries: upstream's after an exception, with no range."""
    return refusal(request, ResponseCode.UNEXPECTED_ARGUMENT, leader)
