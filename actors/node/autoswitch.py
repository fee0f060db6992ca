"""An auto-switch group on a running node: the calls of the node, as messages to its actors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.broker.core.replica import DRIFT
from actors.broker.replicas_manager import Message, ReplicaView
from actors.config import AutoSwitchGroup
from actors.control.members import GroupMembers
from actors.group_status import GroupStatus
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.ha.autoswitch.messages import LookNow
from actors.ha.autoswitch.replica_names import ReplicaNames
from actors.ha.autoswitch.role_owner import OwnedRole
from actors.ha.core.role_effects import RoleState, RoleView
from actors.ha.core.states import HAConnectionState
from actors.log_types import GoodRange
from actors.node.autoswitch_promotion import Promotion
from actors.node.classic_repair import ClassicRepair, log_range
from actors.node.commit_log_part import CommitLogPart
from actors.node.part import STATE_LOOK_S
from actors.node.status import commit_log_status
from actors.runtime import ActorRef
from actors.storage.commitlog.pull_service import Pulled
from wire.api import frames

NO_LEASE: Final = "NO LEASE: it acknowledges nothing until a controller answers"


@attrs.define(eq=False, kw_only=True)
class AutoSwitchPart(CommitLogPart):
    """One replica's part in an auto-switch group; implements `Part`.

    Attributes:
        owned: the role that its controllers gave it.
        epochs: its log's history.
        replica: what its manager publishes.
        manager: speaks with the controllers.
        brokers: by node, where brokers and clients reach it, "HOST:PORT".
    """

    file_group: AutoSwitchGroup
    owned: OwnedRole
    epochs: EpochsView
    replica: ReplicaView
    manager: ActorRef[Message]
    brokers: Mapping[str, str]

    how_it_is_led: ClassVar[str] = "its controllers elect its master, `promote` has them do so"

    @property
    def has_lease(self) -> bool:
        """Whether no other replica can be master now, by the clocks' stated drift."""
        return trio.current_time() < self.replica.lease_until_s

    async def _read_fresh(self, start: int, max_bytes: int) -> Pulled:
        """Implements `CommitLogPart`: only the master knows what was acknowledged.

        It has a controller confirm that it is still master, by an answer to a question that was
        asked after this read came: a lease is not enough, as controllers that see a master's
        connection end elect another one at once. All that it had when it became master may have
        been acknowledged, so a read shows no less.
        """
        asked_s = trio.current_time()
        with trio.move_on_after(self.file_group.append_timeout_s):
            while self.is_master and not self.is_confirmed(asked_s):
                self.manager.offer(LookNow())
                await trio.sleep(STATE_LOOK_S)
            if self.is_master:
                await self.wait_acknowledged(self.epochs.opened_bytes - 1)
                pulled = await self._read(start, max_bytes)
                if self.is_confirmed(asked_s):
                    return pulled
        if not self.is_master:
            where = f"ask its master, {self.master}" if self.master else "it has no master"
            text = f"{self.node} does not know what is fresh in {self.name}: {where}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        text = f"{self.node}: no controller of {self.name} has said that it is still its master"
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)

    def is_confirmed(self, asked_s: float) -> bool:
        """Whether a controller has answered a question that was asked after this time."""
        lease_s = self.file_group.controller_heart_beat_timeout_s * (1 - DRIFT)
        return self.is_open and self.replica.lease_until_s >= asked_s + lease_s

    async def promote(self, node: str | None, force: bool) -> dict[str, Any]:
        """Implements `NodeHandle.promote`."""
        if force:
            text = f"{self.name} takes no --force: controllers elect of the sync state set alone"
            raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
        return await Promotion(
            group=self.file_group,
            brokers=self.brokers,
            members=GroupMembers(own=self, links=self.links, group=self.name),
            manager=self.manager,
            answer_timeout_s=self.config.answer_timeout_s,
        ).run(node)

    # ---- looking ----

    async def status(self) -> GroupStatus:
        """Return the group's entry of `NodeHandle.status`."""
        ha, offsets, rest = await self._seen()
        view = self.role_status.view
        client = None if ha is None else ha.client
        follows = client is not None and client.state is HAConnectionState.TRANSFER
        if view.state is RoleState.FOLLOWING and not follows:
            view = attrs.evolve(view, state=RoleState.CONNECTING)
        if not view.reason and self.replica.reason:
            view = attrs.evolve(view, reason=self.replica.reason)
        details = self._details(view)
        found = commit_log_status(
            self.file_group,
            ha,
            offsets,
            view,
            attrs.asdict(self.counts),
            details=details,
            remarks=self._remarks(),
            **rest,
        )
        if not found.is_open or self.has_lease:
            return found
        return attrs.evolve(found, is_open=False, troubles=(NO_LEASE, *found.troubles))

    def _details(self, view: RoleView) -> dict[str, Any]:
        told, replica = self.owned.told, self.replica
        lease_s = replica.lease_until_s - trio.current_time()
        return {
            "broker_id": replica.broker_id,
            "controllers": replica.step.value,
            "in_sync": [] if told is None else sorted(told.in_sync),
            "set_epoch": None if told is None else told.in_sync_epoch,
            "lease_s": round(lease_s, 3) if self.is_master and lease_s > 0 else None,
            "epochs": [[each.number, each.start_bytes] for each in view.history],
        }

    def _remarks(self) -> Iterator[str]:
        told = self.owned.told
        if told is not None:
            names = self._names()
            shown = (names.name_of(each) or f"id {each}" for each in sorted(told.in_sync))
            yield f"in sync: {', '.join(shown)}"

    def _names(self) -> ReplicaNames:
        """Return the replicas by id, of which a new master knows its own before it has asked."""
        view = self.replica
        own = {} if view.broker_id is None else {view.broker_id: self.brokers[self.node]}
        nodes = {address: node for node, address in self.brokers.items()}
        return ReplicaNames(
            own=lambda: view.broker_id,
            registered=lambda: {**own, **view.registered},
            living=lambda: view.living,
            node_at=lambda address: nodes.get(address, ""),
            unknown=lambda: None,
        )

    # ---- mending ----

    async def log_range(self, start: int) -> GoodRange:
        """Implements `NodeHandle.log_range`."""
        return await log_range(self, start)

    async def repair_from(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Implements `Part`."""
        return await ClassicRepair(self, await self.group_state(), names).run()
