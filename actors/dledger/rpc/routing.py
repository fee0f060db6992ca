"""Finds the member that a request is for among those that share a port, and its actor.

Source: openmessaging/dledger, DLedgerServer.handle... (the checks that begin each of them),
proxy/DLedgerProxy.java, dledger-all-0.3.1.2; dledger.md 2.4.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from actors.dledger.core.member_state import TERM_MAX
from actors.dledger.core.refusals import refusal
from actors.dledger.rpc.rpc_messages import Services
from actors.runtime import ActorRef
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    GetEntriesRequest,
    HeartBeatRequest,
    InstallSnapshotRequest,
    LeadershipTransferRequest,
    MetadataRequest,
    PushEntryRequest,
    Request,
    Response,
    VoteRequest,
)

OF_MEMBERS: Final = (VoteRequest, HeartBeatRequest, PushEntryRequest, InstallSnapshotRequest)
"""The classes of requests that only members send."""


class Directory:
    """The members that share one port: at least one, and each pair of group and member once."""

    def __init__(self, services: tuple[Services, ...]) -> None:
        self._services = services
        self._found: dict[tuple[str | None, str | None], Services] = {
            (each.group, each.member): each for each in services
        }
        # EachMemberOnce
        assert len(self._found) == len(services) > 0

    def find(self, request: Request) -> Services | None:
        """Return the member that `request` is for; None if it has to be answered with `refuse`."""
        if request.term > TERM_MAX:
            return None
        return self._found.get((request.group, request.remote_id))

    def refuse(self, request: Request) -> Response:
        """Return the answer to a request for none of these members, or of a term above TERM_MAX.

        Its code is UNKNOWN_MEMBER if no member at this port has that name, which upstream checks
        first; UNKNOWN_GROUP if it is not in that group; UNEXPECTED_ARGUMENT for the term. Its
        `leader_id` is the leader that the member of that group knows, or the only member here.
        """
        is_here = any(each.member == request.remote_id for each in self._services)
        code = ResponseCode.UNKNOWN_GROUP if is_here else ResponseCode.UNKNOWN_MEMBER
        if (request.group, request.remote_id) in self._found:
            code = ResponseCode.UNEXPECTED_ARGUMENT
        near = [each for each in self._services if each.group == request.group] or self._services
        leader = near[0].role_status.leader if len(near) == 1 else ""
        return refusal(request, code, leader)


def no_room(services: Services, request: Request) -> Response:
    """Return the refusal of a request for whose answer the port has no room."""
    return refusal(request, ResponseCode.LEADER_PENDING_FULL, services.role_status.leader)


def server_of(services: Services, request: Request) -> ActorRef[Any]:
    """Return the actor of a member that serves the request."""
    match request:
        case VoteRequest() | HeartBeatRequest() | MetadataRequest() | LeadershipTransferRequest():
            return services.state_maintainer
        case PushEntryRequest():
            return services.entry_handler
        case InstallSnapshotRequest():
            return services.state_machine_caller or services.entry_handler
        case AppendEntryRequest():
            return services.quorum_ack_checker
        case GetEntriesRequest():
            return services.entry_reader
        case _:
            assert_never(request)
