"""The messages between a member's actors and its connections: calls to peers, requests to serve.

They are written with the module's name: `rpc_messages.Call` and so on.
"""

from __future__ import annotations

from typing import Any, TypedDict

import attrs

from actors.dledger.leader_status import LeaderStatus
from actors.runtime import ActorRef, ReplyTo
from wire.dledger.rpc import AppendEntryRequest, Request, Response


class Base(TypedDict):
    """The fields with which every request between members begins; see `wire.dledger.codes`."""

    group: str
    leader_id: str
    local_id: str
    remote_id: str
    term: int


@attrs.frozen(kw_only=True)
class Sender:
    """The names under which this member sends requests.

    Attributes:
        group: the group's name on the wire.
        self_id: this member's id in it.
    """

    group: str
    self_id: str

    def base(self, peer: str, leader: str, term: int) -> Base:
        """Return the base fields of a request to `peer`."""
        return Base(
            group=self.group, leader_id=leader, local_id=self.self_id, remote_id=peer, term=term
        )


@attrs.frozen(kw_only=True)
class Answered:
    """A call has ended. It comes once for each Call that was read.

    Attributes:
        response: the response; None if there is none, see `rpc.peer.PeerConnection`.
    """

    peer: str
    token: object
    response: Response | None


@attrs.frozen(kw_only=True)
class Call:
    """Send `request` to a peer, and its answer to `answer_to`.

    The actor that holds a connection to the peer takes it.

    Attributes:
        timeout_s: the seconds from the reading of this message within which the answer has to come.
        token: is returned in Answered unchanged, so that the caller recognises its call.
        answer_to: takes Answered among other messages. A caller bounds its own calls, and has a
            deadline of its own, because the connection's actor may be restarted.
    """

    request: Request
    timeout_s: float
    token: object
    answer_to: ActorRef[Any]

    def answer(self, peer: str, response: Response | None) -> None:
        """Send Answered to the caller."""
        self.answer_to.post(Answered(peer=peer, token=self.token, response=response))


@attrs.frozen(kw_only=True)
class Asked:
    """A connection asks the actor of this member that serves the request for a response.

    The request is for this member and its group. A `reply_to` may be kept and answered in any
    order; if it fails, the peer gets remoting code 1 with the error as its remark.

    Attributes:
        peer: the host that the connection comes from; the peer names itself in `request.local_id`.
    """

    request: Request
    reply_to: ReplyTo[Response]
    peer: str = ""


@attrs.frozen(kw_only=True)
class AskedAppends:
    """A connection asks the checker for responses to APPENDs that came together.

    All are for this member, and each has a body.

    Attributes:
        requests: two requests or more.
        reply_to: is answered once, with a response for each request.
    """

    requests: tuple[AppendEntryRequest, ...]
    reply_to: ReplyTo[tuple[Response, ...]]


@attrs.frozen(kw_only=True)
class Services:
    """One member of one group, with the actors to which its requests are routed.

    Attributes:
        group: the group's name on the wire.
        member: the member's own id in it.
        role_status: what the member publishes.
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
