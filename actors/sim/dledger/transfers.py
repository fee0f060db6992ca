"""Leadership that changes hands at an operator's word, and a leader that does not hear of it."""

from __future__ import annotations

from typing import Final

import trio

from actors.config import DLedgerGroup
from actors.env import Address
from actors.events.dledger import RoleChanged
from actors.sim.action import PairAction
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.script import Fault
from actors.sim.world import SimEvent
from wire.dledger.codes import RequestCode, ResponseCode
from wire.dledger.election_rpc import LeadershipTransferRequest
from wire.dledger.rpc import decode_response, encode_body
from wire.errors import RemoteProtocolError
from wire.remoting.frame import NEED_DATA, Decoder, Header, encode_frame

ANSWER_S: Final = 5.0


class TransferLeader(PairAction[LedgerRunner]):
    """An operator asks whoever leads each group to hand over to the node, from the other's machine:
    one request of upstream's on the groups' own port.
    """

    name = "transfer"
    most = 4

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        for group in runner.ledgers:
            leader = runner.groups.leader(group.name)
            if leader is None or leader == fault.node or not runner.is_on(fault.others[0]):
                continue
            runner.began(fault)
            with trio.move_on_after(ANSWER_S):
                await self._ask(runner, fault, group, leader)

    async def _ask(
        self, runner: LedgerRunner, fault: Fault, group: DLedgerGroup, leader: str
    ) -> None:
        term = runner.terms.get(group.name, 0)
        request = LeadershipTransferRequest(
            group=group.name,
            remote_id=leader,
            local_id=leader,
            leader_id=leader,
            term=term,
            transfer_id=leader,
            transferee_id=fault.node,
        )
        network = runner.cluster.world.network.open(fault.others[0])
        address = Address(runner.cluster.config.nodes[leader], group.port)
        try:
            stream = await network.connect(address.host, address.port)
            receive, send = stream.halves()
            header = Header(code=RequestCode.LEADERSHIP_TRANSFER, opaque=1)
            await send.send_all(encode_frame(header, encode_body(request)))
            decoder = Decoder()
            while (frame := decoder.next_frame()) is NEED_DATA:
                data = await receive.receive_some(1 << 16)
                if not data:
                    return  # it ended without an answer
                decoder.receive_data(data)
            response, _ = decode_response(RequestCode.LEADERSHIP_TRANSFER, frame.body)
            if response.code == ResponseCode.SUCCESS:
                runner.note("transferred", f"{fault.node} from {leader}")
        except (OSError, trio.BrokenResourceError, RemoteProtocolError):
            pass
        except trio.ClosedResourceError:
            pass  # the machine that asked went off
        finally:
            network.end(silently=False)


class Depose(TransferLeader):
    """The same of one group, and when the node has begun to take over, the leader is cut off from
    all members: it goes on believing that it leads, and clients still reach it.
    """

    name = "depose"
    most = 3

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        group = runner.rng(fault).choice(runner.ledgers)
        leader = runner.groups.leader(group.name)
        if leader is None or leader == fault.node or not runner.is_on(fault.others[0]):
            return
        begun, watches = trio.Event(), runner.cluster.world.on_event
        term = runner.terms.get(group.name, 0)

        def see(seen: SimEvent) -> None:
            now = seen.event.term if isinstance(seen.event, RoleChanged) else -1
            if now > term and seen.path.split("/")[1:3] == [fault.node, group.name]:
                begun.set()

        watches.append(see)
        with trio.move_on_after(ANSWER_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask, runner, fault, group, leader)
                await begun.wait()
                runner.cluster.cut(leader)
                nursery.cancel_scope.cancel()
        watches.remove(see)
        if begun.is_set():
            runner.began(fault)
            await trio.sleep(fault.for_s)
            runner.cluster.heal(leader)
            runner.mended("heal", leader)
