"""Leadership that an operator transfers, a leader that does not learn of its successor, and members
that die at bad moments: about when a sync ends, or while a log is truncated.
"""

from __future__ import annotations

import random
from typing import ClassVar, Final

import trio

from actors.config import DLedgerGroup
from actors.env import Address
from actors.events.dledger import LedgerTruncated, RoleChanged
from actors.sim.actions.action import Action, PairAction
from actors.sim.actions.runner import Seen, came
from actors.sim.actions.script import Fault
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.world import SimEvent
from wire.buffer import NEED_DATA
from wire.dledger.codes import RequestCode, ResponseCode
from wire.dledger.election_rpc import LeadershipTransferRequest
from wire.dledger.rpc import decode_response, encode_body
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Decoder, encode_frame
from wire.remoting.header import Header

ANSWER_S: Final = 5.0


class TransferLeader(PairAction[LedgerRunner]):
    """An operator asks the leader of each group to transfer leadership to the node, with upstream's
    request on the group's own port, from the machine of the fault's other node.
    """

    name = "transfer"
    most = 4

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        for group in runner.ledgers:
            leader = runner.cluster.leader(group.name)
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
                    return  # the connection ended without an answer
                decoder.receive_data(data)
            response, _ = decode_response(RequestCode.LEADERSHIP_TRANSFER, frame.body)
            if response.code == ResponseCode.SUCCESS:
                runner.note("transferred", f"{fault.node} from {leader}")
        except (OSError, trio.BrokenResourceError, RemoteProtocolError):
            pass
        except trio.ClosedResourceError:
            pass  # the machine that asked lost its power
        finally:
            network.end(silently=False)


class Depose(TransferLeader):
    """Leadership of one group is transferred, and when the node begins to take over, the old leader
    is cut off from all members: it still believes that it leads, and clients still reach it.
    """

    name = "depose"
    most = 3

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        group = runner.rng(fault).choice(runner.ledgers)
        leader = runner.cluster.leader(group.name)
        if leader is None or leader == fault.node or not runner.is_on(fault.others[0]):
            return
        known = runner.terms.get(group.name, 0)

        def takes_over(seen: Seen) -> bool:
            match seen:
                case SimEvent(event=RoleChanged(term=term), path=path):
                    return term > known and path.split("/")[1:3] == [fault.node, group.name]
            return False

        with runner.watching(takes_over) as begun, trio.move_on_after(ANSWER_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask, runner, fault, group, leader)
                await begun.wait()
                runner.cluster.cut(leader)
                nursery.cancel_scope.cancel()
        if begun.is_set():
            runner.began(fault)
            await trio.sleep(fault.for_s)
            runner.cluster.heal(leader)
            runner.mended("heal", leader)


SYNC_WAIT_S: Final = 10.0
CUT_WAIT_S: Final = 15.0
"""How long a leader that is connected again may take to learn of its successor and to have its log
compared."""
ALONE_S: Final = 4.0
"""The least time for which the leader is cut off: clients still append to it, and the others elect
another."""


class KillAfterSync(Action[LedgerRunner]):
    """A leader is killed `extra` seconds after a sync of its log has begun, about when the sync
    ends and before a quorum can have answered. Its newest entries may be committed, or not.
    """

    name = "kill_after_sync"
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 0.01)

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        leader = runner.cluster.leader(runner.ledgers[0].name)
        if leader is None:
            return
        disk = runner.cluster.disk(leader)
        with disk.syncing(runner.log_part) as begun:
            await came(begun, SYNC_WAIT_S)
        if begun.is_set():
            await trio.sleep(disk.sync_duration_s() * 0.5 + fault.extra)
            await runner.strike(fault, leader)


class KillInCut(Action[LedgerRunner]):
    """The leader is cut off, and comes back with entries that no other member has. The first member
    that has to truncate its log is killed `extra` seconds after it has noticed.
    """

    name = "kill_in_cut"
    nodes_min = 2
    chance = 0.4
    most = 2
    restarts = True
    how: ClassVar[str] = "kill"

    def extra(self, rng: random.Random) -> float:
        return rng.choice([0.0, rng.uniform(0.0, 0.02)])

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        leader = runner.cluster.leader(runner.ledgers[0].name)
        if leader is None:
            return
        cutting: list[str] = []

        def cuts(seen: Seen) -> bool:
            is_cut = isinstance(seen, SimEvent) and isinstance(seen.event, LedgerTruncated)
            cutting.extend([seen.node] * is_cut)
            return is_cut

        with runner.watching(cuts) as begun:
            runner.cluster.cut(leader)
            await trio.sleep(ALONE_S + fault.for_s)
            runner.cluster.heal(leader)
            runner.mended("heal", leader)
            with trio.move_on_after(CUT_WAIT_S):
                await begun.wait()
                await trio.sleep(fault.extra)
        if cutting:
            await runner.strike(fault, cutting[0], self.how)


class PowerLossInCut(KillInCut):
    """As KillInCut, but the member's machine loses power."""

    name = "power_loss_in_cut"
    how = "power"
    cuts_power = True
