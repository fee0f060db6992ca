"""The other two members of a recorded group, as far as the replayed one needs them.

They vote for it in the terms that the recording says it led, take what it pushes, and are silent
otherwise. What they ask it themselves is the recording's, see `replay_kit`.
"""

from __future__ import annotations

from functools import partial

import attrs
import trio
from rpc_kit import Client, answer_frame

from actors.env import Network
from wire.dledger.codes import PushType, RequestCode, VoteResult
from wire.dledger.rpc import (
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    PushEntryRequest,
    PushEntryResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
    decode_request,
)


@attrs.define(eq=False)
class Peers:
    """See the module's text.

    Attributes:
        led_term: the term that the member is to lead; -1: none, they are silent.
        heard_term: the largest term that a heartbeat of its bore.
        transfers: LEADERSHIP_TRANSFERs that wait for the recording's answer.
    """

    led_term: int = -1
    heard_term: int = -1
    transfers: list[tuple[Client, int]] = attrs.field(factory=list)
    _silent: list[tuple[Client, int, VoteRequest]] = attrs.field(factory=list)

    async def listen(
        self, network: Network, host: str, port: int, task_status: trio.TaskStatus[None]
    ) -> None:
        """Serve at a peer's address for ever."""
        listener = await network.listen(host, port)
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                client = Client.of(await listener.accept())
                nursery.start_soon(partial(self._serve, client))

    async def let_lead(self, term: int) -> None:
        """From now on they vote for the member in that term, also where it asked before."""
        self.led_term = term
        asked, self._silent = self._silent, []
        for client, number, request in asked:
            await self._vote(client, number, request)

    async def _serve(self, client: Client) -> None:
        while (frame := await client.frame_or_end()) is not None:
            number = frame.header.opaque
            request, _ = decode_request(RequestCode(frame.header.code), frame.body)
            if isinstance(request, VoteRequest):
                await self._vote(client, number, request)
            elif isinstance(request, LeadershipTransferRequest):
                self.transfers.append((client, number))
            elif self.led_term >= 0:
                answer = self._answer(request)
                await client.put(answer_frame(number, answer))

    async def _vote(self, client: Client, number: int, request: VoteRequest) -> None:
        if request.term > self.led_term:
            self._silent.append((client, number, request))
            return
        good = request.term == self.led_term
        result = VoteResult.ACCEPT if good else VoteResult.REJECT_ALREADY_VOTED
        answer = VoteResponse(group=request.group, term=request.term, vote_result=result)
        await client.put(answer_frame(number, answer))

    def _answer(self, request: Request) -> Response:
        if isinstance(request, HeartBeatRequest):
            self.heard_term = max(self.heard_term, request.term)
            return HeartBeatResponse()
        assert isinstance(request, PushEntryRequest), request
        entries = request.entries
        last = entries[-1].index if entries else request.commit_index
        return PushEntryResponse(
            count=len(entries),
            end_index=last,
            group=request.group,
            index=None if request.type is PushType.COMMIT else entries[0].index,
            term=request.term,
        )

    async def answer_transfer(self, answer: LeadershipTransferResponse) -> None:
        """The transferee's answer, as recorded."""
        ((client, number),) = self.transfers
        self.transfers.clear()
        await client.put(answer_frame(number, answer))
