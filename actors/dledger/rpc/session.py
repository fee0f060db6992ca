"""RPCSession serves the requests of one connection of a member or a client.

Every request goes to the actor of the member that serves it.

Upstream: openmessaging/dledger, DLedgerRpcNettyService.processRequest, dledger-all-0.3.1.2.

Differs:
- More GETs than READS_MAX get remoting code 2 (busy); one whose entry has no room in the port's
  budget is answered 503.
- APPENDs that came together go to the checker as one, and their answers are sent together.
- PULL is answered by code 3; upstream fails with code 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import attrs

from actors.dledger.rpc.routing import OF_MEMBERS, Directory, no_room, server_of
from actors.dledger.rpc.rpc_messages import Asked, AskedAppends, Services
from actors.remoting.connection import UNSENT_BYTES_MAX
from actors.remoting.requests import BUSY, UNANSWERED_MAX, Channel, Request
from actors.remoting.stream import SMALL_BYTES
from actors.runtime import ActorRef, MailboxFull, ReplyTo
from wire.dledger import rpc
from wire.dledger.rpc import (
    AppendEntryRequest,
    GetEntriesRequest,
    GetEntriesResponse,
    Response,
    decode_request,
    encode_body,
    request_code,
)
from wire.errors import RemoteProtocolError
from wire.remoting.frame import (
    REMOTING_CODE_NOT_SUPPORTED,
    REMOTING_SYSTEM_BUSY,
    REMOTING_SYSTEM_ERROR,
    encode_reply,
)

ENTRIES_UNANSWERED_MAX: Final = 4096
"""How many requests may wait for their answers on a connection that brings entries or is a
member's. A leader has 1000 pushes to a follower under way, and what waits is synced together: with
UNANSWERED_MAX, each sync would be for as few. Only members' addresses reach this."""
READS_MAX: Final = 16
"""How many GETs may be unanswered, as each answer is an entry of up to 4 MiB. Upstream's clients
wait for the answer to each.
"""


def read_cost_bytes(answer: Response) -> int:
    """Return how many bytes the answer to a GET holds while it is encoded.

    These are the bytes of its entries and of their Base64; 0 without entries.
    """
    if not isinstance(answer, GetEntriesResponse) or not answer.entries:
        return 0
    size_bytes = sum(each.size for each in answer.entries)
    return size_bytes + size_bytes * 4 // 3 + SMALL_BYTES


@attrs.define(eq=False)
class RPCSession:
    """`Session` of `actors.remoting`. See the module's text."""

    _directory: Directory
    _channel: Channel
    version: int = attrs.field(default=0, init=False)
    unanswered_max: int = attrs.field(default=UNANSWERED_MAX, init=False)
    _reads: int = attrs.field(default=0, init=False)
    _appends: list[Request] = attrs.field(factory=list, init=False)
    _append_bodies: list[AppendEntryRequest] = attrs.field(factory=list, init=False)
    _appends_for: Services | None = attrs.field(default=None, init=False)  # the member they are for

    def serve(self, request: Request) -> None:
        header = request.header
        code = request_code(header.code)
        if code is None:
            request.refuse(REMOTING_CODE_NOT_SUPPORTED, f"request code {header.code}: unknown")
            return
        try:
            asked, loose = decode_request(code, request.body)
        except RemoteProtocolError as error:
            request.refuse(REMOTING_SYSTEM_ERROR, str(error))
            return
        request.body = b""
        self._channel.tolerated += loose and not request.loose
        self._route(request, asked)

    def step_ended(self) -> None:
        """Give the APPENDs that came together to the checker as one."""
        services, appends, bodies = self._appends_for, self._appends, self._append_bodies
        if not appends:
            return
        assert services is not None
        self._appends_for, self._appends, self._append_bodies = None, [], []
        checker = services.quorum_ack_checker
        if len(appends) == 1:
            self._ask(checker, appends[0], bodies[0])
            return
        reply_to: ReplyTo[tuple[Response, ...]] = ReplyTo.local(
            partial(self._appended, appends), asked=checker
        )
        asked = AskedAppends(requests=tuple(bodies), reply_to=reply_to)
        if not reply_to.answered and not checker.post(asked):
            reply_to.fail(MailboxFull(BUSY))

    def encode(self, request: Request, answer: Response) -> bytes:
        return encode_reply(request.header, encode_body(answer))

    def _route(self, request: Request, asked: rpc.Request) -> None:
        services = self._directory.find(asked)
        if services is None:
            refusal = self._directory.refuse(asked)
            whom = f"group {asked.group}, member {asked.remote_id}"
            self._channel.refused(request.header, f"for {whom}: {refusal.code}")
            _answer(request, refusal)
            return
        if isinstance(asked, OF_MEMBERS):
            self._channel.prove()
            self.unanswered_max = ENTRIES_UNANSWERED_MAX
        if isinstance(asked, AppendEntryRequest) and asked.body is not None:
            if services is not self._appends_for:
                self.step_ended()
                self._appends_for = services
                self.unanswered_max = ENTRIES_UNANSWERED_MAX
            self._appends.append(request)
            self._append_bodies.append(asked)
        elif isinstance(asked, GetEntriesRequest):
            self._read(services, request, asked)
        else:
            self._ask(server_of(services, asked), request, asked)

    def _ask(self, server: ActorRef[Any], request: Request, asked: rpc.Request) -> None:
        reply_to: ReplyTo[Any] = request.bound_to(server)
        message = Asked(request=asked, reply_to=reply_to, peer=self._channel.address.host)
        if not request.answered and not server.post(message):
            request.fail(MailboxFull(BUSY))

    def _appended(self, appends: list[Request], answers: tuple[Response, ...] | Exception) -> None:
        each: Sequence[Response | Exception]
        each = (answers,) * len(appends) if isinstance(answers, Exception) else answers
        take = self._channel.take_answer  # nobody else has these requests, who might answer them
        for request, answer in zip(appends, each, strict=True):
            take(request, answer)

    def _read(self, services: Services, request: Request, asked: GetEntriesRequest) -> None:
        channel = self._channel
        if self._reads >= READS_MAX or channel.unsent_bytes >= UNSENT_BYTES_MAX:
            request.refuse(REMOTING_SYSTEM_BUSY, BUSY)
            return
        self._reads += 1
        reader = services.entry_reader
        reply_to: ReplyTo[Response] = ReplyTo.local(
            partial(self._has_read, services, request, asked), asked=reader
        )
        message = Asked(request=asked, reply_to=reply_to, peer=channel.address.host)
        if not reply_to.answered and not reader.post(message):
            reply_to.fail(MailboxFull(BUSY))

    def _has_read(
        self,
        services: Services,
        request: Request,
        asked: GetEntriesRequest,
        answer: Response | Exception,
    ) -> None:
        self._reads -= 1
        if isinstance(answer, Exception):
            request.fail(answer)
        elif request.reserve(read_cost_bytes(answer)):
            _answer(request, answer)
        else:
            _answer(request, no_room(services, asked))


def _answer(request: Request, answer: Response) -> None:
    """Answer a request with the pair that `RPCSession.encode` takes."""
    reply_to: ReplyTo[Any] = request
    reply_to.send(answer)
