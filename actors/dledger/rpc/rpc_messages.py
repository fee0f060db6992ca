"""What goes between a member's parts and its connections: calls to peers, and requests to serve.

Import them as `rpc_messages.Call` and so on.
"""

from __future__ import annotations

from typing import Any, TypedDict

import attrs

from actors.dledger.leader_status import LeaderStatus
from actors.runtime import ActorRef, ReplyTo
from wire.dledger.rpc import AppendEntryRequest, Request, Response


class Base(TypedDict):
    """The fields that every request between members begins with; see `wire.dledger.codes`."""

    group: str
    leader_id: str
    local_id: str
    remote_id: str
    term: int


@attrs.frozen(kw_only=True)
class Sender:
    """This member, as the requests that it sends say it.

    Attributes:
        group: the group's name on the wire.
        self_id: this member's id in it.
    """

    group: str
    self_id: str

    def base(self, peer: str, leader: str, term: int) -> Base:
        """The base of a request to `peer`."""
        return Base(
            group=self.group, leader_id=leader, local_id=self.self_id, remote_id=peer, term=term
        )


@attrs.frozen(kw_only=True)
class Answered:
    """A call has ended. Once for each Call that was read.

    Attributes:
        response: None: see `rpc.peer.PeerConnection`.
    """

    peer: str
    token: object
    response: Response | None


@attrs.frozen(kw_only=True)
class Call:
    """To who holds a connection to a peer: send `request`, and tell `answer_to` what came back.

    Attributes:
        timeout_s: seconds from when this is read to the answer at the latest.
        token: comes back as it is; the caller knows its call by it.
        answer_to: takes Answered among others. A caller bounds its own calls, and has a deadline of
            its own for when the connection's actor restarts.
    """

    request: Request
    timeout_s: float
    token: object
    answer_to: ActorRef[Any]

    def answer(self, peer: str, response: Response | None) -> None:
        """Tell the caller that it has ended."""
        self.answer_to.post(Answered(peer=peer, token=self.token, response=response))


@attrs.frozen(kw_only=True)
class Asked:
    """From a connection to the part of this member that serves the request.

    The addressee and the group are right. A `reply_to` may be kept and answered in any order; if it
    fails, the peer gets remoting code 1 with the error as its remark.

    Attributes:
        peer: the host that the connection comes from; `request.local_id` is what it says it is.
    """

    request: Request
    reply_to: ReplyTo[Response]
    peer: str = ""


@attrs.frozen(kw_only=True)
class AskedAppends:
    """As Asked, to the checker: APPENDs that came together, all for this member, each with a body.

    Attributes:
        requests: two or more.
        reply_to: answered once, when all of them are, with a response for each.
    """

    requests: tuple[AppendEntryRequest, ...]
    reply_to: ReplyTo[tuple[Response, ...]]


@attrs.frozen(kw_only=True)
class Services:
    """One member of one group, as those see it who route requests to it.

    Attributes:
        group: the group's name on the wire.
        member: the member's own id in it.
        role_status: see there.
        state_maintainer: serves VOTE, HEART_BEAT, METADATA, LEADERSHIP_TRANSFER.
        entry_handler: serves PUSH, and refuses INSTALL_SNAPSHOT without a state machine.
        quorum_ack_checker: serves APPEND.
        entry_reader: serves GET.
        state_machine_caller: serves INSTALL_SNAPSHOT; None without a state machine.
    """

    group: str
    member: str
    role_status: LeaderStatus
    state_maintainer: ActorRef[Any]
    entry_handler: ActorRef[Any]
    quorum_ack_checker: ActorRef[Any]
    entry_reader: ActorRef[Any]
    state_machine_caller: ActorRef[Any] | None = None
