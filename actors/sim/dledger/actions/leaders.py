"""Leadership that changes hands at an operator's word, a leader that does not hear of it, and
members that die at the worst moment: about when a sync ends, or while a log is cut.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import trio

from actors.config import DLedgerGroup
from actors.env import Address
from actors.events.dledger import LedgerTruncated, RoleChanged
from actors.sim.actions.action import Action, Ground, PairAction
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
    """An operator asks the leader of each group to hand over to the node, from the other's machine:
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


SYNC_WAIT_S: Final = 10.0
CUT_WAIT_S: Final = 15.0
"""A leader that is back hears of the next one, and has its log compared, within so long."""
ALONE_S: Final = 4.0
"""So long the leader is cut off at least: clients still append there, and the others elect."""


class KillAfterSync(Action[LedgerRunner]):
    """A leader is killed `extra` seconds after a sync of its log has begun, about when it ends and
    before a quorum can have answered: what it holds may be committed, or not.
    """

    name = "kill_after_sync"
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 0.01)

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        leader = runner.groups.leader(runner.ledgers[0].name)
        if leader is None:
            return
        disk, begun = runner.cluster.world.node(leader).disk, trio.Event()

        def see(paths: Sequence[str]) -> None:
            if any(runner.log_part in path for path in paths):
                begun.set()

        disk.on_sync = see
        with trio.move_on_after(SYNC_WAIT_S):
            await begun.wait()
        if disk.on_sync is see:
            disk.on_sync = lambda paths: None
        if not begun.is_set():
            return
        await trio.sleep(disk.sync_duration_s() * 0.5 + fault.extra)
        if runner.is_on(leader):
            runner.began(fault)
            await runner.cluster.kill(leader)
            await trio.sleep(fault.for_s)
            await runner.up(leader)


class KillInCut(Action[LedgerRunner]):
    """The leader is cut off, and comes back with a tail that nobody else has. Whoever has to cut
    its log first then is killed `extra` seconds after it knows.
    """

    name = "kill_in_cut"
    chance = 0.4
    most = 2
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.choice([0.0, rng.uniform(0.0, 0.02)])

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        leader = runner.groups.leader(runner.ledgers[0].name)
        if leader is None:
            return
        begun, cutting = trio.Event(), [""]
        watches = runner.cluster.world.on_event

        def see(seen: SimEvent) -> None:
            if isinstance(seen.event, LedgerTruncated) and not begun.is_set():
                cutting[0] = seen.node
                begun.set()

        watches.append(see)
        runner.cluster.cut(leader)
        await trio.sleep(ALONE_S + fault.for_s)
        runner.cluster.heal(leader)
        runner.mended("heal", leader)
        with trio.move_on_after(CUT_WAIT_S):
            await begun.wait()
            await trio.sleep(fault.extra)
        watches.remove(see)
        node = cutting[0]
        if node and runner.is_on(node):
            runner.began(fault)
            await self.end(runner, node)
            await trio.sleep(fault.for_s)
            await runner.up(node)

    async def end(self, runner: LedgerRunner, node: str) -> None:
        """How it dies."""
        await runner.cluster.kill(node)


class PowerLossInCut(KillInCut):
    """The same, but its machine loses power."""

    name = "power_loss_in_cut"

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.unsteady

    async def end(self, runner: LedgerRunner, node: str) -> None:
        await runner.cluster.power_loss(node)
